"""Define options of archs, tasks, criterions and optimisers as fields of fairseq's dataclasses."""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import field, fields
from enum import EnumType
from typing import Any

from fairseq.models import MODEL_DATACLASS_REGISTRY

from .errors import UserError
from .ranges import ANY, check_positive, check_range, check_share, flag


def option(default: Any, text: str, **metadata: Any) -> Any:
    """Return a dataclass field that fairseq turns into a command-line flag.

    Args:
        default: default value. It is ``False`` for booleans, because fairseq turns ``True`` into a flag that disables
            the option.
        text: help text.
        metadata: further properties. ``check_values`` enforces these properties: values from ``least`` to ``most``,
            values from 0 to below 1 with ``is_share=True``, and values above 0 with ``is_positive=True``.
            ``reads_file=True`` means that the option names a file from which a training is initialised. ``needs`` maps
            the names of other options to their values with which this option has an effect (see ``unused_options``).
    """
    return field(default=default, metadata={"help": text, **metadata})


def check_values(config: type, cfg: Any) -> None:
    """Raise ``UserError`` with the name of an option whose number is out of range or whose choice is unknown."""
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
            name = flag(item.name)
            raise UserError(f"{name} must be one of {', '.join(choices)}, but is {value}.")


def unused_options(args: Namespace, defaults: Any) -> Iterator[str]:
    """Describe the options of an arch that were given, but have no effect because of another option.

    Args:
        args: options of a command line. The values of all other options are those of ``defaults``.
        defaults: options of the arch with their defaults. The default of an option may have no effect.
    """
    for item in fields(defaults):
        needs = item.metadata.get("needs", {})
        given = getattr(args, item.name, None)
        if not needs or given is None or str(given) == str(getattr(defaults, item.name)):
            continue
        others = {name: getattr(args, name, getattr(defaults, name)) for name in needs}
        if not any(str(others[name]) in values if values else others[name] for name, values in needs.items()):
            missing = " or ".join(f"{flag(name)} {' or '.join(values)}".rstrip() for name, values in needs.items())
            yield f"{flag(item.name)} has no effect without {missing}"


def start_files() -> set[str]:
    """Return the names of all archs' options whose values are files that initialise a training."""
    declared = {
        item.name
        for config in MODEL_DATACLASS_REGISTRY.values()
        for item in fields(config)
        if item.metadata.get("reads_file")
    }
    return {"encoder_embed_path", "decoder_embed_path", *declared}
