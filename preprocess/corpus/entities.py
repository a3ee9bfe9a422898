"""Find the words of named-entity placeholders (``PERSON@1``), and restore the words in outputs."""

import re
from collections import Counter
from collections.abc import Mapping

_MOST_STATES = 50_000  # maximum number of search states per sentence, which take less than a second
_PLACEHOLDER = re.compile(r"[A-Za-z]+@\d+")


def is_placeholder(word: str) -> bool:
    """Return True if a word is a placeholder, in any case."""
    return _PLACEHOLDER.fullmatch(word) is not None


def align(anonymised: str, original: str) -> dict[str, str] | None:
    """Find the words of each placeholder by comparing the two forms of one sentence.

    The search processes the placeholders from left to right and tries the shortest name first. A state of the search
    consists of a position in both forms and the names of the placeholders that occur again. A failed state is not tried
    twice, so the time is polynomial in the length. It grows fast only with repeated placeholders, which is why there is
    a limit.

    Returns:
        The words of each placeholder, or ``None`` if the forms have other differences or the search reaches its limit.
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
                last = len(words) - (len(pattern) - place - 1)  # each remaining pattern word needs one word
                following = pattern[place + 1] if place + 1 < len(pattern) else ""
                ends = [
                    end
                    for end in range(last, start, -1)  # the shortest name is popped first
                    if not following or is_placeholder(following) or words[end] == following
                ]
                states += [(place + 1, end, names | {pattern[place]: words[start:end]}) for end in ends]
                num_states += len(ends)
    return None


def restore(line: str, entities: Mapping[str, str]) -> str:
    """Return the line with words instead of its placeholders. Unknown placeholders stay unchanged."""
    words = " ".join(entities.get(word, word) for word in line.split())
    return " ".join(words.split())  # a file of entities may have line breaks in a name
