"""Human evaluation kit: write blinded rating sheets, and analyse the completed sheets."""

from .design import Design, make_design, write_sheets
from .ratings import analyse, read_ratings
