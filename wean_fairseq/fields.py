"""Options of archs, tasks, criterions and optimisers, as fields of fairseq's dataclasses."""

from dataclasses import field, fields
from enum import EnumType
from typing import Any

from fairseq.models import MODEL_DATACLASS_REGISTRY

from .errors import UserError


def option(default: Any, text: str, **metadata: Any) -> Any:
    """A field that fairseq makes a flag of.

    Args:
        default: its value; ``False`` for a boolean, as fairseq turns a ``True`` one into a flag that switches it off.
        text: what ``--help`` says.
        metadata: what else is known of it. ``least``: the smallest value that ``check_values`` takes.
            ``reads_file=True``: it names a file to begin a training with.
    """
    return field(default=default, metadata={"help": text, **metadata})


def check_values(config: type, cfg: Any) -> None:
    """Refuse numbers below what their options take, and unknown choices; raises ``UserError``, naming the option."""
    for item in fields(config):
        least, value = item.metadata.get("least"), getattr(cfg, item.name, None)
        name = f"--{item.name.replace('_', '-')}"
        if least is not None and value is not None and not value >= least:  # NaN is neither
            raise UserError(f"{name} must be {least} or more, but is {value}.")
        choices = [str(choice) for choice in item.type] if isinstance(item.type, EnumType) else []
        if choices and value is not None and str(value) not in choices:  # in Python nobody else looks
            raise UserError(f"{name} must be one of {', '.join(choices)}, but is {value}.")


def start_files() -> set[str]:
    """Names of the options of all archs, fairseq's own too, that name files to begin a training with."""
    declared = {
        item.name
        for config in MODEL_DATACLASS_REGISTRY.values()
        for item in fields(config)
        if item.metadata.get("reads_file")
    }
    return {"encoder_embed_path", "decoder_embed_path", *declared}
