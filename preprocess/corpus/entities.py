"""Placeholders of named entities (``PERSON@1``): what they stand for, and putting the words back."""

import re
from collections import Counter
from collections.abc import Mapping

_MOST_STATES = 50_000  # of one sentence: less than a second
_PLACEHOLDER = re.compile(r"[A-Za-z]+@\d+")


def is_placeholder(word: str) -> bool:
    """Whether a word is a placeholder, in whatever case."""
    return _PLACEHOLDER.fullmatch(word) is not None


def align(anonymised: str, original: str) -> dict[str, str] | None:
    """Read the words of each placeholder off the two forms of one sentence.

    The search goes through the placeholders from left to right and tries the shortest name first. A state of the search
    is a place in both forms with the names of the placeholders that occur again. A state that failed is not tried
    twice, so the time is polynomial in the length. It grows fast only with placeholders that recur, hence the limit.

    Returns:
        Placeholder -> words, or ``None`` if the forms differ in anything else or the search reaches its limit.
    """
    pattern, words = anonymised.split(), original.split()
    repeated = {word for word, number in Counter(pattern).items() if number > 1}
    states: list[tuple[int, int, dict[str, list[str]]]] = [(0, 0, {})]
    tried, found = set(), 1
    while states and found < _MOST_STATES:
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
                last = len(words) - (len(pattern) - place - 1)  # the rest needs a word for each of its words
                following = pattern[place + 1] if place + 1 < len(pattern) else ""
                ends = [
                    end
                    for end in range(last, start, -1)  # the shortest name is taken from the stack first
                    if not following or is_placeholder(following) or words[end] == following
                ]
                states += [(place + 1, end, names | {pattern[place]: words[start:end]}) for end in ends]
                found += len(ends)
    return None


def restore(line: str, entities: Mapping[str, str]) -> str:
    """The line with words for its placeholders; one that the sentence does not have stays."""
    return " ".join(entities.get(word, word) for word in line.split())
