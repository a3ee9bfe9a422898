"""The parts of a report (sections of tables, figures, samples and sentences), and its pages in HTML and Markdown.

All texts of a `Document` are plain. The templates of the pages escape every text.

The HTML page has no script and loads no files: figures are embedded as SVG images, in which browsers run no scripts,
and its content security policy forbids everything else. The Markdown page is meant for README files, issues and
letters. Its figures are linked PNG files.
"""

import base64
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, groupby
from pathlib import Path
from typing import Any, ClassVar

from markupsafe import Markup

from ..evaluation.tables import Table
from ..templates import render_template
from .style import displayable, limited

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!&])")
_STARTS_A_BLOCK = re.compile(r"^(\s*)([-+=]|\d+[.)](?=\s|$))")
_render = partial(render_template, "wean_fairseq.reporting", folder="templates")


@dataclass
class FigureBlock:
    """A figure, which is stored in files.

    Attributes:
        content: content of the file ``svg``.
        svg: file with the same figure as SVG, for web pages and print.
        notes: sentences that explain the figure.
    """

    png: Path
    svg: Path
    caption: str
    notes: list[str] = field(default_factory=list)
    content: bytes = b""
    kind: ClassVar[str] = "figure"


#: A function that draws a figure and writes it to a file. Its arguments are draw, name and caption.
Write = Callable[[Callable[[], Any], str, str], FigureBlock]


@dataclass(frozen=True)
class Piece:
    """One or more neighbouring words of a sample, all of the same kind.

    Attributes:
        kind: ``copied``, ``new``, ``dropped`` or empty.
        title: tooltip, for example the probability that the words were copied.
        attached: whether no space precedes the words, as before a comma.
    """

    text: str
    kind: str = ""
    title: str = ""
    attached: bool = False


@dataclass(frozen=True)
class Sample:
    """A sentence of the test set. It maps the label of each text to the pieces of the text, with the source first."""

    number: int
    lines: Sequence[tuple[str, Sequence[Piece]]]


@dataclass
class SamplesBlock:
    """Outputs of several systems. ``glue`` is written between words. It is empty for Chinese without spaces."""

    caption: str
    samples: list[Sample]
    legend: list[Piece]
    glue: str = " "
    notes: list[str] = field(default_factory=list)
    kind: ClassVar[str] = "samples"


@dataclass
class ListBlock:
    """A list of sentences. ``level`` is ``warning`` or ``note``.

    A ``folded`` list is shown closed until the reader opens it.
    """

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
        origin: the command and the date. Text between backticks is code.
    """

    title: str
    summary: list[str]
    sections: list[Section]
    origin: list[str]


def slug(text: str, used: set[str]) -> str:
    """Return a text as part of a file name or URL that is not in ``used`` yet, and add it to ``used``."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:100] or "x"
    name = next(name for number in count(1) if (name := plain if number == 1 else f"{plain}-{number}") not in used)
    used.add(name)
    return name


def html_page(document: Document) -> str:
    """Return the HTML of a report."""
    return _render("report.html.j2", finalize=_make_displayable, document=document, embedded=embedded)


def _make_displayable(value: object) -> object:
    """Return a text with limited length and without control characters, which HTML forbids even as references."""
    return displayable(limited(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def embedded(figure: FigureBlock) -> Markup:
    """Return a figure as a data URL. The URL needs no escaping in HTML."""
    return Markup("data:image/svg+xml;base64,") + base64.b64encode(figure.content).decode("ascii")


def escape(text: str) -> str:
    """Escape a text for Markdown."""
    line = escape_inline(" ".join(text.split()))
    return _STARTS_A_BLOCK.sub(lambda match: f"{match[1]}{match[2][:-1]}\\{match[2][-1]}", line)


def markdown_page(document: Document, folder: Path) -> str:
    """Return the Markdown of a report.

    Args:
        folder: directory of the Markdown file, for links to figures.
    """

    def link(path: Path) -> Markup:
        return Markup(Path(os.path.relpath(path, folder)).as_posix().replace(" ", "%20"))

    functions: dict[str, Any] = {"escape": escape, "code": _code, "words": _words, "link": link}
    return _render("report.md.j2", finalize=_escape_value, document=document, **functions)


def _escape_value(value: object) -> Markup:
    return value if isinstance(value, Markup) else Markup(escape(str(value)))


def _code(sentence: str) -> Markup:
    """Escape a sentence except for the code between backticks."""
    pieces = enumerate(sentence.split("`"))
    return Markup(
        "".join(f"`{displayable(limited(piece))}`" if place % 2 else escape_inline(piece) for place, piece in pieces)
    )


def escape_inline(text: str) -> str:
    """Escape a part of a line for Markdown. Spaces at its ends are kept."""
    return _SPECIAL.sub(r"\\\1", displayable(limited(text)))


def _words(pieces: Sequence[Piece], glue: str) -> Markup:
    """Return the words of a sample. Neighbouring words of the same kind share one tag."""
    runs = groupby(pieces, key=lambda piece: piece.kind)
    return Markup("".join(_render_run(kind, [*members], glue) for kind, members in runs).removeprefix(glue))


def _render_run(kind: str, pieces: Sequence[Piece], glue: str) -> str:
    """Return pieces of one kind in an HTML tag, because Markdown's own signs would need spaces around them."""
    spaces = ["" if piece.attached else glue for piece in pieces]
    text = "".join(space + escape_inline(piece.text) for space, piece in zip(spaces, pieces, strict=True))
    text = text[len(spaces[0]) :]
    tag = {"new": "b", "dropped": "del"}.get(kind)
    return spaces[0] + (f"<{tag}>{text}</{tag}>" if tag else text)
