"""Options of archs, tasks, criterions and optimisers, as fields of fairseq's dataclasses."""

from dataclasses import field, fields
from typing import Any

from fairseq.models import MODEL_DATACLASS_REGISTRY


def option(default: Any, text: str, **metadata: Any) -> Any:
    """A field that fairseq makes a flag of.

    Args:
        default: its value; ``False`` for a boolean, as fairseq turns a ``True`` one into a flag that switches it off.
        text: what ``--help`` says.
        metadata: what else is known of it; ``reads_file=True`` = it names a file to begin a training with.
    """
    return field(default=default, metadata={"help": text, **metadata})


def start_files() -> set[str]:
    """Names of the options of all archs, fairseq's own too, that name files to begin a training with."""
    declared = {
        item.name
        for config in MODEL_DATACLASS_REGISTRY.values()
        for item in fields(config)
        if item.metadata.get("reads_file")
    }
    return {"encoder_embed_path", "decoder_embed_path", *declared}
