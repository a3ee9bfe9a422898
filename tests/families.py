"""Build every registered model family with small sizes.

Therefore tests over all families automatically include new families.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY

import wean_fairseq

wean_fairseq.register()

# Options that a family needs in addition to its sizes. They name a word of the dictionary as the separator of chunks or
# pairs, and switch off label files and BERT.
CHUNK = "w7"
NEEDS: dict[str, dict[str, Any]] = {
    "dnpg": {"label_weight": 0.0, "final_label_weight": 0.0},
    "fset": {"pair_symbol": CHUNK},
    "pc_san": {"bert_layers": "none"},
    "ppg": {"chunk_symbol": CHUNK},
}


def families() -> list[str]:
    """Return the names of all families of this package, which are also archs."""
    ours = {arch for arch, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("wean_fairseq.")}
    return sorted({ARCH_MODEL_NAME_REGISTRY[arch] for arch in ours})


def tiny(family: str, width: int = 8) -> dict[str, Any]:
    """Return options for a small model without dropout. All families have the same option names.

    Args:
        family: name of the family.
        width: an even number, which is the size of all dimensions.
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
    """Return the same options as command-line flags."""
    return [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
