"""Published score tables, with the source and the scorer of every row. They are shown next to our own scores.

Each row's numbers were computed by its scorer on the paper's data, not by this package. ``wean-evaluate paper-tables``
prints them next to our results. There is one TOML file for each paper.
"""

from collections.abc import Container, Iterable, Sequence
from fnmatch import fnmatch
from math import isnan

from msgspec import Struct, convert

from ..text_files import read_table

_PAPERS = ("wean", "copynet", "cdnpg", "essays")

#: Tables of the four papers that are omitted here. They contain no scores, or we have not read them.
LEFT_OUT = (
    "CopyNet, Table 2: counts the pairs of LCSTS, no scores.",
    "C-DNPG, Tables 1 and 3: not kept here, no number of theirs was read.",
    "PC-SAN, all other tables: images that were not read.",
)


class PublishedColumn(Struct):
    """A column of a published table.

    Attributes:
        keys: keys of our scores with the same protocol in ``wean-evaluate --json``. The first of these keys that a
            result contains is used. It is empty if wean-evaluate computes no such score.
        own: name of our score, if its definition differs slightly from the published score.
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
        origin: who ran the system, and where the paper's number comes from. Empty = origin of the table.
        scorer: key of `SCORERS`. Empty = scorer of the table.
        runs: names of the system in our result files. Empty if it is not implemented here (reported, not run).
        outputs: file name of the system's released outputs. Empty if none were released.
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
        origin: origin of all rows that do not name one.
        scorer: scorer of all rows that do not name one.
        preset: the preset of this package that is closest to the table's protocol. Empty = the table contains no output
            scores. ``standard`` = no preset follows the protocol.
        references: number of references with which the published scores of released outputs were computed. 0 = no
            outputs were released.
        experiments: for each data set, the name patterns of our results on it.
        commands: for each data set, the command that computes our scores, in Markdown. The names of the systems replace
            ``{system}``.
        beside: our additional scores, without which the paper's columns would be misleading.
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


#: Description of each scorer, by its key.
SCORERS: dict[str, str] = read_table("published/scorers.toml")

#: The published tables by their keys, in the order of the papers.
PUBLISHED_TABLES: dict[str, PublishedTable] = {}
for _paper in _PAPERS:
    PUBLISHED_TABLES |= convert(read_table(f"published/{_paper}.toml"), dict[str, PublishedTable])
