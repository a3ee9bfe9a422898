"""Traces of processing in a text, such as pieces of words, escapes and invisible characters: ``marks.toml``."""

import re
import unicodedata
from functools import cached_property

from msgspec import Struct, convert

from .text_files import read_table

#: Minimum share of lines with a mark for a report, unless the mark has its own minimum.
SOME = 0.01


class Mark(Struct, dict=True):
    """A trace of processing, see ``marks.toml``."""

    name: str
    advice: str
    pattern: str = ""
    refused: float = 2.0
    in_source: bool = False
    least: float = SOME
    counterpart: str = ""

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.IGNORECASE | re.MULTILINE)

    def found_in(self, text: str) -> bool:
        """Return whether a text has the mark."""
        if not self.pattern:
            return not unicodedata.is_normalized("NFC", text)
        return self._expression.search(text) is not None

    def has_counterpart(self, text: str) -> bool:
        """Return whether a text has the other form of the mark."""
        return re.search(self.counterpart, text) is not None


MARKS = convert(read_table("marks.toml")["marks"], list[Mark])
