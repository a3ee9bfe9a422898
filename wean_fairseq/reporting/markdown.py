"""A report as Markdown, for README files, issues and letters; figures are links to their PNG files."""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from .document import Block, Cell, Document, FigureBlock, ListBlock, Piece, SamplesBlock, TableBlock
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
    lines = [f"# {escape(document.title)}", ""]
    lines += [f"- {escape(sentence)}" for sentence in document.summary]
    lines += [f"- {_code(sentence)}" for sentence in document.origin]
    for section in document.sections:
        lines += ["", f"{'#' * section.level} {escape(section.title)}"]
        for block in section.blocks:
            lines += ["", *_block(block, folder)]
    return "\n".join(lines) + "\n"


def _code(sentence: str) -> str:
    """Escape a sentence, but for the parts between backticks."""
    parts = sentence.split("`")
    return "".join(
        f"`{printable(limited(part))}`" if place % 2 else escape_inline(part) for place, part in enumerate(parts)
    )


def escape_inline(text: str) -> str:
    """Escape a part of a line, whose outer spaces count."""
    return _SPECIAL.sub(r"\\\1", printable(limited(text)))


def _block(block: Block, folder: Path) -> Iterator[str]:
    if isinstance(block, TableBlock):
        yield from _table(block)
    elif isinstance(block, FigureBlock):
        yield f"![{escape(block.caption)}]({_link(block.png, folder)})"
        yield ""
        yield f"{escape(block.caption)} ([SVG]({_link(block.svg, folder)}))"
        yield from _notes(block.notes)
    elif isinstance(block, SamplesBlock):
        yield from _samples(block)
    elif isinstance(block, ListBlock):
        sign = "⚠ " if block.level == "warning" else ""
        yield f"**{sign}{escape(block.title)}**"
        yield ""
        yield from (f"- {escape(item)}" for item in block.items)


def _link(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix().replace(" ", "%20")


def _table(block: TableBlock) -> Iterator[str]:
    yield f"**{escape(block.caption)}**"
    yield ""
    yield f"| {' | '.join(escape(head) for head in block.head)} |"
    yield f"|---|{'--:|' * (len(block.head) - 1)}"
    for row in block.rows:
        yield f"| {' | '.join(_cell(cell) for cell in row)} |"
    yield from _notes(block.notes)


def _cell(cell: Cell) -> str:
    text = escape(cell.text) + (" ▽" if cell.mark == "beaten" else "")
    if cell.mark == "published":
        text = f"*{text}*" if text else text
    return f"{text} ({escape(cell.detail)})" if cell.detail else text


def _notes(notes: list[str]) -> Iterator[str]:
    for note in notes:
        yield ""
        yield escape(note)


def _samples(block: SamplesBlock) -> Iterator[str]:
    yield f"{escape(block.caption)}. <b>Bold</b>: not in the source; <del>struck</del>: of the source, left out."
    for sample in block.samples:
        yield ""
        yield f"Sentence {sample.number}"
        yield ""
        for label, pieces in sample.lines:
            runs = groupby(pieces, key=lambda piece: piece.kind)
            text = "".join(_render_run(kind, [*found], block.glue) for kind, found in runs)
            yield f"- *{escape(label)}*: {text.removeprefix(block.glue)}"
    yield from _notes(block.notes)


def _render_run(kind: str, pieces: Sequence[Piece], glue: str) -> str:
    """Pieces of one kind; by tags, as Markdown's signs need spaces around them, which Chinese does not have."""
    spaces = ["" if piece.attached else glue for piece in pieces]
    text = "".join(space + escape_inline(piece.text) for space, piece in zip(spaces, pieces, strict=True))
    text = text[len(spaces[0]) :]
    tag = {"new": "b", "dropped": "del"}.get(kind)
    return spaces[0] + (f"<{tag}>{text}</{tag}>" if tag else text)
