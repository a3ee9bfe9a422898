"""Write checkpoints atomically, with checksums. Refuse models with NaN or infinite parameters."""

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

import torch

from ..errors import UserError
from ..storage.files import HashedFile, copy_into, followed, is_special
from ..storage.manifest import write_recorded

CRASH_REPORT = "crash.pt"  # file that fairseq writes for debugging after a crash, which may contain NaN


def save(state: dict[str, Any], path: Path, *, keep_link: bool = False) -> None:
    """Write a checkpoint.

    Args:
        keep_link: write the target of a symbolic link that the user has named, instead of replacing the link.

    Raises:
        UserError: if ``path`` is not a regular file or cannot be written, or if a parameter is not finite.
    """
    if path.name != CRASH_REPORT:
        _check_parameters(state, path)
    _write(path, lambda file: torch.save(state, cast("IO[bytes]", file)), keep_link)


def copy(source: Path, path: Path) -> None:
    """Copy a checkpoint. Raise ``UserError`` if it cannot be written."""
    _write(path, lambda file: copy_into(source, file))


def _write(path: Path, write: Callable[[HashedFile], object], keep_link: bool = False) -> None:
    try:
        if is_special(followed(path)):
            raise UserError(f"{path} is a folder, a device or a pipe, and a checkpoint is a file: choose another name.")
        write_recorded(path, write, keep_link=keep_link)
    except OSError as error:
        advice = "free some space or choose another directory"
        if not keep_link:  # in a training
            advice += ", and run the same command again to resume from the last of them"
            advice = f"earlier checkpoints are unchanged; {advice}"
        raise UserError(f"{path} cannot be written ({error.strerror}): {advice}.") from error


def _check_parameters(state: dict[str, Any], path: Path) -> None:
    if (name := not_finite(state.get("model", {}))) is not None:
        raise UserError(
            f"training diverged: {name} is not finite any more, so {path} was not written; earlier checkpoints are "
            "unchanged: lower --lr or --clip-norm, and run again to resume from the last one."
        )


def not_finite(model: dict[str, Any]) -> str | None:
    """Return the name of the first parameter that contains NaN or infinity, or ``None``."""
    for name, parameter in model.items():
        if torch.is_tensor(parameter) and parameter.is_floating_point():
            # isfinite does not support float8
            numbers = parameter.float() if parameter.element_size() == 1 else parameter
            if not numbers.isfinite().all():
                return name
    return None
