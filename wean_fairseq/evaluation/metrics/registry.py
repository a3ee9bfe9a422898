"""The metrics of ``--metric``, with their names, labels, help texts and constructors."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from ...errors import UserError
from ...ranges import Count, check_fields
from ..tokenizers import Lowercase, TextTokenizer
from . import words
from .base import Direction, EvaluationMetric
from .bleu import Bleu, Chrf, IBleu, NltkBleu, SelfBleu, Ter
from .embeddings import BertScore, Similarity, SourceSimilarity
from .meteor import Meteor
from .method7 import Method7Bleu, Method7IBleu, Method7SelfBleu
from .rouge import Rouge
from .sari import Sari, SentenceSari
from .simplification import CharacterRatio, Fkgl, LevenshteinSimilarity, SentenceSplits, WordChanges


@dataclass(frozen=True)
class MetricSettings:
    """Settings of metrics. A user sets them for all metrics at once, and a preset may fix them for one column.

    Attributes:
        tokenize: ``13a``, ``none``, ``zh`` or ``char``.
        lowercase: whether BLEU, the metrics built on it, legacy SARI and chrF ignore case, see `Lowercase`. SARI, copy
            rate and novelty always ignore case.
        alpha: weight of the reference in iBLEU.
        max_tokens: maximum number of tokens of output and reference that are scored (ROUGE only). None or 0 = all.
        defective: compute self-BLEU against the letters of the first source word, as in the C-DNPG code (method 7
            only).
        bert_model: folder of a local model for BERTScore.
        bert_layer: number of the layer of that model.
        sentence_model: folder of a local sentence encoder.
        sari_weight: value of r in legacy SARI's formula, if it is not the number of references.
        operation: name of the operation, if a single operation of SARI is scored. Empty = the full SARI.
        brackets: write round brackets as -lrb- and -rrb- (Xu's SARI only).
    """

    tokenize: TextTokenizer = "13a"
    lowercase: Lowercase = False
    alpha: Annotated[float, Meta(ge=0, le=1)] = 0.9
    max_tokens: Count | None = None
    defective: bool = False
    bert_model: str | None = None
    bert_layer: int = -1
    sentence_model: str | None = None
    sari_weight: Annotated[int, Meta(ge=1)] | None = None
    brackets: bool = False
    operation: Literal["", "add", "keep", "delete"] = ""

    def __post_init__(self) -> None:
        """Raise ``UserError`` if a value has another type, is not one of the choices or is outside its range."""
        check_fields(self)

    @property
    def cased(self) -> dict[str, Any]:
        """Arguments of metrics for which the user chooses tokenisation and case."""
        return {"tokenize": self.tokenize, "lowercase": self.lowercase}

    @property
    def rouge(self) -> dict[str, Any]:
        """Arguments of ROUGE. It has its own tokenisation for text whose words are separated by spaces."""
        tokenize = "words" if self.tokenize == "13a" else self.tokenize
        return {"tokenize": tokenize, "lowercase": self.lowercase, "max_tokens": self.max_tokens}


class MetricEntry(NamedTuple):
    """A metric, and its line in the list of metrics at the end of ``wean-evaluate --help``.

    Attributes:
        bind: function that binds all arguments of the metric's class except the label.
        standard: whether the metric belongs to the ``standard`` set.
    """

    label: str
    help: str
    bind: Callable[[MetricSettings], partial[Any]]
    standard: bool = False

    def direction(self, **fixed: Any) -> Direction:
        """Return the metric's direction under the settings ``fixed``, without building the metric."""
        metric = self.bind(replace(MetricSettings(), **fixed))
        kind: Any = metric.func
        return None if metric.keywords.get("operation") else kind.direction


_TEXTS = {
    "bleu": ("BLEU", "corpus BLEU-4 by sacreBLEU"),
    "bleu2": ("BLEU-2", "corpus BLEU of orders 1 and 2 by sacreBLEU"),
    "bleu-nltk": (
        "NLTK-BLEU",
        "corpus BLEU-4 by NLTK's rules: its words, smoothing method 3 (needs Punkt in NLTK_DATA)",
    ),
    "sari": ("SARI", "corpus SARI, equal to EASSE's"),
    "sari-add": ("add", "F1 of the n-grams that SARI's output adds"),
    "sari-keep": ("keep", "F1 of the n-grams that SARI's output keeps"),
    "sari-delete": ("delete", "F1 of the n-grams that SARI's output deletes"),
    "sari-legacy": ("SARI-legacy", "corpus SARI with the source split at spaces, as Zhang and Lapata print it"),
    "sari-xu": ("SARI-xu", "mean sentence SARI with the precision of deletion, Xu's own program"),
    "chrf": ("chrF", "chrF by sacreBLEU"),
    "ter": ("TER", "TER by sacreBLEU; less is better"),
    "ibleu": ("iBLEU", "alpha * BLEU against references - (1 - alpha) * BLEU against source"),
    "ibleu-0.7": ("iBLEU(0.7)", "iBLEU with alpha = 0.7, which rewards copying less"),
    "self-bleu": ("self-BLEU", "BLEU against the source"),
    "rouge-1": ("ROUGE-1", "F1 of words (Chinese: characters), mean over sentences"),
    "rouge-2": ("ROUGE-2", "F1 of bigrams, mean over sentences"),
    "rouge-l": ("ROUGE-L", "F1 of the longest common subsequence, mean over sentences"),
    "rouge-l-beta": ("ROUGE-L(1.2)", "ROUGE-L with beta = 1.2, as in the C-DNPG code"),
    "meteor-exact-stem": ("METEOR-es", "NLTK's METEOR without WordNet synonyms"),
    "meteor": ("METEOR", "NLTK's METEOR with WordNet"),
    "bertscore": ("BERTScore", "F1 of matched contextual embeddings (needs --bert-model)"),
    "similarity-reference": (
        "sim-ref",
        "cosine of output and reference by a sentence encoder (needs --sentence-model)",
    ),
    "similarity-source": ("sim-src", "cosine of output and source by a sentence encoder (needs --sentence-model)"),
    "nltk-m7-legacy": ("m7-BLEU-4", "mean sentence BLEU-4, method 7 as in NLTK <= 3.4.5"),
    "nltk-m7-legacy-2": ("m7-BLEU-2", "mean sentence BLEU-2, method 7 as in NLTK <= 3.4.5"),
    "nltk-m7": ("m7new-BLEU-4", "mean sentence BLEU-4, method 7 as in NLTK >= 3.6"),
    "nltk-m7-2": ("m7new-BLEU-2", "mean sentence BLEU-2, method 7 as in NLTK >= 3.6"),
    "self-nltk-m7-legacy": ("m7-self", "mean sentence BLEU-4 (legacy method 7) against the source"),
    "ibleu-nltk-m7-legacy": ("m7-iBLEU", "iBLEU from legacy method-7 sentence scores, mean over sentences"),
    "exact@1": ("exact@1", "share of outputs equal to a reference"),
    "exact@10": ("exact@10", "share of inputs with a reference among the 10 best outputs"),
    "topic-coverage": ("topics", "share of the source's (topic) words that occur in the output"),
    "diversity": ("Diver", "different words / words, mean over texts (PC-SAN eq. 14)"),
    "distinct-1": ("dist-1", "different words / words of the whole output"),
    "distinct-2": ("dist-2", "different bigrams / bigrams of the whole output"),
    "copy-rate": ("copy%", "share of outputs equal to their source"),
    "pinc": ("PINC", "share of n-grams of orders 1 to 4 that are not in the source, mean over orders and sentences"),
    "novelty-1": ("novel-1", "share of words that are not in the source"),
    "novelty-2": ("novel-2", "share of bigrams that are not in the source"),
    "length-ratio": ("len/ref", "output length / reference length"),
    "compression": ("len/src", "output length / source length"),
    "fkgl": ("FKGL", "Flesch-Kincaid grade level of the output"),
    "compression-characters": ("chars/src", "characters of output / source, mean over sentences"),
    "sentence-splits": ("splits", "sentences of output / source, mean"),
    "additions": ("added%", "words that only the output has / words of the longer"),
    "deletions": ("deleted%", "words that only the source has / words of the longer"),
    "levenshtein": ("Lev-sim", "similarity of the characters of output and source, 1 = equal"),
}

#: For each metric, a function that binds the arguments of its class. Some arguments come from the user's settings
#: ``s``, and the others are fixed.
_BINDERS: dict[str, Callable[[MetricSettings], partial[Any]]] = {
    "bleu": lambda s: partial(Bleu, **s.cased),
    "bleu2": lambda s: partial(Bleu, **s.cased, max_ngram_order=2),
    "bleu-nltk": lambda s: partial(NltkBleu, lowercase=s.lowercase),
    "sari": lambda s: partial(Sari, tokenize=s.tokenize),
    "sari-add": lambda s: partial(Sari, tokenize=s.tokenize, operation="add"),
    "sari-keep": lambda s: partial(Sari, tokenize=s.tokenize, operation="keep"),
    "sari-delete": lambda s: partial(Sari, tokenize=s.tokenize, operation="delete"),
    "sari-legacy": lambda s: partial(Sari, **s.cased, weight=s.sari_weight, operation=s.operation, legacy=True),
    "sari-xu": lambda s: partial(SentenceSari, brackets=s.brackets, operation=s.operation),
    "chrf": lambda s: partial(Chrf, lowercase=s.lowercase),
    "ter": lambda s: partial(Ter),
    "ibleu": lambda s: partial(IBleu, **s.cased, alpha=s.alpha),
    "ibleu-0.7": lambda s: partial(IBleu, **s.cased, alpha=0.7),
    "self-bleu": lambda s: partial(SelfBleu, **s.cased),
    "rouge-1": lambda s: partial(Rouge, **s.rouge, variant="1"),
    "rouge-2": lambda s: partial(Rouge, **s.rouge, variant="2"),
    "rouge-l": lambda s: partial(Rouge, **s.rouge, variant="L"),
    "rouge-l-beta": lambda s: partial(Rouge, **s.rouge, variant="L", beta=1.2),
    "meteor-exact-stem": lambda s: partial(Meteor, tokenize=s.tokenize),
    "meteor": lambda s: partial(Meteor, tokenize=s.tokenize, synonyms=True),
    "bertscore": lambda s: partial(BertScore, model_folder=s.bert_model, layer=s.bert_layer),
    "similarity-reference": lambda s: partial(Similarity, model_folder=s.sentence_model),
    "similarity-source": lambda s: partial(SourceSimilarity, model_folder=s.sentence_model),
    "nltk-m7-legacy": lambda s: partial(Method7Bleu, **s.cased),
    "nltk-m7-legacy-2": lambda s: partial(Method7Bleu, **s.cased, order=2),
    "nltk-m7": lambda s: partial(Method7Bleu, **s.cased, version="current"),
    "nltk-m7-2": lambda s: partial(Method7Bleu, **s.cased, order=2, version="current"),
    "self-nltk-m7-legacy": lambda s: partial(Method7SelfBleu, **s.cased, defective=s.defective),
    "ibleu-nltk-m7-legacy": lambda s: partial(Method7IBleu, **s.cased, alpha=s.alpha, defective=s.defective),
    "exact@1": lambda s: partial(words.ExactMatch),
    "exact@10": lambda s: partial(words.ExactMatch, k=10),
    "topic-coverage": lambda s: partial(words.TopicCoverage, tokenize=s.tokenize),
    "diversity": lambda s: partial(words.Diversity, **s.cased),
    "distinct-1": lambda s: partial(words.Distinct, tokenize=s.tokenize),
    "distinct-2": lambda s: partial(words.Distinct, tokenize=s.tokenize, order=2),
    "copy-rate": lambda s: partial(words.CopyRate, tokenize=s.tokenize),
    "pinc": lambda s: partial(words.Pinc, tokenize=s.tokenize),
    "novelty-1": lambda s: partial(words.Novelty, tokenize=s.tokenize),
    "novelty-2": lambda s: partial(words.Novelty, tokenize=s.tokenize, order=2),
    "length-ratio": lambda s: partial(words.LengthRatio, tokenize=s.tokenize),
    "compression": lambda s: partial(words.SourceLengthRatio, tokenize=s.tokenize),
    "fkgl": lambda s: partial(Fkgl),
    "compression-characters": lambda s: partial(CharacterRatio),
    "sentence-splits": lambda s: partial(SentenceSplits),
    "additions": lambda s: partial(WordChanges, deletions=False),
    "deletions": lambda s: partial(WordChanges, deletions=True),
    "levenshtein": lambda s: partial(LevenshteinSimilarity),
}

_STANDARD = (
    *("bleu", "bleu2", "sari", "ibleu", "ibleu-0.7", "self-bleu", "rouge-1", "rouge-2", "rouge-l"),
    *("meteor-exact-stem", "exact@1", "diversity", "distinct-1", "distinct-2", "copy-rate", "novelty-1", "novelty-2"),
    *("length-ratio", "compression"),
)

#: All metrics, in the order used in tables.
METRICS = {name: MetricEntry(*_TEXTS[name], bind, name in _STANDARD) for name, bind in _BINDERS.items()}


def build_metric(name: str, settings: MetricSettings, label: str | None = None, **fixed: Any) -> EvaluationMetric:
    """Build a metric by name.

    Args:
        label: name of the score in tables (default: the metric's usual label).
        fixed: settings that a preset fixes.
    """
    if name not in METRICS:
        raise UserError(f"unknown metric {name!r}; choose from {', '.join(METRICS)}.")
    metric: EvaluationMetric = METRICS[name].bind(replace(settings, **fixed))(label or METRICS[name].label)
    return metric
