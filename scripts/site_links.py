"""MkDocs hooks that add the documents outside docs/ and the API pages, point links to their pages, and draw formulas.

If a link points to a file of the project that is not a page of the site, the path of the file is shown as text instead.
Formulas are converted to MathML, which browsers render without JavaScript.
"""

import posixpath
import re
from html import unescape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert as mathml
from material.plugins.search import plugin as site_search
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "*/README.md", "examples/*/README.md")
_LINK = re.compile(r"(!?)\[([^\]\n]*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
_CODE = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)


def outside() -> dict[str, Path]:
    """Return the documents outside docs/ by their paths in the project."""
    paths = [path for pattern in OUTSIDE for path in sorted(ROOT.glob(pattern))]
    return {path.relative_to(ROOT).as_posix(): path for path in paths}


def api_pages() -> dict[str, str]:
    """Return a page of the API for each subpackage that docs/api.md and docs/modules.md do not describe."""
    described = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("api.md", "modules.md"))
    names = sorted(path.parent.name for path in (ROOT / "wean_fairseq").glob("*/__init__.py"))
    options = "    options:\n      show_root_heading: false\n      show_submodules: true\n"
    return {
        f"api/{name}.md": f"# wean_fairseq.{name}\n\n::: wean_fairseq.{name}\n{options}"
        for name in names
        if f"::: wean_fairseq.{name}" not in described
    }


def on_startup(**_about: Any) -> None:
    """Do not index the few Chinese words with jieba, which would store loadable files in the shared /tmp."""
    site_search.jieba = None


def on_files(files: Any, config: Any) -> Any:
    """Add the documents outside docs/, each at its path in the project, and the pages of the API."""
    for name, path in outside().items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for name, text in api_pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_about: Any) -> str:
    """Change the links of a page so that they work on the site."""
    name = page.file.src_uri
    return convert(markdown, name if name in outside() else f"docs/{name}")


def on_page_content(html: str, **_about: Any) -> str:
    """Replace the formulas that pymdownx.arithmatex has marked."""
    return _FORMULA.sub(lambda found: formula(unescape(found[2]), "block" if found[1] == "div" else "inline"), html)


def formula(latex: str, display: str = "inline") -> str:
    """Return LaTeX as MathML, with TeX's space between the name of a function and its argument."""
    drawn = mathml(latex, display=display)
    if "\\" in drawn:
        raise ValueError(f"unknown command in the formula {latex}: use one that latex2mathml and GitHub know")
    return re.sub(r"(<mi>\w\w+</mi>)(?=<m(?:i|n|sub|sup|subsup|row)>)", r'\1<mspace width="0.17em"/>', drawn)


def convert(markdown: str, document: str) -> str:
    """Return the text with links that work on the site.

    Args:
        document: path of the document in the project.
    """
    pages = set(outside())
    here = posixpath.dirname(document.removeprefix("docs/"))

    def relink(link: re.Match[str]) -> str:
        image, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(document), target))
        if path == "README.md":  # the README is the home page of the site
            place = "index.md"
        elif path.startswith("docs/"):
            place = path.removeprefix("docs/")
        else:
            place = next((page for page in (path, f"{path}/README.md") if page in pages), "")
        if place:
            return f"{image}[{text}]({posixpath.relpath(place, here or '.')}{anchor})"
        return text if path in text else f"{text} (`{path}`)"

    done, end = "", 0
    for code in [*_CODE.finditer(markdown), None]:
        start = code.start() if code else len(markdown)
        done += _LINK.sub(relink, markdown[end:start]) + (code[0] if code else "")
        end = code.end() if code else end
    return done
