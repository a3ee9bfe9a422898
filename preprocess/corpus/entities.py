"""Find the words that named-entity placeholders (``PERSON@1``) replace, and restore the words in outputs."""

import re
from collections import Counter
from collections.abc import Mapping

_MOST_STATES = 50_000  # maximum number of search states per sentence. They take less than a second
_PLACEHOLDER = re.compile(r"[A-Za-z]+@\d+")


def is_placeholder(word: str) -> bool:
    """Return True if a word is a placeholder, in upper or lower case."""
    return _PLACEHOLDER.fullmatch(word) is not None


def align(anonymised: str, original: str) -> dict[str, str] | None:
    """Find the words of each placeholder by comparing both forms of a sentence.

    The search processes the placeholders from left to right and tries the shortest name first. A state of the search
    consists of a position in both forms, and of the names of placeholders that occur again. A state that failed is not
    tried again, so the time is polynomial in the length. It grows fast only if placeholders are repeated. Therefore
    there is a limit.

    Returns:
        The words of each placeholder, or ``None`` if the forms differ in other ways or the search reaches its limit.
    """
    pattern, words = anonymised.split(), original.split()
    repeated = {word for word, number in Counter(pattern).items() if number > 1}
    states: list[tuple[int, int, dict[str, list[str]]]] = [(0, 0, {})]
    tried, num_states = set(), 1
    while states and num_states < _MOST_STATES:
        place, start, names = states.pop()
        while place < len(pattern) and (pattern[place] in names or not is_placeholder(pattern[place])):
            expected = names.get(pattern[place], pattern[place : place + 1])
            if words[start : start + len(expected)] != expected:
                break
            place, start = place + 1, start + len(expected)
        else:
            if place == len(pattern):
                if start == len(words):
                    return {name: " ".join(meaning) for name, meaning in names.items()}
                continue
            state = (place, start, tuple(" ".join(names[name]) for name in sorted(repeated & names.keys())))
            if state not in tried:
                tried.add(state)
                # each remaining word of the pattern needs at least one word
                last = len(words) - (len(pattern) - place - 1)
                following = pattern[place + 1] if place + 1 < len(pattern) else ""
                ends = [
                    end
                    for end in range(last, start, -1)  # so that the shortest name is tried first
                    if not following or is_placeholder(following) or words[end] == following
                ]
                states += [(place + 1, end, names | {pattern[place]: words[start:end]}) for end in ends]
                num_states += len(ends)
    return None


def restore(line: str, entities: Mapping[str, str]) -> str:
    """Return the line with its placeholders replaced by words. Unknown placeholders stay unchanged."""
    words = " ".join(entities.get(word, word) for word in line.split())
    return " ".join(words.split())  # names in a file of entities may contain line breaks
