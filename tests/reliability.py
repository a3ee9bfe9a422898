"""Count the kills, faults and bad inputs that the tests cause, for docs/reliability.md.

Every process of a test run appends lines of JSON to the file of ``--reliability-record FILE``. Without this option, the
counts are discarded. ``scripts/reliability.py`` creates the page from them.
"""

import json
import os
from pathlib import Path
from typing import Any


class Reliability:
    """The counts of a test run.

    Args:
        record: file for the counts. With ``None``, they are not recorded.
    """

    def __init__(self, record: Path | None) -> None:
        self.record = record

    def count(self, kind: str, n: int = 1) -> None:
        """Add ``n`` to the count of a kind, such as "bad inputs tried".

        Call this method after the assertions about the counted cases.
        """
        file = os.environ.get("PYTEST_CURRENT_TEST", "").split("::")[0]
        self.append({"kind": kind, "n": int(n), "file": file})

    def append(self, entry: dict[str, Any]) -> None:
        """Append one line with a single write, so that the lines of several processes are never mixed."""
        if self.record is None:
            return
        descriptor = os.open(self.record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, f"{json.dumps(entry)}\n".encode())
        finally:
            os.close(descriptor)


def read_record(record: Path) -> list[dict[str, Any]]:
    """Return all entries that ``append`` has written."""
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
