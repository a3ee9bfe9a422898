#!/usr/bin/env python3
"""Write the table of patches into docs/architecture.md. With --check, only compare it with the document."""

import argparse
import sys
from pathlib import Path

from page_block import update_block

from wean_fairseq.host.table import PATCHES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"
BEGIN, END = "<!-- patches: scripts/patches.py -->\n", "<!-- end of patches -->\n"


def table() -> str:
    """Return the table as Markdown, with one row per patch."""
    rows = ["| replaced or set | by | reason | test |", "|---|---|---|---|"]
    for patch in PATCHES:
        target = f"`{patch.target}`" if patch.source else patch.target
        replacement = f"`{patch.replacement.__module__.rpartition('.')[2]}.{patch.replacement.__name__}`"
        file, _, function = patch.test.partition("::")
        rows.append(f"| {target} | {replacement} | {patch.defect} | `{file}`: `{function}` |")
    return "\n".join(rows) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write or check the table. Return the exit status."""
    parser = argparse.ArgumentParser(description="Write the table of patches into docs/architecture.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if the page differs")
    args = parser.parse_args(arguments)
    if not update_block(PAGE, (BEGIN, END), f"\n{table()}\n", check=args.check) and args.check:
        print("patches: docs/architecture.md differs from the table: run python scripts/patches.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
