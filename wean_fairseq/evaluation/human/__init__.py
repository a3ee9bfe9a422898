"""Human evaluation kit: blinded rating sheets out, checked ratings with intervals, agreement and tests back in."""

from .design import Design, make_design
from .ratings import analyse, read_ratings
from .sheets import write_sheets
