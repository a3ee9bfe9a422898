"""Every registered model family, small: tests that go over all of them find a new one by itself."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY

import wean_fairseq

wean_fairseq.register()

# Needed by a family beside its sizes: a dictionary's word that separates chunks or pairs, no files of labels, no BERT.
CHUNK = "w7"
NEEDS: dict[str, dict[str, Any]] = {
    "dnpg": {"label_weight": 0.0, "final_label_weight": 0.0},
    "fset": {"pair_symbol": CHUNK},
    "pc_san": {"bert_layers": "none"},
    "ppg": {"chunk_symbol": CHUNK},
}


def families() -> list[str]:
    """Names of all families of this package, which are archs too."""
    ours = {arch for arch, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("wean_fairseq.")}
    return sorted({ARCH_MODEL_NAME_REGISTRY[arch] for arch in ours})


def tiny(family: str, width: int = 8) -> dict[str, Any]:
    """Options of a small model without dropout, by the names that options have in all families.

    Args:
        family: its name.
        width: even; of everything that has a width.
    """
    options: dict[str, Any] = {}
    for option in fields(MODEL_DATACLASS_REGISTRY[family]):
        if option.default is MISSING or isinstance(option.default, bool) or not option.default:
            continue
        if option.name.endswith(("_dim", "hidden_size")):
            options[option.name] = width
        elif option.name.endswith("heads"):
            options[option.name] = 2
        elif option.name.endswith("_layers") and isinstance(option.default, int):
            options[option.name] = 1
        elif option.name.endswith("dropout"):
            options[option.name] = 0.0
    return options | NEEDS.get(family, {})


def flags(options: Mapping[str, Any]) -> list[object]:
    """The same for a command line."""
    return [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
