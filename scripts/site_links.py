"""Links from the documents to files beside them: on the site, which has the documents alone, they are plain paths."""

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
_LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\((\.\./[^)\s]+)\)")


def on_page_markdown(markdown: str, **_about: Any) -> str:
    """Called by MkDocs for every page."""
    return _LINK.sub(_as_path, markdown)


def _as_path(link: re.Match[str]) -> str:
    """The text of a link, and the file that it leads to in the project."""
    text, target = link.groups()
    path = (DOCS / target.partition("#")[0]).resolve().relative_to(DOCS.parent)
    return text if text.strip("`") == str(path) else f"{text} (`{path}`)"
