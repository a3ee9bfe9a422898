"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin, 2004), computed by the rouge-score package from this package's tokens.

The default tokeniser of rouge-score deletes all characters except ``a-z0-9``. Identical Chinese sentences then score 0,
and two Chinese sentences that share only "iPhone 15" score 1. Therefore tokens always come from `tokenizers`. ``words``
is the ROUGE convention for any script that separates words, ``char`` and ``zh`` are for Chinese, and ``none`` is for
segmented text.

The WEAN and CopyNet papers score LCSTS by characters, each mapped to an ASCII symbol for ROUGE-1.5.5. The tokenisation
``char`` corresponds to that mapping. The C-DNPG code combines precision and recall with beta = 1.2
(``rouge-L(beta=1.2)``), as the COCO caption scorer does. `common_length` computes the length of the longest common
subsequence, because the table of all word pairs in rouge-score takes gigabytes and hours for a line of 100,000
characters.

The corpus score is the mean over sentences. With several references, the reference with the highest F counts.
"""

from collections.abc import Sequence
from types import SimpleNamespace

from ...optional import LazyModule
from ..tokenizers import Lowercase
from .base import MeanMetric

# Importing rouge_score also imports all of nltk, which takes half a second.
rouge_scorer = LazyModule("rouge_score.rouge_scorer")


class Rouge(MeanMetric):
    """One ROUGE variant.

    Args:
        variant: ``1``, ``2`` or ``L``.
        lowercase: whether case is ignored. The tokenisation ``words`` always ignores it.
        beta: weight of recall in F.
        max_tokens: maximum number of tokens of output and reference that are scored (``-l`` of ROUGE-1.5.5). None or 0
            = all.
    """

    def __init__(
        self,
        label: str = "ROUGE-L",
        variant: str = "L",
        tokenize: str = "words",
        lowercase: Lowercase = False,
        beta: float = 1.0,
        max_tokens: int | None = None,
    ) -> None:
        options: dict[str, str | int | float] = {"rouge": variant, "beta": beta}
        if max_tokens:
            options["limit"] = max_tokens
        super().__init__(label, tokenize, lowercase or tokenize == "words", options)
        if tokenize == "words":
            self.definition = 2  # in definition 1, a combining mark ended a word
        self._type = f"rouge{variant}"
        self._scorer = rouge_scorer.RougeScorer([self._type], tokenizer=SimpleNamespace(tokenize=str.split))
        self.beta = beta
        self.max_tokens = max_tokens

    def _preprocess_segment(self, sent: str) -> str:
        text = super()._preprocess_segment(sent)
        return " ".join(text.split()[: self.max_tokens]) if self.max_tokens else text

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        return max(self._f(*self._shares(reference, hypothesis)) for reference in references)

    def _shares(self, reference: str, hypothesis: str) -> tuple[float, float]:
        """Return precision and recall of the hypothesis against one reference."""
        if self._type != "rougeL":
            counts = self._scorer.score(reference, hypothesis)[self._type]
            return counts.precision, counts.recall
        expected, written = reference.split(), hypothesis.split()
        common = common_length(expected, written)
        return common / max(len(written), 1), common / max(len(expected), 1)

    def _f(self, precision: float, recall: float) -> float:
        square = self.beta**2
        bottom = recall + square * precision
        return float((1 + square) * precision * recall / bottom) if bottom > 0 else 0.0


def common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, using a few operations on a long integer per word.

    In the usual table, each row grows by 0 or 1 from one column to the next, so one bit per column describes the row
    (Hyyrö, 2004, "Bit-parallel LCS-length computation revisited", algorithm 4).
    """
    places: dict[str, int] = dict.fromkeys(second, 0)
    for place, word in enumerate(first):
        if word in places:
            places[word] |= 1 << place
    everywhere = (1 << len(first)) - 1
    row = everywhere  # a bit of the row is 0 where the row grows
    for word in second:
        matches = row & places[word]
        if matches:
            row = ((row + matches) | (row - matches)) & everywhere
    return len(first) - row.bit_count()
