"""A report as Markdown, for README files, issues and letters; figures are links to their PNG files."""

import os
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from markupsafe import Markup

from ..templates import render_template
from .document import Document, Piece
from .style import limited, printable

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!&])")
_STARTS_A_BLOCK = re.compile(r"^(\s*)([-+=]|\d+[.)](?=\s|$))")


def escape(text: str) -> str:
    """A text as Markdown that shows it as it is."""
    line = escape_inline(" ".join(text.split()))
    return _STARTS_A_BLOCK.sub(lambda match: f"{match[1]}{match[2][:-1]}\\{match[2][-1]}", line)


def render_markdown(document: Document, folder: Path) -> str:
    """Return the Markdown of a report.

    Args:
        folder: where the file will be, for links to figures.
    """
    return render_template(
        "wean_fairseq.reporting",
        "report.md.j2",
        folder="templates",
        finalize=lambda value: value if isinstance(value, Markup) else Markup(escape(str(value))),
        document=document,
        code=_code,
        words=_words,
        link=lambda path: Markup(Path(os.path.relpath(path, folder)).as_posix().replace(" ", "%20")),
    )


def _code(sentence: str) -> Markup:
    """Escape a sentence, but for the parts between backticks."""
    parts = enumerate(sentence.split("`"))
    return Markup(
        "".join(f"`{printable(limited(part))}`" if place % 2 else escape_inline(part) for place, part in parts)
    )


def escape_inline(text: str) -> str:
    """Escape a part of a line, whose outer spaces count."""
    return _SPECIAL.sub(r"\\\1", printable(limited(text)))


def _words(pieces: Sequence[Piece], glue: str) -> Markup:
    """The words of a sample, those of one kind together within a tag."""
    runs = groupby(pieces, key=lambda piece: piece.kind)
    return Markup("".join(_render_run(kind, [*found], glue) for kind, found in runs).removeprefix(glue))


def _render_run(kind: str, pieces: Sequence[Piece], glue: str) -> str:
    """Pieces of one kind; by tags, as Markdown's signs need spaces around them, which Chinese does not have."""
    spaces = ["" if piece.attached else glue for piece in pieces]
    text = "".join(space + escape_inline(piece.text) for space, piece in zip(spaces, pieces, strict=True))
    text = text[len(spaces[0]) :]
    tag = {"new": "b", "dropped": "del"}.get(kind)
    return spaces[0] + (f"<{tag}>{text}</{tag}>" if tag else text)
