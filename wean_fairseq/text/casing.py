"""Reversible true-casing: the first word of a line gets the case that it usually has inside sentences.

Only a capital letter at the start of the line changes, and only if ``capitalise`` can restore the text. All other words
keep their case: "THE", "iPhone" and "Facebook" are unchanged. A line that ``capitalise`` would change, such as a line
in lower case, gets ``￬`` (U+FFEC) as its first token. This mark means that the line keeps its case.
"""

import re
from collections.abc import Iterator, Mapping

CASE_MARK = "￬"
_LETTERS = r"[^\W\d_\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]+"  # letters except Han, kana and Hangul
_WORD = re.compile(_LETTERS)
_FIRST_WORD = re.compile(rf"[\W_]*({_LETTERS})")
_SENTENCE_END = re.compile(r"[.:!?…。！？]")


def cased_words(line: str) -> Iterator[str]:
    """Yield those words of a line whose case is not due to the start of a sentence."""
    end = 0
    for word in _WORD.finditer(line):
        has_case = word[0].lower() != word[0].upper()
        if has_case and end and not _SENTENCE_END.search(line, end, word.start()):
            yield word[0]
        end = word.end()


def true_case(line: str, usual: Mapping[str, str]) -> tuple[str, bool]:
    """Return the line in its true case, and whether it needs a mark because ``capitalise`` would change it.

    Args:
        usual: the most frequent form of each lower-cased word.
    """
    first = _FIRST_WORD.match(line)
    if first is not None:
        lower = first[1].lower()
        cased = line[: first.start(1)] + lower + line[first.end(1) :]
        if usual.get(lower) == lower and cased != line and capitalise(cased) == line:
            return cased, False
    return line, capitalise(line) != line


def capitalise(text: str) -> str:
    """Capitalise the first word of a text if it is in lower case. If that word is ``<unk>``, it is unchanged."""
    first = _FIRST_WORD.match(text)
    if first is None or not first[1].islower() or text.startswith("<unk>", first.start(1) - 1):
        return text
    start = first.start(1)
    return text[:start] + text[start].upper() + text[start + 1 :]
