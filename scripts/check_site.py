"""Check the links, the assets and the page widths of the built documentation site.

    python scripts/check_site.py build/site

The script fails if a link leads nowhere, if a page loads anything from another host, or if a page or one of its tables
scrolls sideways in a window that is 1,280 pixels wide. If there is no Chromium on PATH, the widths are not checked, and
a message says so.
"""

import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1280, 800
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# This script finds elements that are wider than their container: the page itself, and elements that scroll.
_TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll(".md-typeset__scrollwrap, table, pre")]
  .filter((element) => element.scrollWidth > element.clientWidth + 1 && element.getClientRects().length)
  .map((element) => `${element.tagName.toLowerCase()} is ${element.scrollWidth} pixels wide, ` +
    `${element.clientWidth} fit: ${element.innerText.trim().slice(0, 60).replaceAll("\\n", " ")}`)"""


class Page(HTMLParser):
    """Links, loaded files and anchors of an HTML page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the addresses and the anchors of a tag."""
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        is_link = tag in ("a", "area") or (tag == "link" and values.get("rel") not in ("stylesheet", "icon", "preload"))
        for name in ("href", "src"):
            if name in values:
                (self.links if is_link else self.loaded).append(values[name])


def dead_links(site: Path) -> Iterator[str]:
    """Yield one message for each dead link, and for each file that is loaded from another host."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{name} loads {address} from another host"
        for address in [*page.links, *page.loaded]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            base = site.resolve() if parts.path.startswith("/") else path.parent
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                yield f"{name} links to {address}, which does not exist"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name} links to {address}, but {target.name} has no such heading"


def wide_pages(site: Path, browser: str) -> Iterator[str]:
    """Yield one message for each page with an element that is wider than the window."""
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=browser)
        tab = opened.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        for path in sorted(site.rglob("*.html")):
            tab.goto(path.resolve().as_uri())
            for problem in tab.evaluate(_TOO_WIDE):
                yield f"{path.relative_to(site)}: {problem}"
        opened.close()


def main(arguments: list[str]) -> int:
    """Print all problems of the site. Return the exit status."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print(f"check_site: error: give the folder of the site, not {arguments}; make docs builds it", file=sys.stderr)
        return 2
    site = Path(arguments[0])
    problems = list(dead_links(site))
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("check_site: no Chromium on PATH (Debian: apt-get install chromium), so widths are not checked")
    else:
        problems += wide_pages(site, browser)
    for problem in problems:
        print(f"check_site: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
