"""The names that ``--metric`` understands and how each metric is built: ``metrics.toml``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pkgutil import resolve_name
from typing import Any

from ...errors import UserError
from ..text_files import read_table
from ..tokenizers import Lowercase
from .base import EvaluationMetric


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
        bert_layer: layer of that model.
        sentence_model: folder of a local sentence encoder.
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
    bert_layer: int = -1
    sentence_model: str | None = None
    sari_weight: int | None = None
    brackets: bool = False
    operation: str = ""

    @property
    def rouge_tokenize(self) -> str:
        """ROUGE's own convention for text with spaces between words, the given tokenisation otherwise."""
        return "words" if self.tokenize == "13a" else self.tokenize


@dataclass(frozen=True)
class MetricEntry:
    """One line of the list that ``wean-evaluate --help`` ends with.

    Attributes:
        kind: module and class, ``bleu:Bleu``.
        takes: the arguments that come from the settings, as ``argument=setting`` where the names differ.
        fixed: the other arguments.
        standard: whether it belongs to the ``standard`` set.
    """

    label: str
    help: str
    kind: str
    takes: Sequence[str] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    standard: bool = False


METRICS = {name: MetricEntry(**content) for name, content in read_table("metrics/metrics.toml").items()}


def build_metric(name: str, settings: Settings, label: str | None = None, **changes: Any) -> EvaluationMetric:
    """Build a metric by name.

    Args:
        label: name in tables; the metric's usual one by default.
        changes: settings that a preset fixes.
    """
    if name not in METRICS:
        raise UserError(f"unknown metric {name!r}; choose from {', '.join(METRICS)}.")
    entry, chosen = METRICS[name], replace(settings, **changes)
    names = (argument.partition("=") for argument in entry.takes)
    taken = {argument: getattr(chosen, setting or argument) for argument, _, setting in names}
    kind = resolve_name(f"{__package__}.{entry.kind}")
    metric: EvaluationMetric = kind(label or entry.label, **taken, **entry.fixed)
    return metric
