"""Named sets of metrics: ``standard``, and a ``paper:...`` preset for every published table.

A paper preset fixes the tokenisation, the case and the options with which the paper's numbers were computed, so they do
not depend on the user's settings. The standard scores, which are printed next to the preset's scores, follow the user's
settings. The presets are in ``presets.toml``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct, convert

from ..errors import UserError
from .metrics.base import EvaluationMetric
from .metrics.registry import METRICS, MetricSettings, build_metric
from .metrics.sari import OPERATIONS
from .text_files import read_table

STANDARD = "standard"


class Preset(Struct):
    """The evaluation protocol of a paper.

    Attributes:
        source: the paper and table that the preset reproduces.
        metrics: name and label of each metric, with the settings that the preset fixes. SARI with ``operations`` has an
            additional column for each of its operations.
        beside: the standard metrics that are printed next to the preset's metrics.
    """

    source: str
    metrics: list[dict[str, Any]]
    beside: Sequence[str]
    note: str = ""

    @property
    def columns(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """For each label in the table, the name of the metric and the settings that the preset fixes."""
        columns = {}
        for metric in self.metrics:
            fixed = {key: value for key, value in metric.items() if key not in ("name", "label", "operations")}
            columns[metric["label"]] = metric["name"], fixed
            for operation in OPERATIONS if metric.get("operations") else ():
                columns[f"{metric['label']}-{operation}"] = metric["name"], {**fixed, "operation": operation}
        return columns


METRIC_PRESETS = convert(read_table("presets.toml"), dict[str, Preset])


class MetricColumn(NamedTuple):
    """A metric that is computed, with its name in the outputs.

    Attributes:
        key: unique name in the JSON, either ``metric`` or ``preset/metric``.
        preset: name of the preset, ``standard``, or empty for ``--metric``.
        label: short name within the preset.
        group: the group of sentences that is scored (see `Corpus.groups`). Empty = all sentences.
    """

    key: str
    preset: str
    label: str
    metric: EvaluationMetric
    group: str = ""


def columns_for(presets: list[str], metrics: list[str], settings: MetricSettings) -> list[MetricColumn]:
    """Turn names of presets and metrics into columns: first paper presets, each with the standard scores."""
    columns: list[MetricColumn] = []
    standard: list[str] = []
    for preset in dict.fromkeys(presets):
        if preset == STANDARD:
            standard += [name for name, entry in METRICS.items() if entry.standard]
            continue
        if preset not in METRIC_PRESETS:
            raise UserError(f"unknown preset {preset!r}; choose from {', '.join([STANDARD, *METRIC_PRESETS])}.")
        for label, (name, fixed) in METRIC_PRESETS[preset].columns.items():
            key = f"{preset}/{label}"
            columns.append(MetricColumn(key, preset, label, build_metric(name, settings, key, **fixed)))
        standard += METRIC_PRESETS[preset].beside
    single = dict.fromkeys(metrics, "") | {
        name: STANDARD for name in METRICS if name in standard and name not in metrics
    }
    for name, preset in single.items():
        metric = build_metric(name, settings, name)
        columns.append(MetricColumn(name, preset, METRICS[name].label, metric))
    return columns
