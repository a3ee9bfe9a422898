"""Published score tables, to be shown beside our own: what their papers report, row by row, with source and scorer.

A number here was computed by its row's scorer on its paper's data; nothing of it was run here. ``wean-evaluate
paper-tables`` prints them beside the results that are kept.
"""

from . import cdnpg, copynet, essays, wean
from .tables import SCORERS, Column, Row, Table

__all__ = ["LEFT_OUT", "SCORERS", "TABLES", "Column", "Row", "Table"]

#: Key -> table, in the order of the papers.
TABLES: dict[str, Table] = {**wean.TABLES, **copynet.TABLES, **cdnpg.TABLES, **essays.TABLES}

#: Tables of the four papers that hold no scores, or were not read.
LEFT_OUT = (
    "CopyNet, Table 2: counts the pairs of LCSTS, no scores.",
    "C-DNPG, Tables 1 and 3: not kept here, no number of theirs was read.",
    "PC-SAN, all other tables: images that were not read.",
)
