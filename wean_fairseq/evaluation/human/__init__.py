"""Human evaluation kit: blinded rating sheets out, checked ratings with intervals, agreement and tests back in."""

from wean_fairseq.evaluation.human.design import Design, make_design
from wean_fairseq.evaluation.human.ratings import analyse, read_ratings
from wean_fairseq.evaluation.human.sheets import write_sheets

__all__ = ["Design", "analyse", "make_design", "read_ratings", "write_sheets"]
