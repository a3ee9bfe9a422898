"""The rows of ``--lead N``: the beginning of the source, the usual baseline of summarisation."""

import re
from collections.abc import Sequence
from itertools import islice

from ..errors import UserError
from .output_reader import SystemOutput


def lead_rows(sources: Sequence[str] | None, lengths: Sequence[int], by_characters: bool) -> list[SystemOutput]:
    """Return the first words of every source as the output of a system, once for each length.

    Args:
        lengths: numbers of words. Shorter sources are complete.
        by_characters: count characters instead of words between spaces.

    Raises:
        UserError: if there are no sources.
    """
    if lengths and sources is None:
        raise UserError("--lead takes the beginning of the source; give the source with --src.")
    unit = re.compile(r"\S" if by_characters else r"\S+")
    rows = []
    for length in dict.fromkeys(lengths):
        texts = []
        for source in sources or ():
            *_, end = 0, *(match.end() for match in islice(unit.finditer(source), length))
            texts.append([source[:end].strip()])
        rows.append(SystemOutput(f"lead-{length}", texts, ""))
    return rows
