"""METEOR (Banerjee and Lavie, 2005) through NLTK, with alpha 0.9, beta 3, gamma 0.5, mean over sentences.

Without WordNet there are no synonyms: that number is called ``meteor-exact-stem`` here and never METEOR. NLTK's METEOR
also differs from the Java program of its authors; the signature names NLTK's version. Nothing is downloaded:
``meteor`` needs WordNet in a folder named by the environment variable NLTK_DATA.
"""

from functools import lru_cache
from typing import Any

from wean_fairseq.evaluation.errors import EvaluationError
from wean_fairseq.evaluation.metrics.base import MeanMetric


class _NoSynonyms:
    """Stands in for WordNet where there is none."""

    def synsets(self, word: str) -> list[Any]:
        """Know no synonym."""
        return []


class _CachedStemmer:
    """Porter's stemmer, each word once (NLTK stems every word of every pair anew)."""

    def __init__(self, stem: Any) -> None:
        """Wrap a stemming function."""
        self.stem = lru_cache(maxsize=2**17)(stem)


class Meteor(MeanMetric):
    """Mean of NLTK's sentence METEOR, as a percentage.

    Args:
        label: name in tables.
        synonyms: use WordNet.
        tokenize: how to split text.
    """

    def __init__(self, label: str = "METEOR-es", synonyms: bool = False, tokenize: str = "13a") -> None:
        """Load NLTK (and WordNet) now, so that a missing one is said before anything is computed."""
        try:
            import nltk
            from nltk.stem.porter import PorterStemmer
            from nltk.translate.meteor_score import meteor_score
        except ImportError:
            raise EvaluationError(
                f"{label} needs the package nltk; install it with `pip install wean_fairseq[meteor]`."
            ) from None
        modules = "exact+stem+wordnet" if synonyms else "exact+stem"
        super().__init__(
            label, tokenize, True, {"modules": modules, "alpha": 0.9, "beta": 3, "gamma": 0.5, "nltk": nltk.__version__}
        )
        self._score = meteor_score
        self._stemmer = _CachedStemmer(PorterStemmer().stem)
        self._wordnet = _load_wordnet(label) if synonyms else _NoSynonyms()

    def segment_value(self, hypothesis: list[str], references: list[list[str]]) -> float:
        """Score one sentence: the best reference counts."""
        return float(self._score(references, hypothesis, stemmer=self._stemmer, wordnet=self._wordnet))


def _load_wordnet(label: str) -> Any:
    """Return NLTK's WordNet or say what to do."""
    from nltk.corpus import wordnet

    try:
        wordnet.ensure_loaded()
    except LookupError:
        raise EvaluationError(
            f"{label} needs WordNet, which is not in NLTK's data folders; "
            "set NLTK_DATA to a copy or use meteor-exact-stem."
        ) from None
    return wordnet
