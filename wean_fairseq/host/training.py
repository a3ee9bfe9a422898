"""fairseq's loop over the batches of a training: its steps, its groups of batches, and its log file."""

import logging
import math
from pathlib import Path
from typing import Any

from fairseq.logging import progress_bar

from .divergence import Diverged, describe
from .patches import Original


def train_step(original: Original, trainer: Any, samples: list[dict[str, Any]], *args: Any) -> Any:
    """Take a step. If the gradients are NaN or infinite, the error names the batches."""
    try:
        return original(trainer, samples, *args)
    except FloatingPointError as error:
        raise Diverged(describe(samples, f"update {trainer.get_num_updates() + 1}", str(error))) from error


def group_batches(
    original: Original, groups: Any, iterable: Any, chunk_size: int, skip_remainder_batch: bool = False
) -> None:
    """Group the batches of each update. The groups of a resumed epoch are counted from its first batch."""
    left = len(iterable) - getattr(iterable, "n", 0)
    original(groups, iterable, chunk_size, skip_remainder_batch)
    if not skip_remainder_batch:
        groups.total = groups.n + math.ceil(left / chunk_size)


def open_progress_bar(original: Original, *args: Any, **options: Any) -> Any:
    """Open a progress bar, and close the log file that the bar of the last epoch has opened."""
    if (log_file := options.get("log_file")) is not None:
        for handler in list(progress_bar.logger.handlers):
            if isinstance(handler, logging.FileHandler) and Path(handler.baseFilename) == Path(log_file).absolute():
                progress_bar.logger.removeHandler(handler)
                handler.close()
    return original(*args, **options)
