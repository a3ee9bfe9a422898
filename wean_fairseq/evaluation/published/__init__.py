"""Published score tables, to be shown beside our own: what their papers report, row by row, with source and scorer.

A number here was computed by its row's scorer on its paper's data; nothing of it was run here. ``wean-evaluate
paper-tables`` prints them beside the results that are kept. The tables are data: a TOML file a paper, read here.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from math import isnan
from typing import Any

from ..text_files import read_table

_PAPERS = ("wean", "copynet", "cdnpg", "essays")

#: Tables of the four papers that hold no scores, or were not read.
LEFT_OUT = (
    "CopyNet, Table 2: counts the pairs of LCSTS, no scores.",
    "C-DNPG, Tables 1 and 3: not kept here, no number of theirs was read.",
    "PC-SAN, all other tables: images that were not read.",
)


@dataclass(frozen=True)
class Column:
    """A column of a published table.

    Attributes:
        keys: the scores of ours that follow the same protocol, as ``wean-evaluate --json`` calls them; the first that
            a result has is shown. Empty where ours are not made by wean-evaluate.
        own: what ours measures, where it is not quite the same.
        decimals: as many as the paper prints.
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
        """The score of ours that belongs here, or nothing where none of ``scored`` does."""
        return next((key for key in self.keys if key in scored), "")


@dataclass(frozen=True)
class Row:
    """The published numbers of one system on one data set.

    Attributes:
        scores: one a column; ``None`` where the paper has none.
        origin: who ran the system, and where the paper has the number from.
        scorer: key of `SCORERS`.
        runs: what our result files call the system; empty = it is not implemented here: reported, not run.
        outputs: what the file of its released outputs is called; empty = none were released.
        experiments: result files of ours that hold it, if not those of the whole table.
        command: what would measure it, if not the command of the whole table.
    """

    scores: tuple[float | None, ...]
    origin: str
    scorer: str
    runs: Sequence[str] = ()
    outputs: str = ""
    experiments: Sequence[str] = ()
    command: str = ""


@dataclass(frozen=True)
class Table:
    """A published table.

    Attributes:
        source: paper and table.
        rows: data set -> system -> published numbers, in the paper's order.
        preset: the preset of this package that follows its protocol most closely; empty = no scores of outputs,
            ``standard`` = a protocol that no preset follows.
        references: how many the published scores of released outputs were computed against; 0 = none were released.
        experiments: data set -> patterns of the names of our results on it.
        commands: data set -> what would measure ours, in Markdown; ``{system}`` stands for the systems.
        beside: scores of ours that the paper does not print, but without which its columns mislead.
    """

    source: str
    title: str
    columns: Sequence[Column]
    rows: dict[str, dict[str, Row]]
    preset: str = ""
    references: int = 0
    experiments: dict[str, Sequence[str]] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    note: str = ""
    beside: Sequence[Column] = ()


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one that a row or a table calls a result of ours."""
    return any(fnmatch(name, pattern) for pattern in patterns)


def _row(content: dict[str, Any]) -> Row:
    """A row from its TOML, which has no ``None``."""
    return Row(**{**content, "scores": tuple(None if isnan(score) else score for score in content["scores"])})


def _table(content: dict[str, Any]) -> Table:
    """A table from its TOML; its ``origin`` and ``scorer`` are those of all rows that name no other."""
    shared = {name: content.pop(name) for name in ("origin", "scorer")}
    rows = {
        data: {system: _row(shared | row) for system, row in systems.items()}
        for data, systems in content.pop("rows").items()
    }
    columns, beside = ([Column(**column) for column in content.pop(name, [])] for name in ("columns", "beside"))
    return Table(columns=columns, beside=beside, rows=rows, **content)


#: How a number was computed, as far as it is known.
SCORERS: dict[str, str] = read_table("published/scorers.toml")

#: Key -> table, in the order of the papers.
TABLES: dict[str, Table] = {
    key: _table(content) for paper in _PAPERS for key, content in read_table(f"published/{paper}.toml").items()
}
