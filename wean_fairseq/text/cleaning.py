"""Clean a line of text so that all programs read it as one line, and count the changes.

These characters are removed: control characters (including NUL), lone surrogates, byte order marks and characters
without width (zero-width space, joiners and non-joiners, soft hyphens, direction marks). Characters that some program
treats as the end of a line (``\\r``, ``\\x0b``, ``\\x0c``, ``\\x1c``-``\\x1e``, ``\\x85``, U+2028, U+2029) are replaced
by a space. Otherwise, two tools could count different numbers of lines in one file. White space is reduced to single
spaces. Unicode is normalised (NFC).

Tokens that fairseq or this plugin would read as a special symbol (``<s>``, ``<pad>``, ``</s>``, ``<unk>``, ``<oov-3>``,
...) are written as ``&lt;unk&gt;``. Otherwise a literal ``</s>`` would end a sentence and a ``<pad>`` would be masked.
``restore_specials`` is the inverse. The word that a corpus itself uses for unknown words is converted to ``<unk>``
instead, because fairseq has an option to never generate it.
"""

import re
import unicodedata
from collections import Counter
from itertools import groupby
from typing import Literal, get_args

from ..errors import UserError
from ..ranges import checked

Form = Literal["NFC", "NFKC", "none"]
SpecialPolicy = Literal["escape", "refuse", "keep"]
FORMS, SPECIAL_POLICIES = get_args(Form), get_args(SpecialPolicy)

_BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029"
_ZERO_WIDTH = "\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"
_DIRTY = {
    "line_breaks_in_text": re.compile(f"[{_BREAKS}]"),
    "tabs_in_text": re.compile("\t"),
    "control_characters": re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]"),
    "lone_surrogates": re.compile("[\ud800-\udfff]"),
    "zero_width_characters": re.compile(f"[{_ZERO_WIDTH}]"),
}
# Hebrew to Mongolian, including Arabic and the Indic scripts, and symbols and emoji with their variation selectors.
_JOINED = "\u0590-\u1cff\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
_NEEDLESS = re.compile(f"(?![\u200c\u200d])[{_ZERO_WIDTH}]|(?<![{_JOINED}])[\u200c\u200d]")
_LONG_RUN = 1000  # number of combining marks after which sorting them is faster than Python's `normalize`
_OF_MARKS = "\u0f73\u0f75\u0f81\uff9e\uff9f"  # letters that some normal form replaces by combining marks only
_PARTED = {
    "NFC": str.maketrans({letter: unicodedata.normalize("NFD", letter) for letter in _OF_MARKS}),
    "NFKC": str.maketrans({letter: unicodedata.normalize("NFKD", letter) for letter in _OF_MARKS}),
}
_SPECIAL = re.compile(r"(?:(?<=\s)|^)<(/?s|pad|unk|mask|(?:oov|unk)-\d+)>(?=\s|$)")
_ESCAPED = re.compile(r"(?:(?<=\s)|^)&lt;(/?s|pad|unk|mask|(?:oov|unk)-\d+)&gt;(?=\s|$)")


class Cleaner:
    """Cleans lines, and counts the removed and changed characters in ``counts``.

    Args:
        form: Unicode normalisation form: ``NFC``, ``NFKC`` (which also converts full-width letters) or ``none``.
        specials: how to treat special symbols among the tokens: ``escape``, ``refuse`` or ``keep``.
        unknown: the word, in upper or lower case, that the corpus uses for unknown words. It is replaced by ``<unk>``.
            Empty = no such word.
        joiners: keep zero-width joiners and non-joiners in scripts that need them and in emoji.
    """

    def __init__(
        self, form: str = "NFC", specials: str = "escape", unknown: str = "", *, joiners: bool = False
    ) -> None:
        checked("form", form, Form)
        checked("specials", specials, SpecialPolicy)
        checked("unknown", unknown, str)
        self.form = form
        self.specials = specials
        self.counts: Counter[str] = Counter()
        self._dirty = _DIRTY | ({"zero_width_characters": _NEEDLESS} if joiners else {})
        self._unknown = re.compile(rf"(?<!\S){re.escape(unknown)}(?!\S)", re.IGNORECASE) if unknown else None

    def clean(self, line: str) -> str:
        """Return the normalised line without harmful characters and with single spaces between tokens."""
        if not line.isprintable():  # all characters that are changed below are unprintable
            for name, pattern in self._dirty.items():
                line, number = pattern.subn(" " if name.endswith("_in_text") else "", line)
                if number:
                    self.counts[name] += number
        if self.form != "none" and not unicodedata.is_normalized(self.form, line):  # type: ignore[arg-type]
            line = unicodedata.normalize(self.form, _sort_marks(line, self.form))  # type: ignore[arg-type]
            self.counts["lines_normalised"] += 1
        return " ".join(line.split())

    def guard(self, line: str) -> str:
        """Return the line with special symbols escaped.

        This must be the last step, because lower-casing can turn ``<UNK>`` into a special symbol.

        Raises:
            UserError: if the line contains a special symbol and ``specials`` is ``refuse``.
        """
        between = [line] if self._unknown is None else self._unknown.split(line)
        if len(between) > 1:
            self.counts["unknown_words"] += len(between) - 1
        return "<unk>".join(map(self._escape, between))

    def _escape(self, line: str) -> str:
        if "<" not in line or self.specials == "keep":
            return line
        escaped, number = _SPECIAL.subn(r"&lt;\1&gt;", line)
        if number and self.specials == "refuse":
            special = _SPECIAL.search(line)
            raise UserError(
                f"the text contains {special[0] if special else ''}, which fairseq would read as a special symbol: fix "
                f"the text, or choose --specials escape. It is in: {line[:80]!r}."
            )
        if number:
            self.counts["special_tokens_escaped"] += number
        return escaped


def _sort_marks(line: str, form: str) -> str:
    """Return the line with long runs of combining marks in canonical order. Its normal forms stay the same.

    Python's ``normalize`` needs a time that grows with the square of the length of a run.
    """
    if len(line) <= _LONG_RUN or line.isascii():
        return line
    line = line.translate(_PARTED[form])
    runs = (list(run) for _, run in groupby(line, key=lambda letter: unicodedata.combining(letter) > 0))
    # other letters have the class 0, so sorting does not change their order
    return "".join("".join(sorted(run, key=unicodedata.combining) if len(run) > _LONG_RUN else run) for run in runs)


def restore_specials(line: str) -> str:
    """Undo the escapes of ``guard``."""
    return _ESCAPED.sub(r"<\1>", line) if "&lt;" in line else line


_SPELLING = {
    "lrb": "-lrb-", "rrb": "-rrb-", "-LRB-": "-lrb-", "-RRB-": "-rrb-", "LRB": "-lrb-", "RRB": "-rrb-",
    "(": "-lrb-", ")": "-rrb-", "``": '"', "''": '"',
}  # fmt: skip


def one_spelling(line: str) -> str:
    """Return a line of tokens whose brackets, quotes and slashes are spelt as in the references of TurkCorpus."""
    return " ".join(_SPELLING.get(word, word) for word in line.replace("\\", "").split())
