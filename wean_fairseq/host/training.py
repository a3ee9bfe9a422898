"""Adapt fairseq's training loop: its steps, its groups of batches, and its log file."""

import logging
import math
import re
import sys
from pathlib import Path
from typing import Any
from weakref import WeakSet

from fairseq.logging import progress_bar
from omegaconf import DictConfig, OmegaConf

from .. import revision
from ..errors import UserError
from ..storage.data_files import is_data
from ..storage.files import is_special, open_regular
from . import interruption
from .divergence import Diverged, describe
from .patches import Original

_NO_LOGS = (".pt", ".safetensors", ".sha256")  # suffixes of files to which a log must not be appended
_BEGINNING = 1 << 16  # a log of fairseq has a recognisable line within this number of bytes
_OF_LOG = re.compile(rb"'_name'|\| (INFO|WARNING|ERROR) \||\bepoch \d+ ?[:|]|\"epoch\": ")  # text of such lines
_train = logging.getLogger("fairseq_cli.train")
# The first two loggers write into --log-file, and the third writes into preprocess.log.
_LOGGERS = (progress_bar.logger, _train, logging.getLogger("fairseq_cli.preprocess"))
_started: WeakSet[Any] = WeakSet()  # trainers that have logged the commit
_ended_schedules: WeakSet[Any] = WeakSet()  # trainers whose learning rate was reported to be 0


def is_master(original: Original, cfg: Any) -> bool:
    """Return True if this process writes files.

    In a training, fairseq calls this function before it opens the log file, so the file is checked here.
    """
    whole = cfg._get_parent() if isinstance(cfg, DictConfig) else None
    log_file = OmegaConf.select(whole, "common.log_file") if isinstance(whole, DictConfig) else None
    if log_file is not None:
        _check_log_file(Path(log_file))
    return bool(original(cfg))


def _check_log_file(path: Path) -> None:
    """Refuse a file to which fairseq must not append a log.

    Raises:
        UserError: if it is not a regular file (opening a FIFO would wait until another program reads it), or is or
            could be something else than a log.
    """
    if is_special(path):
        raise UserError(f"--log-file {path} is a folder, a device or a pipe: give the name of a file.")
    if is_data(path.name) or path.suffix in _NO_LOGS:
        raise UserError(f"--log-file {path} has the name of data or of a model: give another name, such as train.log.")
    if not _is_log(path):
        raise UserError(
            f"--log-file {path} exists and is not a training log, and fairseq would append to it: give another name, "
            "such as train.log."
        )


def _is_log(path: Path) -> bool:
    """Return False if a file has other content than the log of a training."""
    if path.suffix == ".log" or not path.exists():
        return True
    with open_regular(path) as file:
        beginning = file.read(_BEGINNING)
    return not beginning.strip() or _OF_LOG.search(beginning) is not None


def train_step(original: Original, trainer: Any, samples: list[dict[str, Any]], *args: Any) -> Any:
    """Run a training step. If the gradients are NaN or infinite, the error names the batches.

    The first step logs the commit of this package, for the records of trainings.

    Warn once if the learning rate has fallen to 0. Before the first update, it may be 0 because of a warm-up.
    """
    if trainer not in _started:
        _started.add(trainer)
        if trainer.is_data_parallel_master:
            _train.info(f"training with wean_fairseq at commit {revision.commit()}")
    updates = trainer.get_num_updates()
    if updates > 0 and trainer.get_lr() == 0 and trainer.is_data_parallel_master and trainer not in _ended_schedules:
        _ended_schedules.add(trainer)
        _train.warning(
            f"the learning rate is 0 in update {updates + 1}, so that the model does not change any more: end the "
            "training here, or give a longer schedule (such as a larger --total-num-update)"
        )
    try:
        return original(trainer, samples, *args)
    except FloatingPointError as error:
        raise Diverged(describe(samples, f"update {trainer.get_num_updates() + 1}", str(error))) from error


def group_batches(
    original: Original, groups: Any, iterable: Any, chunk_size: int, skip_remainder_batch: bool = False
) -> None:
    """Group the batches that belong to one update.

    When an epoch is resumed, the number of groups is counted from its first batch.

    Raises:
        UserError: if ``--skip-remainder-batch`` leaves no batch.
    """
    left = len(iterable) - getattr(iterable, "n", 0)
    original(groups, iterable, chunk_size, skip_remainder_batch)
    if not skip_remainder_batch:
        groups.total = groups.n + math.ceil(left / chunk_size)
    elif groups.total <= groups.n:
        raise UserError(
            "--skip-remainder-batch leaves out the last batches of an epoch, and this one has no others: leave it "
            "out, or give a smaller --batch-size, --max-tokens or --update-freq."
        )


def open_progress_bar(original: Original, *args: Any, **options: Any) -> Any:
    """Open a progress bar. First close the log file of the previous epoch's progress bar."""
    log_file = options.get("log_file")
    for handler in _log_handlers(progress_bar.logger, log_file):
        progress_bar.logger.removeHandler(handler)
        handler.close()
    return original(*args, **options)


def _log_handlers(logger: logging.Logger, log_file: str | None) -> list[logging.FileHandler]:
    path = Path(log_file or "").absolute()
    files = [handler for handler in logger.handlers if isinstance(handler, logging.FileHandler)]
    return [handler for handler in files if Path(handler.baseFilename) == path]


def end_unwritable_logs() -> None:
    """If standard output or a log file cannot be written, end the command instead of printing tracebacks."""
    logging.StreamHandler.handleError = _end_log  # type: ignore[assignment,method-assign]


def _end_log(handler: logging.StreamHandler[Any], record: logging.LogRecord) -> None:
    error = sys.exc_info()[1]
    file = handler.baseFilename if isinstance(handler, logging.FileHandler) else None
    stream = getattr(handler.stream, "_stream", handler.stream)  # the stream to a terminal, see settings
    is_output = stream in (sys.stdout, sys.__stdout__) and interruption.is_command()
    if not (isinstance(error, OSError) and (file or is_output)):
        logging.Handler.handleError(handler, record)
        return
    interruption.end_because_of(file or "standard output", error)
    if file is None:
        return
    for logger in _LOGGERS:
        for same in _log_handlers(logger, file):
            logger.removeHandler(same)
    progress_bar.logger.warning(f"the log {file} gets no further lines, because it cannot be written: {error}")
