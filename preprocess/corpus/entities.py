"""Placeholders of named entities (``PERSON@1``): what they stand for, and putting the words back."""

import re
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"[A-Za-z]+@\d+")


def is_placeholder(word: str) -> bool:
    """Whether a word is a placeholder, in whatever case."""
    return _PLACEHOLDER.fullmatch(word) is not None


def align(anonymised: str, original: str) -> dict[str, str] | None:
    """Placeholder -> words, read off the two forms of one sentence; nothing if they are not."""
    pattern, seen = [], set()
    for word in anonymised.split():
        if not is_placeholder(word):
            pattern.append(re.escape(word))
        elif word in seen:
            pattern.append(f"(?P={word.replace('@', '_')})")
        else:
            pattern.append(f"(?P<{word.replace('@', '_')}>.+?)")
            seen.add(word)
    match = re.fullmatch(" ".join(pattern), " ".join(original.split()))
    return None if match is None else {word: match[word.replace("@", "_")] for word in seen}


def restore(line: str, entities: Mapping[str, str]) -> str:
    """The line with words for its placeholders; one that the sentence does not have stays."""
    return " ".join(entities.get(word, word) for word in line.split())
