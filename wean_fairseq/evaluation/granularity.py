"""Read the granularities of words in a trained C-DNPG from dumps, and compute their means in every layer.

``fairseq-generate --granularity-dump z.jsonl`` writes a dump of the granularities. ``wean-plot granularity`` draws them
as in the paper's figure 2, and writes their means. The pieces of a word (``@@`` or ``##``) are joined, and the
granularity of the word is their mean. Function words are the words of a fixed list: English articles, prepositions,
pronouns, auxiliaries, conjunctions and question words. Numbers and punctuation are neither function words nor content
words.
"""

import re
from collections.abc import Sequence
from math import sqrt
from statistics import mean, variance
from typing import NamedTuple, TypeVar

from msgspec import Struct

from ..errors import UserError
from .score_file import Probability
from .tables import Table
from .text_files import read_described, read_table

#: English function words.
FUNCTION_WORDS = frozenset(" ".join(read_table("function_words.toml").values()).split())
ItemT = TypeVar("ItemT")
_LAYER = re.compile(r"[1-9][0-9]{0,3}")  # only one spelling of each number, so that no layer occurs twice
SPECIAL_WORDS = ("<s>", "</s>", "<pad>", "<unk>")


class Sentence(NamedTuple):
    """The words of a sentence and their granularity z in each layer: ``granularity[layer][word]``.

    Attributes:
        number: number of the sentence in its test set, from 1. 0 = unknown.
    """

    words: list[str]
    granularity: dict[str, list[float]]
    number: int = 0


class _Granularity(Struct):
    """One line of a granularity dump."""

    source: list[str]
    source_granularity: dict[str, list[Probability]]

    def __post_init__(self) -> None:
        for layer, values in self.source_granularity.items():
            if not _LAYER.fullmatch(layer):
                raise ValueError(f"{layer!r:.40} is not the number of a layer, such as '1'")
            if len(values) != len(self.source):
                raise ValueError(f"layer {layer!r} has {len(values)} numbers for {len(self.source)} words")


def read_dump(path: str) -> list[Sentence]:
    """Return the sentences of a dump, in the order of the test set.

    Raises:
        UserError: if the file is not a dump of granularities.
    """
    described = read_described(path, _Granularity, "has no granularities: give a file that --granularity-dump wrote")
    sentences = [
        join_words(line.source, line.source_granularity)._replace(number=place + 1) for place, line in described.items()
    ]
    if not any(sentence.words and sentence.granularity for sentence in sentences):
        raise UserError(f"{path} has no words with granularities: was it dumped by another model?")
    return sentences


def join_words(pieces: list[str], granularity: dict[str, list[float]]) -> Sentence:
    """Join word pieces into words. A word's granularity z is the mean z of its pieces. Special symbols are omitted."""
    words: list[str] = []
    members: list[list[int]] = []
    goes_on = False
    for place, piece in enumerate(pieces):
        if piece in SPECIAL_WORDS:
            goes_on = False
            continue
        if (goes_on or piece.startswith("##")) and words:
            words[-1] += piece.removesuffix("@@").removeprefix("##")
            members[-1].append(place)
        else:
            words.append(piece.removesuffix("@@"))
            members.append([place])
        goes_on = piece.endswith("@@")
    joined = {
        layer: [mean(values[place] for place in word) for word in members] for layer, values in granularity.items()
    }
    return Sentence(words, joined)


def layer_table(sentences: Sequence[Sentence]) -> Table:
    """Return one table row per layer, starting with the lowest layer.

    A cell is empty if the layer has no words of that kind.

    The column ``standard_error`` is the standard error of the difference between the means of function words and
    content words, if words are independent.
    """
    head = (
        "layer function_words content_words difference standard_error number_of_function_words number_of_content_words"
    )
    rows = []
    for layer in sorted({layer for sentence in sentences for layer in sentence.granularity}, key=int):
        function: list[float] = []
        content: list[float] = []
        for sentence in sentences:
            for word, z in zip(sentence.words, sentence.granularity.get(layer, []), strict=False):
                if word.lower() in FUNCTION_WORDS:
                    function.append(z)
                elif word.isalpha():
                    content.append(z)
        difference = mean(content) - mean(function) if function and content else None
        means = [mean(group) if group else None for group in (function, content)]
        numbers = [*means, difference, standard_error(function, content)]
        cells = ["" if number is None else f"{number:.4f}" for number in numbers]
        rows.append([layer, *cells, str(len(function)), str(len(content))])
    return Table(head.split(), rows)


def standard_error(*groups: Sequence[float]) -> float | None:
    """Return the standard error of the difference of two means, or None if a group contains fewer than two numbers."""
    if min(map(len, groups)) < 2:
        return None
    return sqrt(sum(variance(group) / len(group) for group in groups))


def spread(items: Sequence[ItemT], number: int) -> list[ItemT]:
    """Return at most ``number`` of the items, spread evenly over all items."""
    number = min(number, len(items))
    return [items[index * len(items) // number] for index in range(number)]
