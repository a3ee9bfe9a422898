"""A report as one HTML file: no script, nothing loaded from anywhere, every text escaped by the template engine.

Pictures are embedded as SVG images, in which a browser runs nothing; the page forbids everything else by its content
security policy.
"""

import base64
from pathlib import Path

from markupsafe import Markup

from ..templates import render_template
from .document import Document, FigureBlock
from .style import limited, printable


def render_page(document: Document) -> str:
    """Return the HTML of a report."""
    return render_template(
        "wean_fairseq.reporting",
        "report.html.j2",
        folder="templates",
        finalize=_make_printable,
        document=document,
        embedded=embedded,
    )


def _make_printable(value: object) -> object:
    """A value as the page shows it: nothing endless, no control characters, which HTML forbids even as references."""
    return printable(limited(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def embedded(figure: FigureBlock) -> Markup:
    """The picture of a figure as an address that holds it, in letters that need no escape."""
    return Markup("data:image/svg+xml;base64,") + base64.b64encode(Path(figure.svg).read_bytes()).decode("ascii")
