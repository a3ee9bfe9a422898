"""Named sets of metrics: ``standard``, and one ``paper:...`` preset for every published table.

A paper preset fixes tokenisation, case and options to what the paper's numbers were computed with, whatever the user's
settings are; the standard numbers beside it follow the user's settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import UserError
from .metrics.base import EvaluationMetric
from .metrics.registry import METRICS, Settings, build_metric
from .metrics.sari import OPERATIONS

STANDARD = "standard"
CHOSEN = "chosen"


@dataclass(frozen=True)
class PresetMetric:
    """One column of a preset: metric name, label in the table, and the settings it fixes."""

    name: str
    label: str
    fixed: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Preset:
    """A paper's protocol.

    Attributes:
        source: the table it reproduces.
        metrics: its columns.
        beside: the standard metrics that are printed next to it.
        note: what a reader of the numbers must know.
    """

    source: str
    metrics: tuple[PresetMetric, ...]
    beside: tuple[str, ...]
    note: str = ""


# mteval-v13a lower-cases A to Z alone.
_MTEVAL = {"tokenize": "13a", "lowercase": "ascii"}
# Zhang and Lapata scored SARI as if there were 8 references: the others of WikiSmall were empty.
_DRESS_SARI = {"tokenize": "13a", "sari_weight": 8}
_EASSE = {"tokenize": "13a", "lowercase": True}
_CHARACTERS = {"tokenize": "char", "lowercase": False, "max_tokens": None}
_SPACES = {"tokenize": "none", "lowercase": False}
_CDNPG = {**_SPACES, "alpha": 0.8}
_SIMPLIFICATION = ("bleu", "sari", "sari-add", "sari-keep", "sari-delete", "copy-rate", "length-ratio")
_SUMMARISATION = ("bleu", "rouge-1", "rouge-2", "rouge-l", "novelty-1", "length-ratio")
_PARAPHRASE = ("bleu", "bleu2", "ibleu", "self-bleu", "rouge-l", "meteor-exact-stem", "copy-rate")


def _cdnpg(defective: bool) -> tuple[PresetMetric, ...]:
    """Columns of C-DNPG's Table 2, in its order; only iBLEU knows the defect."""
    return (
        PresetMetric("ibleu-nltk-m7-legacy", "iBLEU", {**_CDNPG, "defective": defective}),
        PresetMetric("nltk-m7-legacy-2", "BLEU-2", _CDNPG),
        PresetMetric("nltk-m7-legacy", "BLEU-4", _CDNPG),
        PresetMetric("rouge-l-beta", "ROUGE-L", _SPACES),
        PresetMetric("meteor-exact-stem", "METEOR-es", _SPACES),
        PresetMetric("self-nltk-m7-legacy", "self", {**_CDNPG, "defective": defective}),
    )


def _sari(name: str, fixed: Mapping[str, object]) -> tuple[PresetMetric, ...]:
    """SARI, and its operations by themselves."""
    parts = (PresetMetric(name, f"SARI-{operation}", {**fixed, "operation": operation}) for operation in OPERATIONS)
    return (PresetMetric(name, "SARI", fixed), *parts)


PRESETS: dict[str, Preset] = {
    "paper:wean-pwkp": Preset(
        "WEAN (Ma et al., NAACL 2018), Table 1",
        (PresetMetric("bleu", "BLEU", _MTEVAL),),
        _SIMPLIFICATION,
        "mteval-v13a, one reference; it gives the published rows of released outputs to the last digit",
    ),
    "paper:wean-ew-sew": Preset(
        "WEAN (Ma et al., NAACL 2018), Table 2",
        (PresetMetric("bleu", "BLEU", _MTEVAL),),
        _SIMPLIFICATION,
        "mteval-v13a, 8 references; it gives the published rows of Zhang and Lapata's outputs to the last digit, but "
        "four rows come from another scorer (paper:nts); BLEU rewards copying here, read SARI",
    ),
    "paper:dress-pwkp": Preset(
        "DRESS (Zhang and Lapata, EMNLP 2017), WikiSmall",
        (
            PresetMetric("bleu", "BLEU", _MTEVAL),
            *_sari("sari-legacy", {**_DRESS_SARI, "lowercase": False}),
        ),
        _SIMPLIFICATION,
        "mteval-v13a; legacy SARI on cased text, with one reference where the evaluation had eight set",
    ),
    "paper:dress-ew-sew": Preset(
        "DRESS (Zhang and Lapata, EMNLP 2017), WikiLarge",
        (
            PresetMetric("bleu", "BLEU", _MTEVAL),
            *_sari("sari-legacy", {**_DRESS_SARI, "lowercase": "ascii"}),
        ),
        _SIMPLIFICATION,
        "mteval-v13a; legacy SARI; 8 references, the source is TurkCorpus' .norm",
    ),
    "paper:nts": Preset(
        "NTS (Nisioi et al., ACL 2017), Table 2",
        (
            PresetMetric("bleu-nltk", "BLEU", {"lowercase": True}),
            *_sari("sari-xu", {"brackets": True}),
        ),
        _SIMPLIFICATION,
        "9 references (.simp and turk.0-7): NLTK's words, BLEU with smoothing method 3 (sacreBLEU's exp); Xu's SARI",
    ),
    "paper:easse": Preset(
        "EASSE (Alva-Manchego et al., EMNLP 2019), `easse evaluate -m bleu,sari,fkgl -q`",
        (
            PresetMetric("bleu", "BLEU", _EASSE),
            PresetMetric("sari", "SARI", _EASSE),
            PresetMetric("fkgl", "FKGL"),
            PresetMetric("compression-characters", "compression"),
            PresetMetric("sentence-splits", "splits"),
            PresetMetric("copy-rate", "copies%", _EASSE),
            PresetMetric("additions", "added%"),
            PresetMetric("deletions", "deleted%"),
        ),
        _SIMPLIFICATION,
        "case ignored; shares in percent",
    ),
    "paper:wean-lcsts": Preset(
        "WEAN (Ma et al., NAACL 2018), Table 4",
        tuple(PresetMetric(f"rouge-{variant}", f"ROUGE-{variant.upper()}", _CHARACTERS) for variant in "12l"),
        _SUMMARISATION,
        "every character is a token, no length limit, mean over sentences",
    ),
    "paper:copynet-lcsts": Preset(
        "CopyNet (Gu et al., ACL 2016), Table 3",
        tuple(
            PresetMetric(f"rouge-{variant}", f"ROUGE-{variant.upper()}", {**_CHARACTERS, "max_tokens": 40})
            for variant in "12l"
        ),
        _SUMMARISATION,
        "every character is a token (also for word models), the first 40 count, mean over sentences",
    ),
    "paper:copynet-synthetic": Preset(
        "CopyNet (Gu et al., ACL 2016), Table 1",
        (PresetMetric("exact@1", "exact@1"),),
        ("bleu", "length-ratio"),
        "the whole output must equal the reference",
    ),
    "paper:copynet-dialogue": Preset(
        "CopyNet (Gu et al., ACL 2016), Table 4",
        (PresetMetric("exact@1", "exact@1"), PresetMetric("exact@10", "exact@10")),
        ("bleu", "length-ratio"),
        "exact@10 needs a fairseq-generate log with --nbest 10",
    ),
    "paper:cdnpg-compat": Preset(
        "C-DNPG (Gu et al., COLING 2022), Table 2",
        _cdnpg(defective=True),
        _PARAPHRASE,
        "only for comparison with Table 2: legacy NLTK smoothing, and iBLEU whose self-BLEU looks at the letters of "
        "the first source word (a defect of the released code that the published values show); METEOR without WordNet",
    ),
    "paper:cdnpg-fixed": Preset(
        "C-DNPG (Gu et al., COLING 2022), Table 2, with self-BLEU against the whole source",
        _cdnpg(defective=False),
        _PARAPHRASE,
        "legacy NLTK smoothing, iBLEU 0.8/0.2 against the whole source; METEOR without WordNet",
    ),
    "paper:pc-san": Preset(
        "PC-SAN (topic-to-essay), BLEU and diversity (eq. 14)",
        (
            PresetMetric("bleu2", "BLEU-2", _SPACES),
            PresetMetric("bleu", "BLEU-4", _SPACES),
            PresetMetric("bleu", "BLEU-char", {"tokenize": "char", "lowercase": False}),
            PresetMetric("diversity", "Diver", _SPACES),
        ),
        ("rouge-l", "distinct-1", "distinct-2", "topic-coverage", "length-ratio"),
        "the paper does not say which BLEU it means; BLEU-2 on words is that of its baseline paper (MTA-LSTM)",
    ),
}


@dataclass(frozen=True)
class Column:
    """One number per system.

    Attributes:
        key: unique name, ``metric`` or ``preset/metric``; the key in the JSON.
        group: preset it belongs to.
        label: short name within the group.
        metric: computes it.
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
        for item in PRESETS[name].metrics:
            key = f"{name}/{item.label}"
            columns.append(Column(key, name, item.label, build_metric(item.name, settings, key, **dict(item.fixed))))
        standard += PRESETS[name].beside
    for name in dict.fromkeys(metrics):
        columns.append(
            Column(name, CHOSEN, METRICS[name].label if name in METRICS else name, build_metric(name, settings, name))
        )
    chosen = {column.key for column in columns}
    for name in (metric for metric in METRICS if metric in standard and metric not in chosen):
        columns.append(Column(name, STANDARD, METRICS[name].label, build_metric(name, settings, name)))
    return columns
