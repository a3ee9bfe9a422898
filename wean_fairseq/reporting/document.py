"""The parts of a report, independent of its format: sections of tables, figures, samples and sentences.

All texts are plain, and `pages` escapes them.
"""

import re
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import ClassVar

from ..evaluation.tables import Table


@dataclass
class FigureBlock:
    """A figure in files.

    Attributes:
        svg: the same figure, for pages and print.
        notes: sentences on what the figure shows.
    """

    png: Path
    svg: Path
    caption: str
    notes: list[str] = field(default_factory=list)
    kind: ClassVar[str] = "figure"


@dataclass(frozen=True)
class Piece:
    """Some words of a sample.

    Attributes:
        kind: ``copied``, ``new``, ``dropped`` or empty.
        title: tooltip, e.g. the probability that they were copied.
        attached: no space is written before them, as before a comma.
    """

    text: str
    kind: str = ""
    title: str = ""
    attached: bool = False


@dataclass(frozen=True)
class Sample:
    """A sentence of the test set: label -> pieces, the source first."""

    number: int
    lines: tuple[tuple[str, tuple[Piece, ...]], ...]


@dataclass
class SamplesBlock:
    """Outputs of several systems. ``glue`` is written between words (nothing in Chinese without spaces)."""

    caption: str
    samples: list[Sample]
    legend: list[Piece]
    glue: str = " "
    notes: list[str] = field(default_factory=list)
    kind: ClassVar[str] = "samples"


@dataclass
class ListBlock:
    """A list of sentences. ``level`` is ``warning`` or ``note``. The reader opens a ``folded`` list."""

    title: str
    items: list[str]
    level: str = "note"
    folded: bool = False
    kind: ClassVar[str] = "list"


Block = Table | FigureBlock | SamplesBlock | ListBlock


@dataclass
class Section:
    """A part of the report with a heading."""

    title: str
    blocks: list[Block]
    anchor: str = ""
    level: int = 2


@dataclass
class Document:
    """A whole report.

    Attributes:
        summary: sentences about the experiments.
        origin: the command and the date, with code between backticks.
    """

    title: str
    summary: list[str]
    sections: list[Section]
    origin: list[str]


def slug(text: str, used: set[str]) -> str:
    """Return a text as part of a file name or URL that differs from all in ``used``, and add it there."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:100] or "x"
    name = next(name for number in count(1) if (name := plain if number == 1 else f"{plain}-{number}") not in used)
    used.add(name)
    return name
