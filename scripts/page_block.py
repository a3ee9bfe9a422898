"""Update generated blocks between two markers in documents, write their tables, and read the records behind them."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def read_record(path: str) -> dict[str, Any]:
    """Return the content of a record in results/ or benchmarks/."""
    content: dict[str, Any] = json.loads((ROOT / path).read_text(encoding="utf-8"))
    return content


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table as Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"|{'|'.join(line)}|\n" for line in lines)


def update_block(page: Path, markers: tuple[str, str], block: str, *, check: bool) -> bool:
    """Replace the text between two markers in a page, or with ``check`` only compare it.

    Return True if the page already had this text.
    """
    old = page.read_text(encoding="utf-8")
    before, rest = old.split(markers[0])
    new = f"{before}{markers[0]}{block}{markers[1]}{rest.split(markers[1])[1]}"
    if not check:
        page.write_text(new, encoding="utf-8")
    return new == old
