"""Render a report as one HTML page and as Markdown, from templates in which every text is escaped.

The page has no script and loads no files: figures are embedded as SVG images, in which browsers run no scripts, and its
content security policy forbids everything else. The Markdown is for README files, issues and letters. Its figures are
links to PNG files.
"""

import base64
import os
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from markupsafe import Markup

from ..templates import render_template
from .document import Document, FigureBlock, Piece
from .style import displayable, limited

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!&])")
_STARTS_A_BLOCK = re.compile(r"^(\s*)([-+=]|\d+[.)](?=\s|$))")


def html_page(document: Document) -> str:
    """Return the HTML of a report."""
    return render_template(
        "wean_fairseq.reporting",
        "report.html.j2",
        folder="templates",
        finalize=_make_displayable,
        document=document,
        embedded=embedded,
    )


def _make_displayable(value: object) -> object:
    """Return a text of bounded length without control characters, which HTML forbids even as references."""
    return displayable(limited(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def embedded(figure: FigureBlock) -> Markup:
    """Return a figure as a data URL, which needs no escapes."""
    return Markup("data:image/svg+xml;base64,") + base64.b64encode(Path(figure.svg).read_bytes()).decode("ascii")


def escape(text: str) -> str:
    """Escape a text for Markdown."""
    line = escape_inline(" ".join(text.split()))
    return _STARTS_A_BLOCK.sub(lambda match: f"{match[1]}{match[2][:-1]}\\{match[2][-1]}", line)


def markdown_page(document: Document, folder: Path) -> str:
    """Return the Markdown of a report.

    Args:
        folder: directory of the file, for links to figures.
    """
    return render_template(
        "wean_fairseq.reporting",
        "report.md.j2",
        folder="templates",
        finalize=lambda value: value if isinstance(value, Markup) else Markup(escape(str(value))),
        document=document,
        escape=escape,
        code=_code,
        words=_words,
        link=lambda path: Markup(Path(os.path.relpath(path, folder)).as_posix().replace(" ", "%20")),
    )


def _code(sentence: str) -> Markup:
    """Escape a sentence except for the code between backticks."""
    pieces = enumerate(sentence.split("`"))
    return Markup(
        "".join(f"`{displayable(limited(piece))}`" if place % 2 else escape_inline(piece) for place, piece in pieces)
    )


def escape_inline(text: str) -> str:
    """Escape a part of a line, and keep its outer spaces."""
    return _SPECIAL.sub(r"\\\1", displayable(limited(text)))


def _words(pieces: Sequence[Piece], glue: str) -> Markup:
    """Return the words of a sample, with one tag around neighbouring words of one kind."""
    runs = groupby(pieces, key=lambda piece: piece.kind)
    return Markup("".join(_render_run(kind, [*members], glue) for kind, members in runs).removeprefix(glue))


def _render_run(kind: str, pieces: Sequence[Piece], glue: str) -> str:
    """Return pieces of one kind in an HTML tag, because Markdown's signs need spaces around them."""
    spaces = ["" if piece.attached else glue for piece in pieces]
    text = "".join(space + escape_inline(piece.text) for space, piece in zip(spaces, pieces, strict=True))
    text = text[len(spaces[0]) :]
    tag = {"new": "b", "dropped": "del"}.get(kind)
    return spaces[0] + (f"<{tag}>{text}</{tag}>" if tag else text)
