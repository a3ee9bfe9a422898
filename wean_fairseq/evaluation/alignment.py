"""Compare two texts line by line, and detect texts whose lines are shifted or in another order."""

import html
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import UserError
from .metrics.base import FloatArray

#: Chinese, Japanese, Thai, Lao, Burmese and Khmer have no spaces between words.
SPACELESS = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_WORD = re.compile(r"\w+")
#: Unknown words, slots and tags in a log, in the notation of fairseq, BERT or sentencepiece.
_SYMBOL = re.compile(r"<[^<>\s]*>+|\[(?:CLS|MASK|PAD|SEP|UNK)\]|\u2047", re.IGNORECASE)
_ENTITY = re.compile(r"&#?\w+;")
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalnum())
#: Number of compared lines, spread evenly over the text.
_LOOKED_AT = 300
#: The first number is the maximum number of lines that contain a rare word. A candidate line shares at least the second
#: number of rare words with a line, and at most the third number of candidates is compared.
_RARE, _SHARED, _CANDIDATES = 50, 3, 5
#: Conditions for a misplaced line: another line contains at least the first share of its words (weighted by rarity),
#: its own line contains less than the second share, and the difference is at least the third number.
_FOUND, _LOST, _CLOSER = 0.5, 0.3, 0.3
#: Minimum share of misplaced lines in a shifted text, minimum share in a reordered text, and minimum number of
#: misplaced lines in both cases.
_SHIFTED, _SHUFFLED, _FEWEST = 0.05, 0.5, 3
#: First number: lines must resemble their own lines more than other lines by this number of standard errors. Texts are
#: not judged if they have fewer lines than the second number, or if their share of common words is below the third
#: number, as in texts in two languages.
_SIGNIFICANT, _TELLING, _COMMON = 2.0, 30, 0.002


def word_set(line: str) -> frozenset[str]:
    """Return the distinct words of a line.

    For a script without spaces, return the pairs of neighbouring characters instead.
    """
    text = line.lower()
    if SPACELESS.search(text):
        text = "".join(text.split())
        return frozenset(text[place : place + 2] for place in range(len(text) - 1))
    return frozenset(_WORD.findall(text))


def letters(text: str) -> str:
    """Return the letters and digits of a text in one case, which tokenisation and spreadsheet programs keep."""
    if text.isascii():  # ten times as fast
        return text.lower().encode().translate(None, _NO_LETTERS).decode()
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


class LogComparison:
    """The lines of a test set, with which the sources and targets in logs of fairseq-generate are compared.

    Log lines may be tokenised, in pieces, in lower case, truncated, and with symbols such as ``<unk>``. Therefore only
    their letters are compared. The letters of the test set are computed only once for all logs.
    """

    def __init__(self, sources: Sequence[str] | None, references: Sequence[Sequence[str]]) -> None:
        self._sources, self._references = sources, references

    @cached_property
    def _source_letters(self) -> list[list[str]]:
        return [list(map(_logged_letters, self._sources or ()))]

    @cached_property
    def _reference_letters(self) -> list[list[str]]:
        return [list(map(_logged_letters, text)) for text in self._references]

    def faults(self, name: str, logged: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """Report a log whose sources are not the lines of the test set with their numbers.

        Targets are only compared if there are no sources. They may be other texts than the references, so they are
        reported if most of them are references of other sentences. Logs of word numbers are not compared.

        Raises:
            UserError: if most sources are other lines of the test set.
        """
        has_sources = self._sources is not None and "S" in logged
        tag, role = ("S", "source") if has_sources else ("T", "reference")
        lines = logged.get(tag, ())
        texts = self._source_letters if has_sources else self._reference_letters
        pieces = list(map(_pieces, lines))
        if _are_numbers(pieces) and not _are_numbers(texts):
            return
        different = [n for n, line in enumerate(pieces) if not any(_holds(text[n], line) for text in texts)]
        if not different:
            return
        places = {text[n]: n for n in reversed(range(len(lines))) for text in texts}
        # A text can only be found at another place if none of its words is unknown.
        whole = {n: line[0] for n, line in enumerate(pieces) if len(line) == 1 and line[0]}
        moved = {n: places[whole[n]] for n in different if whole.get(n) in places}
        in_other_order = 2 * len(moved) > len(whole)
        are_most_different = 2 * len(different) > len(lines)
        if in_other_order or (has_sources and (moved or are_most_different)):
            wrong = different if are_most_different else [*moved]
            place = moved.get(wrong[0])
            text = (
                f"{name}: {len(wrong)} {tag}- lines of its log are not the lines of the {role} with their numbers; "
                f"the first is {tag}-{wrong[0]} ({lines[wrong[0]][:60]!r})"
                f"{'' if place is None else f', which is line {place + 1} of the {role}'}; "
                "give the files that fairseq-generate read."
            )
            if in_other_order and has_sources:
                raise UserError(text)
            yield text


def first_difference(lines: Sequence[str], others: Sequence[str]) -> int | None:
    """Return the index of the first line that is another sentence in another log, or None if there is none.

    The logs may be outputs of models with different dictionaries, whose unknown words and pieces differ. A log of word
    numbers is not compared with a log of words.
    """
    pieces, other_pieces = list(map(_pieces, lines)), list(map(_pieces, others))
    if _are_numbers(pieces) != _are_numbers(other_pieces):
        return None
    pairs = enumerate(zip(pieces, other_pieces, strict=False))
    return next((number for number, (first, second) in pairs if not _may_be_equal(first, second)), None)


def _may_be_equal(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether two log lines may be the same sentence, which either of them may truncate.

    If both have unknown words, only the letters before the first unknown word are compared.
    """
    if len(first) > 1 and len(second) > 1:
        return first[0].startswith(second[0]) or second[0].startswith(first[0])
    return _holds("".join(first), second) or _holds("".join(second), first)


def _logged_letters(text: str) -> str:
    """Return the letters of a text without the escapes of Moses and the marks of GPT-2's word pieces."""
    return letters(_ENTITY.sub(lambda match: html.unescape(match[0]), text).replace("\u0120", ""))


def _pieces(line: str) -> list[str]:
    """Return the letters of a log line before, between and after its symbols."""
    return list(map(_logged_letters, _SYMBOL.split(line)))


def _are_numbers(texts: Iterable[Iterable[str]]) -> bool:
    """Return whether no text has other characters than digits, as in a log of the word numbers of GPT-2."""
    return all(text.isdecimal() or not text for part in texts for text in part)


def _holds(text: str, pieces: Sequence[str]) -> bool:
    """Return whether a text contains the pieces one after another."""
    place = 0
    for piece in pieces:
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return True


@dataclass(frozen=True)
class Alignment:
    """Result of comparing some lines of a text with the lines of another text, called the anchor.

    Attributes:
        role: name of the anchor text, such as ``source``.
        moved: for each misplaced line, the number of the anchor line to which it belongs.
        own: for each compared line, the share of its words (weighted by rarity) that the anchor line with the same
            number contains.
        other: for each compared line, the share of its words that a different line of the anchor contains.
    """

    role: str
    moved: dict[int, int]
    own: FloatArray
    other: FloatArray

    @property
    def looked_at(self) -> int:
        """Number of lines that were compared."""
        return len(self.own)

    @property
    def is_unrelated(self) -> bool:
        """Return True if lines share words with the anchor, but not significantly more with their own lines."""
        if self.looked_at < _TELLING:
            return False
        distance = self.own - self.other
        is_near = distance.mean() > _SIGNIFICANT * distance.std() / math.sqrt(len(distance))
        return not is_near and bool(self.own.mean() + self.other.mean() > _COMMON)

    @property
    def fault(self) -> str:
        """Description of the misalignment, or an empty string if there is none.

        After a shift, most misplaced lines are displaced by the same distance. If the lines are in another order, the
        distances differ.
        """
        offsets = Counter(other - number for number, other in self.moved.items())
        offset, shifted = offsets.most_common(1)[0] if offsets else (0, 0)
        first = next((number for number, other in self.moved.items() if other - number == offset), 0)
        if shifted >= max(_FEWEST, _SHIFTED * self.looked_at, len(self.moved) / 2):
            return (
                f"shifted by {abs(offset)} line(s): line {first} belongs to {self.role} line {first + offset}, and "
                f"so on in {shifted} of {self.looked_at} lines looked at; "
                f"a line is {'missing' if offset > 0 else 'added'} before that"
            )
        different = len(set(self.moved.values()))
        if different >= max(_FEWEST, _SHUFFLED * self.looked_at):
            number, other = next(iter(self.moved.items()))
            return (
                f"in another order: line {number} belongs to {self.role} line {other}, {len(self.moved)} of "
                f"{self.looked_at} lines looked at belong to another line; bring all files into one order"
            )
        return ""


class Anchors:
    """A text to which other texts are aligned, with its name for messages."""

    def __init__(self, role: str, lines: Sequence[str]) -> None:
        self.role, self._lines = role, lines

    @cached_property
    def words(self) -> list[frozenset[str]]:
        """The set of words of every line."""
        return [word_set(line) for line in self._lines]

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """For each word, the numbers of the lines that contain it."""
        places: dict[str, list[int]] = defaultdict(list)
        for place, words in enumerate(self.words):
            for word in words:
                places[word].append(place)
        return dict(places)

    def _weight(self, word: str) -> float:
        """Return the weight of a word. It is larger for rarer words, and 0 if no line contains the word."""
        places = self._places.get(word)
        return math.log((1 + len(self._lines)) / len(places)) if places else 0.0

    def align(self, lines: Sequence[str]) -> Alignment:
        """Compare this text with another text, which must have the same number of lines."""
        step = max(1, len(lines) // _LOOKED_AT)
        moved, shares, others = {}, [], []
        for place in range(0, len(lines), step):
            words = word_set(lines[place])
            if not words:
                continue
            own = self._share(words, place)
            shares.append(own)
            others.append(self._share(words, (place + len(lines) // 2) % len(lines)))
            share, best = self._best(words) if own < _LOST else (0.0, place)
            if share >= _FOUND and share - own >= _CLOSER:
                moved[place + 1] = best + 1
        return Alignment(self.role, moved, np.array(shares), np.array(others))

    def _share(self, words: frozenset[str], place: int) -> float:
        """Return the share of the given words that line ``place`` contains. The words are weighted by their rarity."""
        weights = {word: self._weight(word) for word in words}
        return sum(weights[word] for word in words & self.words[place]) / (sum(weights.values()) or 1.0)

    def _best(self, words: frozenset[str]) -> tuple[float, int]:
        """Return the highest share of the given words that one line contains, and the number of this line."""
        rare = [places for word in words if len(places := self._places.get(word, [])) <= _RARE]
        shared = Counter(place for places in rare for place in places)
        likely = [place for place, number in shared.most_common(_CANDIDATES) if number >= _SHARED]
        return max(((self._share(words, place), place) for place in likely), default=(0.0, 0))
