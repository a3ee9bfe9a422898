"""Count the parameters of output layers, as in Table 5 of the WEAN paper."""

from dataclasses import dataclass

from ..console import OneLineParser
from .published import PUBLISHED_TABLES
from .tables import Table

#: Number of fairseq's special symbols (<s>, <pad>, </s>, <unk>). The dictionary contains them in addition to the n most
#: frequent words.
SPECIALS = 4
UNK = 3


@dataclass(frozen=True)
class Setting:
    """The sizes of one column of the table."""

    name: str
    words: int
    width: int


SETTINGS = (Setting("PWKP", 50_000, 256), Setting("EW-SEW", 50_000, 256), Setting("LCSTS", 4_000, 512))
TABLE = PUBLISHED_TABLES["wean-table5"]
COLUMN_HEADS = ["output layer", *(f"{setting.name} (V={setting.words:,}, d={setting.width})" for setting in SETTINGS)]
NOTE = f"Counted with a bias and {SPECIALS} special symbols in Seq2seq's matrix; the paper's number is V x d."
# The paper's WEAN row uses the largest score function, concat, which has 2 d^2 + d parameters.
ROWS = (
    ("Seq2seq: its own word matrix", "linear"),
    ("WEAN, concat", "concat"),
    ("WEAN, general (the default)", "general"),
    ("WEAN, dot", "dot"),
)


def count_parameters(score: str, words: int, width: int, *, specials: int = SPECIALS) -> int:
    """Return the number of parameters of an output layer, without the embeddings of encoder and decoder."""
    from ..modules import QueryEmbedding  # noqa: PLC0415 - needs torch

    layer = QueryEmbedding(score, width, width, words + specials, unk_index=UNK)
    return sum(parameter.numel() for parameter in layer.parameters())


def parameter_table() -> Table:
    """Return a table of output layers, with the counted and the published number of parameters for every setting."""
    published = {row.runs[0]: row.scores for rows in TABLE.rows.values() for row in rows.values()}
    rows = []
    for label, score in ROWS:
        counted = [f"{count_parameters(score, setting.words, setting.width):,}" for setting in SETTINGS]
        printed = [f" (paper: {number:.2f}M)" for number in published.get(score, ())] or [""] * len(SETTINGS)
        rows.append([label, *map(str.__add__, counted, printed)])
    caption = f"{TABLE.source}: {TABLE.title}"
    return Table(COLUMN_HEADS, rows, align="l" * len(COLUMN_HEADS), caption=caption, notes=[NOTE])


def parameters_command(argv: list[str]) -> str:
    """Run ``wean-evaluate parameters`` and return the table of counted and published numbers."""
    description = "Count the output layer's parameters at the sizes of the WEAN paper (its Table 5)."
    OneLineParser(prog="wean-evaluate parameters", description=description).parse_args(argv)
    return f"{parameter_table().as_text()}\n{NOTE}\n"
