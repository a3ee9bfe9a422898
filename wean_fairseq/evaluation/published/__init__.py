"""Published score tables, with the source and the scorer of every row. They are shown next to our own scores.

The numbers were computed on the papers' data by the scorer of each row, not by this package. ``wean-evaluate
paper-tables`` prints them next to our results. Each paper has one TOML file.
"""

from collections.abc import Container, Iterable, Sequence
from fnmatch import fnmatch
from math import isnan

from msgspec import Struct, convert

from ..text_files import read_table

_PAPERS = ("wean", "copynet", "cdnpg", "essays")

#: Tables of the four papers that are omitted, because they contain no scores or were not read.
LEFT_OUT = (
    "CopyNet, Table 2: counts the pairs of LCSTS, no scores.",
    "C-DNPG, Tables 1 and 3: not kept here, no number of theirs was read.",
    "PC-SAN, all other tables: images that were not read.",
)


class PublishedColumn(Struct):
    """A column of a published table.

    Attributes:
        keys: keys in ``wean-evaluate --json`` of our scores that follow the same protocol. The first key that a result
            contains is used. Empty if wean-evaluate computes no such score.
        own: name of our score, if its definition differs slightly.
        decimals: number of decimals in the paper.
    """

    label: str
    keys: Sequence[str] = ()
    own: str = ""
    decimals: int = 2

    @property
    def head(self) -> str:
        return f"{self.label} (ours: {self.own})" if self.own else self.label

    def shown(self, score: float | None, absent: str) -> str:
        return absent if score is None else f"{score:.{self.decimals}f}"

    def key_in(self, scored: Container[str]) -> str:
        """Return the first of the keys that is in ``scored``, or an empty string."""
        return next((key for key in self.keys if key in scored), "")


class PublishedRow(Struct):
    """The published numbers of one system on one data set.

    Attributes:
        scores: one number per column. None (NaN in the file) if the paper does not report the number.
        origin: who ran the system, and the source of the paper's number. Empty = origin of the table.
        scorer: key of `SCORERS`. Empty = scorer of the table.
        runs: names of the system in our result files. Empty if it is not implemented here (reported, not run).
        outputs: name of the file of its released outputs. Empty if none were released.
        experiments: name patterns of the result files with this system, if they differ from the patterns of the table.
        command: command that scores the system, if it is not the command of the table.
    """

    scores: tuple[float | None, ...]
    origin: str = ""
    scorer: str = ""
    runs: Sequence[str] = ()
    outputs: str = ""
    experiments: Sequence[str] = ()
    command: str = ""

    def __post_init__(self) -> None:
        self.scores = tuple(None if score is None or isnan(score) else score for score in self.scores)


class PublishedTable(Struct):
    """A published table.

    Attributes:
        source: paper and table.
        columns: the columns in the paper's order.
        rows: data set -> system -> published numbers, in the paper's order.
        origin: origin of the rows that name no origin themselves.
        scorer: scorer of the rows that name no scorer themselves.
        preset: the preset of this package that is closest to the table's protocol. Empty = the table contains no output
            scores. ``standard`` = no preset follows the protocol.
        references: number of references with which the published scores of released outputs were computed. 0 = no
            outputs were released.
        experiments: data set -> name patterns of our results on it.
        commands: data set -> command that measures our scores, in Markdown. ``{system}`` is replaced by the systems.
        beside: additional scores from us, without which the paper's columns would be misleading.
    """

    source: str
    title: str
    columns: list[PublishedColumn]
    rows: dict[str, dict[str, PublishedRow]]
    origin: str
    scorer: str
    preset: str = ""
    references: int = 0
    experiments: dict[str, list[str]] = {}
    commands: dict[str, str] = {}
    note: str = ""
    beside: list[PublishedColumn] = []

    def __post_init__(self) -> None:
        for row in (row for systems in self.rows.values() for row in systems.values()):
            row.origin, row.scorer = row.origin or self.origin, row.scorer or self.scorer


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name matches one of the patterns of a row or a table."""
    return any(fnmatch(name, pattern) for pattern in patterns)


#: Scorer -> description.
SCORERS: dict[str, str] = read_table("published/scorers.toml")

#: Key -> table, in the order of the papers.
PUBLISHED_TABLES: dict[str, PublishedTable] = {}
for _paper in _PAPERS:
    PUBLISHED_TABLES |= convert(read_table(f"published/{_paper}.toml"), dict[str, PublishedTable])
