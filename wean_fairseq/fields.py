"""Define options of archs, tasks, criterions and optimisers as fields of fairseq's dataclasses."""

from dataclasses import field, fields
from enum import EnumType
from typing import Any

from fairseq.models import MODEL_DATACLASS_REGISTRY

from .errors import UserError
from .ranges import ANY, check_positive, check_range, check_share


def option(default: Any, text: str, **metadata: Any) -> Any:
    """Return a dataclass field that fairseq turns into a command-line flag.

    Args:
        default: default value. It is ``False`` for booleans, because fairseq turns ``True`` into a flag that disables
            the option.
        text: help text.
        metadata: further properties. ``check_values`` accepts only values from ``least`` to ``most``, values from 0 to
            below 1 if ``is_share=True``, and values above 0 if ``is_positive=True``. ``reads_file=True`` means that the
            value names a file that initialises a training.
    """
    return field(default=default, metadata={"help": text, **metadata})


def check_values(config: type, cfg: Any) -> None:
    """Raise ``UserError`` for a number out of range or an unknown choice, naming the option."""
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
        if choices and str(value) not in choices:  # fairseq checks choices only on the command line
            name = f"--{item.name.replace('_', '-')}"
            raise UserError(f"{name} must be one of {', '.join(choices)}, but is {value}.")


def start_files() -> set[str]:
    """Return the options of all archs, including fairseq's own, whose values name files that initialise a training."""
    declared = {
        item.name
        for config in MODEL_DATACLASS_REGISTRY.values()
        for item in fields(config)
        if item.metadata.get("reads_file")
    }
    return {"encoder_embed_path", "decoder_embed_path", *declared}
