"""METEOR (Banerjee and Lavie, 2005), computed by NLTK with alpha 0.9, beta 3, gamma 0.5 and averaged over sentences.

Without WordNet, NLTK does not match synonyms. The score without synonyms is called ``meteor-exact-stem`` here and never
METEOR. NLTK's METEOR also differs from the Java program of METEOR's authors. It looks up the synonyms of *stems*, so
"car" matches "auto", but "automobile" matches neither of them. The signature names the versions of NLTK and of WordNet.
``meteor`` needs WordNet in a folder named by the environment variable NLTK_DATA, because no data is downloaded.
"""

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from ...errors import UserError
from ...optional import LazyModule
from .base import MeanMetric, SignatureItems

nltk = LazyModule("nltk")

# Maximum number of words in the caches. Without the caches, NLTK would stem and look up every word of every pair again
_MOST_WORDS = 2**17


def _no_synsets(word: str) -> list[Any]:
    return []


class Meteor(MeanMetric):
    """Mean of NLTK's sentence METEOR, as a percentage.

    Args:
        synonyms: whether synonyms from WordNet match.
    """

    def __init__(self, label: str = "METEOR-es", synonyms: bool = False, tokenize: str = "13a") -> None:
        """Load NLTK (and WordNet) immediately, so that a missing library is reported before scoring starts."""
        options: SignatureItems = {"modules": "exact+stem", "alpha": 0.9, "beta": 3, "gamma": 0.5}
        synsets = _no_synsets
        if synonyms:
            wordnet = _load_wordnet(label)
            synsets = wordnet.synsets
            options |= {"modules": "exact+stem+wordnet", "wordnet": wordnet.get_version()}
        super().__init__(label, tokenize, True, {**options, "nltk": nltk.__version__})
        self._score = nltk.translate.meteor_score.meteor_score
        self._stemmer = SimpleNamespace(stem=lru_cache(_MOST_WORDS)(nltk.PorterStemmer().stem))
        self._wordnet = SimpleNamespace(synsets=lru_cache(_MOST_WORDS)(synsets))

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        tokens = [reference.split() for reference in references]
        return float(self._score(tokens, hypothesis.split(), stemmer=self._stemmer, wordnet=self._wordnet))


def _load_wordnet(label: str) -> Any:
    wordnet = nltk.corpus.wordnet
    try:
        wordnet.ensure_loaded()
    except LookupError:
        raise UserError(
            f"{label} needs WordNet, which is not in NLTK's data folders; "
            "set NLTK_DATA to a copy or use meteor-exact-stem."
        ) from None
    except OSError as error:  # a file is missing, or is in a folder that NLTK refuses to read
        raise UserError(
            f"{label} cannot read WordNet in NLTK's data folders ({error}); "
            "put a complete copy there, no links, or use meteor-exact-stem."
        ) from None
    return wordnet
