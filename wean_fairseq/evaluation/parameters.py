"""Parameters of the output layer, counted in layers that are really built: Table 5 of the WEAN paper.

python -m wean_fairseq.evaluation.parameters
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass

#: fairseq's special symbols come on top of the n most frequent words.
SPECIALS = 4
UNK = 3


@dataclass(frozen=True)
class Setting:
    """A column of the table: sizes, and what the paper prints in millions for the baseline and for WEAN."""

    name: str
    words: int
    width: int
    published_linear: str
    published_wean: str


SETTINGS = (
    Setting("PWKP", 50_000, 256, "12.80M", "0.13M"),
    Setting("EW-SEW", 50_000, 256, "12.80M", "0.13M"),
    Setting("LCSTS", 4_000, 512, "2.05M", "0.52M"),
)
# The paper's WEAN row is that of its largest score, concat: 2 d^2 + d.
ROWS = (
    ("Seq2seq: a word matrix of its own", "linear"),
    ("WEAN, concat", "concat"),
    ("WEAN, general (the default)", "general"),
    ("WEAN, dot", "dot"),
)


def count_parameters(score: str, words: int, width: int, *, specials: int = SPECIALS) -> int:
    """Trainable numbers of the output layer alone; the embedding belongs to encoder and decoder anyway."""
    from ..modules import QueryEmbedding

    layer = QueryEmbedding(score, width, width, words + specials, unk_index=UNK)
    return sum(parameter.numel() for parameter in layer.parameters())


def render_table(settings: Sequence[Setting] = SETTINGS) -> str:
    """The table, counted beside published."""
    heads = [f"{setting.name} (V={setting.words:,}, d={setting.width})" for setting in settings]
    rows = [["output layer", *heads]]
    for label, score in ROWS:
        row = [label]
        for setting in settings:
            published = {"linear": setting.published_linear, "concat": setting.published_wean}.get(score)
            counted = f"{count_parameters(score, setting.words, setting.width):,}"
            row.append(counted + (f" (paper: {published})" if published else ""))
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m wean_fairseq.evaluation.parameters",
        description="Count the output layer's parameters at the sizes of the WEAN paper (its Table 5).",
    )
    parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    print(render_table(), end="")
    print(f"Counted with a bias and {SPECIALS} special symbols in Seq2seq's matrix; the paper's number is V x d.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
