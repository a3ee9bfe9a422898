"""Named sets of metrics: ``standard``, and one ``paper:...`` preset for every published table.

A paper preset fixes tokenisation, case and options to what the paper's numbers were computed with, whatever the user's
settings are; the standard numbers beside it follow the user's settings. The presets are data: ``presets.toml``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import UserError
from .metrics.base import EvaluationMetric
from .metrics.registry import METRICS, Settings, build_metric
from .metrics.sari import OPERATIONS
from .text_files import read_table

STANDARD = "standard"
CHOSEN = "chosen"


@dataclass(frozen=True)
class Preset:
    """A paper's protocol.

    Attributes:
        source: the table it reproduces.
        metrics: label in the table -> name of the metric, and the settings that it fixes.
        beside: the standard metrics that are printed next to it.
    """

    source: str
    metrics: Mapping[str, tuple[str, Mapping[str, Any]]]
    beside: Sequence[str]
    note: str = ""


def _read_preset(content: dict[str, Any]) -> Preset:
    """A preset from its TOML, SARI's operations by themselves added where it asks for them."""
    metrics = {}
    for fixed in content.pop("metrics"):
        name, label, parts = fixed.pop("name"), fixed.pop("label"), fixed.pop("operations", False)
        metrics[label] = name, fixed
        for operation in OPERATIONS if parts else ():
            metrics[f"{label}-{operation}"] = name, {**fixed, "operation": operation}
    return Preset(metrics=metrics, **content)


PRESETS: dict[str, Preset] = {name: _read_preset(content) for name, content in read_table("presets.toml").items()}


@dataclass(frozen=True)
class Column:
    """One number per system.

    Attributes:
        key: unique name, ``metric`` or ``preset/metric``; the key in the JSON.
        label: short name within the group.
        only: group of sentences that alone counts, see `Corpus.groups`; empty = all.
    """

    key: str
    group: str
    label: str
    metric: EvaluationMetric
    only: str = ""


def columns_for(presets: list[str], metrics: list[str], settings: Settings) -> list[Column]:
    """Turn names from the command line into columns, paper presets first, standard numbers beside them."""
    columns: list[Column] = []
    standard: list[str] = []
    for name in dict.fromkeys(presets):
        if name == STANDARD:
            standard += [metric for metric, entry in METRICS.items() if entry.standard]
            continue
        if name not in PRESETS:
            raise UserError(f"unknown preset {name!r}; choose from {', '.join([STANDARD, *PRESETS])}.")
        for label, (kind, fixed) in PRESETS[name].metrics.items():
            key = f"{name}/{label}"
            columns.append(Column(key, name, label, build_metric(kind, settings, key, **fixed)))
        standard += PRESETS[name].beside
    single = dict.fromkeys(metrics, CHOSEN)
    for name in METRICS:
        if name in standard:
            single.setdefault(name, STANDARD)
    for name, group in single.items():
        metric = build_metric(name, settings, name)
        columns.append(Column(name, group, METRICS[name].label, metric))
    return columns
