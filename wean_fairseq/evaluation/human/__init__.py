"""Human evaluation kit: write blinded rating sheets, and analyse the checked ratings."""

from .design import Design, make_design
from .ratings import analyse, read_ratings
from .sheets import write_sheets
