"""The parts of a report, whatever it is written as: sections of tables, figures, samples and sentences.

Everything here is plain text; `pages` escapes it.
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
        svg: the same, for pages and print.
        notes: what can be read off it, in sentences.
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
        kind: ``copied``, ``new``, ``dropped`` or nothing.
        title: more about them, e.g. how probably they were copied.
        attached: no space is before them, as before a comma.
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
    """Outputs side by side; ``glue`` stands between words (nothing in Chinese without spaces)."""

    caption: str
    samples: list[Sample]
    legend: list[Piece]
    glue: str = " "
    notes: list[str] = field(default_factory=list)
    kind: ClassVar[str] = "samples"


@dataclass
class ListBlock:
    """Sentences; ``level`` is ``warning`` or ``note``, and ``folded`` ones are opened by the reader."""

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


def slug(text: str, taken: set[str]) -> str:
    """A text as part of a file name or of an address, unlike all that are ``taken``, to which it is added."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:100] or "x"
    name = next(name for number in count(1) if (name := plain if number == 1 else f"{plain}-{number}") not in taken)
    taken.add(name)
    return name
