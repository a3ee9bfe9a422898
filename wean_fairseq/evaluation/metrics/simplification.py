"""Numbers that describe a simplification without references: FKGL, and the features that EASSE prints with SARI.

The definitions follow EASSE (Alva-Manchego et al., 2019) and the program that introduced its features (Martin et al.,
2018). They use the same 13a tokens. EASSE splits sentences with Punkt. In 13a tokens, Punkt's model has no effect,
because every period outside of a number has a space before it. Therefore each separate ``.``, ``?`` or ``!`` ends a
sentence. The exact copies that EASSE counts correspond to `CopyRate`. EASSE's word ranks (lexical complexity) are
omitted, because they need a table of word frequencies.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ...optional import LazyModule
from ..tokenizers import get_tokenizer
from .base import FloatArray, MeanMetric, OwnMetric, SourceMixin, ratio
from .rouge import common_length

langdata = LazyModule("readability.langdata")

#: The end of a sentence is a separate punctuation mark, and the closing quotation marks or brackets after it.
_END = re.compile(r"""(?<!\S)[.?!](?:[ ]["')\]}]+)?(?!\S)""")


def count_sentences(tokens: str) -> int:
    """Count the sentences in a text whose tokens are separated by single spaces.

    Punctuation without words also counts as a sentence.
    """
    return len(_END.findall(tokens)) + bool(_END.split(tokens)[-1].strip())


class Fkgl(OwnMetric):
    """Flesch-Kincaid grade level of all outputs: 0.39 words/sentence + 11.8 syllables/word - 15.59, at least 0."""

    direction = None

    def __init__(self, label: str = "FKGL") -> None:
        """Load the syllable counter immediately, so that a missing library is reported before scoring starts."""
        self._syllables = _syllable_counter(label)
        super().__init__(label, "13a", True, {"syllables": "fast-1999"})

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        """Return (words, sentences, syllables). Punctuation marks count as words, as in EASSE."""
        words = hypothesis.split()
        return [len(words), count_sentences(hypothesis), sum(map(self._syllables, words))]

    def scores_of(self, totals: FloatArray) -> FloatArray:
        words, sentences, syllables = totals.T
        grade = 0.39 * ratio(words, sentences) + 11.8 * ratio(syllables, words) - 15.59
        return np.where(words == 0, 0.0, np.maximum(grade, 0.0))


def _syllable_counter(label: str) -> Callable[[str], int]:
    """Return a function that counts the syllables of a word as EASSE does.

    The function applies the rule of Lingua::EN::Syllable (Fast, 1999), which the package readability contains, too.
    There are three changes: every final e is silent, letters with accents are not vowels, and "the" has one syllable
    instead of none.
    """
    exceptions = {word: int(count) for word, count in map(str.split, langdata.specialsyllables_en.splitlines())}
    exceptions["the"] = 1
    consonant = str.maketrans({vowel: "ß" for vowel in langdata.VOWELS if not vowel.isascii()})

    @lru_cache(maxsize=2**17)
    def count(word: str) -> int:
        if word in exceptions:
            return exceptions[word]
        # countsyllables_en removes one final e
        return int(langdata.countsyllables_en(word.rstrip("e").translate(consonant) + "e"))

    return count


class _PairFeature(SourceMixin, MeanMetric):
    """Mean over sentences of a number that compares the 13a tokens of output and source, ignoring case."""

    direction = None

    def __init__(self, label: str) -> None:
        super().__init__(label, "13a", True, {"avg": "sentence"})


class CharacterRatio(_PairFeature):
    """Characters of the output divided by characters of the source: EASSE's compression ratio (1 = equal length)."""

    scale = 1.0

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        return len(hypothesis) / len(references[0]) if references[0] else 0.0


class LevenshteinSimilarity(CharacterRatio):
    """EASSE's Levenshtein similarity: 1 - edits / characters of both texts, where a substitution counts as two edits.

    It equals twice the length of the longest common subsequence, divided by the characters of both texts.
    """

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        both = len(hypothesis) + len(references[0])
        return 2 * common_length(references[0], hypothesis) / both if both else 1.0


class SentenceSplits(CharacterRatio):
    """Number of sentences of the output divided by the number of sentences of the source."""

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        sentences = count_sentences(references[0])
        return count_sentences(hypothesis) / sentences if sentences else 0.0


class WordChanges(_PairFeature):
    """Words that only the output has (additions) or only the source has (deletions), in percent of the longer text.

    Args:
        deletions: whether to count the words that only the source has.
    """

    def __init__(self, label: str, deletions: bool) -> None:
        super().__init__(label)
        self.deletions = deletions
        self.signature_items["count"] = "deletions" if deletions else "additions"
        self._again = get_tokenizer("13a")

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        """Return the share, or 0 if both texts are empty.

        As in EASSE, the length is the number of tokens after the text was tokenised twice.
        """
        texts = (hypothesis, references[0])
        longer = max(len(self._again(text).split()) for text in texts)
        output, source = (Counter(text.split()) for text in texts)
        changed = source - output if self.deletions else output - source
        return changed.total() / longer if longer else 0.0
