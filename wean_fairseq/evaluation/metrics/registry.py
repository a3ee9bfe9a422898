"""The names that ``--metric`` understands and how each metric is built."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...errors import UserError
from ..tokenizers import Lowercase
from .base import EvaluationMetric
from .bert_score import BertScore
from .bleu import Bleu, IBleu, NltkBleu, SelfBleu
from .characters import Chrf, Ter
from .copying import CopyRate, ExactMatch, LengthRatio, Novelty, SourceLengthRatio
from .diversity import Distinct, Diversity
from .meteor import Meteor
from .method7 import Method7Bleu, Method7IBleu, Method7SelfBleu
from .rouge import Rouge
from .sari import Sari, SentenceSari
from .simplification import CharacterRatio, Fkgl, SentenceSplits, WordChanges
from .topics import TopicCoverage


@dataclass(frozen=True)
class Settings:
    """Options that a user may set for all metrics at once, and that a preset may fix for one of its columns.

    Attributes:
        tokenize: ``13a``, ``none``, ``zh`` or ``char``.
        lowercase: whether BLEU, the numbers built on it, legacy SARI and chrF ignore case, see `Lowercase` (SARI, copy
            rate and novelty always do).
        alpha: weight of the reference in iBLEU.
        max_tokens: cut output and reference to so many tokens (ROUGE only).
        defective: self-BLEU against the letters of the first source word, as in the C-DNPG code (method 7 only).
        bert_model: folder of a local model, for BERTScore.
        sari_weight: the r of legacy SARI's formula, if it is not the number of references.
        operation: the part of SARI to score by itself; empty = SARI.
        brackets: write round brackets as -lrb- and -rrb- (Xu's SARI only).
    """

    tokenize: str = "13a"
    lowercase: Lowercase = False
    alpha: float = 0.9
    max_tokens: int | None = None
    defective: bool = False
    bert_model: str | None = None
    sari_weight: int | None = None
    brackets: bool = False
    operation: str = ""

    @property
    def rouge_tokenize(self) -> str:
        """ROUGE's own convention for text with spaces between words, the given tokenisation otherwise."""
        return "words" if self.tokenize == "13a" else self.tokenize


Factory = Callable[[Settings, str], EvaluationMetric]


@dataclass(frozen=True)
class MetricEntry:
    """One line of the list that ``wean-evaluate --help`` ends with.

    Attributes:
        label: short name in tables.
        help: one line saying what the number is.
        build: makes the metric from settings and a label.
        standard: whether it belongs to the ``standard`` set.
    """

    label: str
    help: str
    build: Factory
    standard: bool = True


def _rouge(variant: str, beta: float | None = None) -> Factory:
    """Return the factory of a ROUGE variant."""
    return lambda s, label: Rouge(label, variant, s.rouge_tokenize, bool(s.lowercase), beta, s.max_tokens)


def _method7(order: int, version: str) -> Factory:
    """Return the factory of a method-7 BLEU."""
    return lambda s, label: Method7Bleu(label, order, version, s.tokenize, bool(s.lowercase))


def _bleu(order: int) -> Factory:
    """Return the factory of a corpus BLEU."""
    return lambda s, label: Bleu(label, s.tokenize, s.lowercase, order)


def _sari(operation: str = "") -> Factory:
    """Return the factory of corpus SARI or one of its operations."""
    return lambda s, label: Sari(label, s.tokenize, operation=operation)


METRICS: dict[str, MetricEntry] = {
    "bleu": MetricEntry("BLEU", "corpus BLEU-4 by sacreBLEU", _bleu(4)),
    "bleu2": MetricEntry("BLEU-2", "corpus BLEU of orders 1 and 2 by sacreBLEU", _bleu(2)),
    "bleu-nltk": MetricEntry(
        "NLTK-BLEU",
        "corpus BLEU-4 by NLTK's rules: its words, smoothing method 3 (needs Punkt in NLTK_DATA)",
        lambda s, label: NltkBleu(label, s.lowercase),
        standard=False,
    ),
    "sari": MetricEntry("SARI", "corpus SARI, equal to EASSE's", _sari()),
    "sari-add": MetricEntry("add", "F1 of the n-grams that SARI's output adds", _sari("add"), standard=False),
    "sari-keep": MetricEntry("keep", "F1 of those that it keeps", _sari("keep"), standard=False),
    "sari-delete": MetricEntry("delete", "F1 of those that it deletes", _sari("delete"), standard=False),
    "sari-legacy": MetricEntry(
        "SARI-legacy",
        "corpus SARI with the source split at spaces, as Zhang and Lapata print it",
        lambda s, label: Sari(label, s.tokenize, s.lowercase, True, s.sari_weight, s.operation),
        standard=False,
    ),
    "sari-xu": MetricEntry(
        "SARI-xu",
        "mean sentence SARI with the precision of deletion, Xu's own program",
        lambda s, label: SentenceSari(label, s.brackets, s.operation),
        standard=False,
    ),
    "chrf": MetricEntry("chrF", "chrF by sacreBLEU", lambda s, label: Chrf(label, bool(s.lowercase)), standard=False),
    "ter": MetricEntry("TER", "TER by sacreBLEU; less is better", lambda s, label: Ter(label), standard=False),
    "ibleu": MetricEntry(
        "iBLEU",
        "alpha * BLEU against references - (1 - alpha) * BLEU against source",
        lambda s, label: IBleu(label, s.tokenize, s.lowercase, s.alpha),
    ),
    "self-bleu": MetricEntry(
        "self-BLEU", "BLEU against the source", lambda s, label: SelfBleu(label, s.tokenize, s.lowercase)
    ),
    "rouge-1": MetricEntry("ROUGE-1", "F1 of words (Chinese: characters), mean over sentences", _rouge("1")),
    "rouge-2": MetricEntry("ROUGE-2", "F1 of bigrams, mean over sentences", _rouge("2")),
    "rouge-l": MetricEntry("ROUGE-L", "F1 of the longest common subsequence, mean over sentences", _rouge("L")),
    "rouge-l-beta": MetricEntry("ROUGE-L(1.2)", "the same with beta = 1.2", _rouge("L", 1.2), standard=False),
    "meteor-exact-stem": MetricEntry(
        "METEOR-es", "NLTK's METEOR without WordNet synonyms", lambda s, label: Meteor(label, False, s.tokenize)
    ),
    "meteor": MetricEntry(
        "METEOR", "NLTK's METEOR with WordNet", lambda s, label: Meteor(label, True, s.tokenize), standard=False
    ),
    "bertscore": MetricEntry(
        "BERTScore",
        "F1 of matched contextual embeddings (needs --bert-model)",
        lambda s, label: BertScore(label, s.bert_model),
        standard=False,
    ),
    "nltk-m7-legacy": MetricEntry(
        "m7-BLEU-4", "mean sentence BLEU-4, method 7 as in NLTK <= 3.4.5", _method7(4, "legacy"), standard=False
    ),
    "nltk-m7-legacy-2": MetricEntry(
        "m7-BLEU-2", "mean sentence BLEU-2, method 7 as in NLTK <= 3.4.5", _method7(2, "legacy"), standard=False
    ),
    "nltk-m7": MetricEntry(
        "m7new-BLEU-4", "mean sentence BLEU-4, method 7 as in NLTK >= 3.6", _method7(4, "current"), standard=False
    ),
    "nltk-m7-2": MetricEntry(
        "m7new-BLEU-2", "mean sentence BLEU-2, method 7 as in NLTK >= 3.6", _method7(2, "current"), standard=False
    ),
    "self-nltk-m7-legacy": MetricEntry(
        "m7-self",
        "mean sentence BLEU-4 (legacy method 7) against the source",
        lambda s, label: Method7SelfBleu(label, 4, "legacy", s.tokenize, bool(s.lowercase), s.defective),
        standard=False,
    ),
    "ibleu-nltk-m7-legacy": MetricEntry(
        "m7-iBLEU",
        "iBLEU from legacy method-7 sentence scores, mean over sentences",
        lambda s, label: Method7IBleu(label, s.alpha, "legacy", s.tokenize, bool(s.lowercase), s.defective),
        standard=False,
    ),
    "exact@1": MetricEntry("exact@1", "share of outputs equal to a reference", lambda s, label: ExactMatch(label, 1)),
    "exact@10": MetricEntry(
        "exact@10",
        "share of inputs with a reference among the 10 best outputs",
        lambda s, label: ExactMatch(label, 10),
        standard=False,
    ),
    "topic-coverage": MetricEntry(
        "topics",
        "share of the source's (topic) words that occur in the output",
        lambda s, label: TopicCoverage(label, s.tokenize),
        standard=False,
    ),
    "diversity": MetricEntry(
        "Diver",
        "different words / words, mean over texts (PC-SAN eq. 14)",
        lambda s, label: Diversity(label, s.tokenize, bool(s.lowercase)),
    ),
    "distinct-1": MetricEntry(
        "dist-1", "different words / words of the whole output", lambda s, label: Distinct(label, 1, s.tokenize)
    ),
    "distinct-2": MetricEntry(
        "dist-2", "different bigrams / bigrams of the whole output", lambda s, label: Distinct(label, 2, s.tokenize)
    ),
    "copy-rate": MetricEntry(
        "copy%", "share of outputs equal to their source", lambda s, label: CopyRate(label, s.tokenize)
    ),
    "novelty-1": MetricEntry(
        "novel-1", "share of words that are not in the source", lambda s, label: Novelty(label, 1, s.tokenize)
    ),
    "novelty-2": MetricEntry(
        "novel-2", "share of bigrams that are not in the source", lambda s, label: Novelty(label, 2, s.tokenize)
    ),
    "length-ratio": MetricEntry(
        "len/ref", "output length / reference length", lambda s, label: LengthRatio(label, s.tokenize)
    ),
    "compression": MetricEntry(
        "len/src", "output length / source length", lambda s, label: SourceLengthRatio(label, s.tokenize)
    ),
    "fkgl": MetricEntry(
        "FKGL", "Flesch-Kincaid grade level of the output", lambda s, label: Fkgl(label), standard=False
    ),
    "compression-characters": MetricEntry(
        "chars/src",
        "characters of output / source, mean over sentences",
        lambda s, label: CharacterRatio(label),
        standard=False,
    ),
    "sentence-splits": MetricEntry(
        "splits", "sentences of output / source, mean", lambda s, label: SentenceSplits(label), standard=False
    ),
    "additions": MetricEntry(
        "added%",
        "words that only the output has / words of the longer",
        lambda s, label: WordChanges(label, deletions=False),
        standard=False,
    ),
    "deletions": MetricEntry(
        "deleted%",
        "words that only the source has / words of the longer",
        lambda s, label: WordChanges(label, deletions=True),
        standard=False,
    ),
}


def build_metric(name: str, settings: Settings, label: str | None = None, **changes: Any) -> EvaluationMetric:
    """Build a metric by name.

    Args:
        name: a key of `METRICS`.
        settings: the user's options.
        label: name in tables; the metric's usual one by default.
        changes: settings that a preset fixes.
    """
    if name not in METRICS:
        raise UserError(f"unknown metric {name!r}; choose from {', '.join(METRICS)}.")
    entry = METRICS[name]
    return entry.build(replace(settings, **changes), label or entry.label)
