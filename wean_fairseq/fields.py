"""Options of archs, tasks, criterions and optimisers, as fields of fairseq's dataclasses."""

from dataclasses import field, fields
from enum import EnumType
from typing import Any

from fairseq.models import MODEL_DATACLASS_REGISTRY

from .errors import UserError
from .ranges import ANY, check_positive, check_range, check_share


def option(default: Any, text: str, **metadata: Any) -> Any:
    """Return a field of which fairseq makes a flag.

    Args:
        default: its value, for booleans ``False``, because fairseq turns ``True`` into a flag that switches it off.
        text: help text.
        metadata: further properties. ``least`` and ``most``: the smallest and the largest value that ``check_values``
            accepts. ``is_share=True``:
            at least 0 and below 1. ``is_positive=True``: above 0. ``reads_file=True``: it names a file to begin a
            training with.
    """
    return field(default=default, metadata={"help": text, **metadata})


def check_values(config: type, cfg: Any) -> None:
    """Refuse numbers out of range and unknown choices. Raises ``UserError``, naming the option."""
    for item in fields(config):
        value = getattr(cfg, item.name, None)
        if value is None:
            continue
        if "least" in item.metadata:
            check_range(item.name, [value], item.metadata["least"], item.metadata.get("most", ANY))
        if item.metadata.get("is_share"):
            check_share(item.name, value)
        if item.metadata.get("is_positive"):
            check_positive(item.name, [value])
        choices = [str(choice) for choice in item.type] if isinstance(item.type, EnumType) else []
        if choices and str(value) not in choices:  # fairseq checks only its command lines
            name = f"--{item.name.replace('_', '-')}"
            raise UserError(f"{name} must be one of {', '.join(choices)}, but is {value}.")


def start_files() -> set[str]:
    """Return the names of the options of all archs, fairseq's own too, that name files to begin a training with."""
    declared = {
        item.name
        for config in MODEL_DATACLASS_REGISTRY.values()
        for item in fields(config)
        if item.metadata.get("reads_file")
    }
    return {"encoder_embed_path", "decoder_embed_path", *declared}
