"""Published score tables, to be shown beside our own: reported by their papers, not run here.

A number here was computed by its paper's scorer on its paper's data; ``Table.note`` says what is known about both.
"""

from typing import NamedTuple


class Table(NamedTuple):
    """A published table.

    Attributes:
        source: paper and table.
        preset: the preset of this package that follows its protocol most closely.
        metrics: its columns, in the order of that preset's.
        rows: data set -> system -> a score a column; ``None`` where the paper has none.
        note: what a reader of the numbers must know.
    """

    source: str
    preset: str
    metrics: tuple[str, ...]
    rows: dict[str, dict[str, tuple[float | None, ...]]]
    note: str


CDNPG_TABLE2 = Table(
    source="Gu et al., COLING 2022, Table 2",
    preset="paper:cdnpg-compat",
    metrics=("iBLEU", "BLEU-2", "BLEU-4", "ROUGE-L", "METEOR"),
    rows={
        "quora": {
            "residual_lstm": (20.45, 40.71, 26.20, 36.19, 32.67),
            "pointer_generator": (22.65, 43.82, 28.80, 42.36, 40.87),
            "transformer": (21.14, 37.97, 26.88, 40.14, 38.21),
            "copy_transformer": (22.90, 44.42, 28.94, 37.60, 38.34),
            "dnpg": (24.55, 47.72, 31.01, 42.37, 42.12),
            "FSET": (None, 51.03, 33.46, None, 38.57),
            "cdnpg_r": (26.94, 47.58, 34.05, 46.17, 44.75),
            "cdnpg_s": (26.68, 47.48, 33.93, 46.22, 46.66),
            "cdnpg_rs": (25.96, 46.25, 33.02, 44.64, 44.25),
            "cdnpg_r+s": (26.66, 50.96, 33.69, 44.45, 43.33),
        },
        "twitter_url": {
            "residual_lstm": (20.29, 36.75, 25.92, 32.47, 29.44),
            "pointer_generator": (25.60, 44.50, 32.40, 38.48, 36.48),
            "transformer": (24.44, 44.45, 31.12, 31.97, 32.49),
            "copy_transformer": (27.07, 48.44, 34.35, 38.37, 38.19),
            "dnpg": (25.92, 46.36, 32.91, 36.77, 36.28),
            "FSET": (None, 46.35, 34.62, None, 31.67),
            "cdnpg_r": (27.96, 49.98, 35.80, 38.67, 39.39),
            "cdnpg_s": (28.19, 49.10, 35.95, 38.89, 39.06),
            "cdnpg_rs": (30.25, 49.00, 38.58, 41.60, 41.71),
            "cdnpg_r+s": (28.73, 50.49, 36.61, 39.80, 40.42),
        },
    },
    note=(
        "The published iBLEU compares with the letters of the first source word, not with the source. The row FSET was "
        "copied by the paper from another one with its own preprocessing and scorer, and is not implemented here."
    ),
)
TABLES = {"cdnpg-table2": CDNPG_TABLE2}
