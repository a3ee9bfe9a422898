"""End a command of fairseq with one sentence after Ctrl-C, or if its output or its log cannot be written.

A training first finishes the update and writes a checkpoint.
"""

import logging
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import parent_process
from pathlib import Path
from types import FrameType
from typing import Any

from fairseq import checkpoint_utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from ..checkpoints.resume import LAST
from ..console import (
    BROKEN_PIPE,
    INTERRUPTED,
    discard_unwritable_output,
    is_interrupt,
    print_message,
    print_text,
    standard_output,
    unwritable,
)
from ..errors import UserError
from ..storage.files import followed, is_special, keep_permissions, partial_folder
from . import launchers, precision
from .errors import raised_by
from .patches import Original

logger = logging.getLogger(__name__)
_PRINTING = ("fairseq_cli.", print_text.__module__)  # modules that print to standard output


class _Watch:
    """Waits for Ctrl-C while a training with one process runs, and for a failed write while any command runs."""

    def __init__(self) -> None:
        self.is_command = False
        self.active = False
        self.asked = False
        self.failed: tuple[str, OSError] | None = None  # the first output that could not be written, and the error

    def start(self) -> None:
        """Handle the next Ctrl-C, unless SIGINT has another handler or is ignored, as in background processes."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.stop()
        self.asked = True
        print_message("wean_fairseq", "stopping after this update; Ctrl-C again stops at once.")

    def stop(self) -> None:
        """Restore Python's default handler of SIGINT."""
        if signal.getsignal(signal.SIGINT) == self._ask:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @property
    def ends(self) -> bool:
        """Whether the training is to end after this update."""
        return self.asked or self.failed is not None

    def check_outputs(self, stopped: str = "") -> None:
        """End the command if an output cannot be written. ``stopped`` says where a training has stopped.

        Only this text is printed if the output is a pipe whose reader has ended.
        """
        try:
            standard_output().flush()
        except OSError as failure:
            self.failed = self.failed or ("standard output", failure)
        if self.failed is not None:
            discard_unwritable_output()
            name, error = self.failed
            if not isinstance(error, BrokenPipeError):
                raise unwritable(name, error, f"; {stopped}" * bool(stopped)) from None
            if stopped:
                print_message("wean_fairseq", f"{stopped}.")
            sys.exit(BROKEN_PIPE)


_watch = _Watch()  # the watch that waits for Ctrl-C in the running training


def is_command() -> bool:
    """Return True if this process runs a command of fairseq, or is one of its processes."""
    return _watch.is_command or parent_process() is not None


def end_because_of(name: str, error: OSError) -> None:
    """Let the command end because the output ``name`` cannot be written. A training finishes its update first."""
    if is_command():
        _watch.failed = _watch.failed or (name, error)


@contextmanager
def checked_outputs() -> Iterator[_Watch]:
    """Run a command of fairseq in a ``with`` statement, which fails if its output or a log cannot be written.

    Raises:
        UserError: if one cannot be written. The message names it.
        SystemExit: if the program that reads standard output has ended.
    """
    global _watch  # noqa: PLW0603 - fairseq hands nothing from here to its loop
    previous, watch = _watch, _Watch()
    _watch = watch
    watch.is_command = True
    try:
        watch.check_outputs()
        yield watch
        watch.check_outputs()
    except OSError as error:
        # other modules raise it, for example, if a process that loads batches has ended
        if error.filename is None and raised_by(error)[0].startswith(_PRINTING):
            watch.failed = watch.failed or ("the output", error)
            watch.check_outputs()
        raise
    finally:
        discard_unwritable_output()
        _watch = previous


def run_command(original: Original, cfg: Any, main: Callable[..., Any], **kwargs: Any) -> None:
    """Run a command of fairseq after adapting its options to this machine. Ctrl-C ends it with one sentence."""
    precision.adapt_precision(cfg)
    launchers.use_gloo(cfg)
    trains = "validate_and_save" in getattr(main, "__globals__", {})
    first_rank = cfg.distributed_training.distributed_rank
    with checked_outputs() as watch:
        watch.active = trains and cfg.distributed_training.distributed_world_size == 1
        try:
            original(cfg, main, **kwargs)
            # fairseq has set the rank to None if it started the processes itself, from the given rank on
            rank = cfg.distributed_training.distributed_rank
            if trains and not (first_rank if rank is None else rank):
                _check_saved(cfg.checkpoint)
        except (KeyboardInterrupt, Exception) as error:
            if not is_interrupt(error):
                raise
            hint = "; the same command resumes from the last checkpoint, if there is one" if trains else ""
            print_message("wean_fairseq", f"stopped at once{hint}.")
            sys.exit(INTERRUPTED)
        finally:
            watch.stop()
            watch.active = False


def validate_and_save(
    original: Original, cfg: Any, trainer: Any, task: Any, epoch_itr: Any, valid_subsets: Any, end_of_epoch: bool
) -> Any:
    """Call fairseq's function of this name, which runs after every update.

    After Ctrl-C or a failed write of the log, save a checkpoint and exit. A training with several processes exits only
    after it has saved a checkpoint for another reason, because all processes take part in saving.
    """
    watch = _watch
    if watch.active and not watch.asked:
        watch.start()
    before, result = _time_of_last(cfg.checkpoint), None
    if end_of_epoch or not (watch.active and watch.ends):
        result = original(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
    if not watch.ends:
        return result
    saved = end_of_epoch if cfg.checkpoint.no_last_checkpoints else _time_of_last(cfg.checkpoint) != before
    if not saved:
        if watch.active:
            checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
        elif not cfg.checkpoint.no_save:
            return result
    stopped = f"stopped after update {trainer.get_num_updates()}; {_saved_checkpoint(cfg.checkpoint)}"
    watch.check_outputs(stopped)
    print_message("wean_fairseq", f"{stopped}.")
    sys.exit(INTERRUPTED)


def generate_results(original: Original, cfg: Any) -> Any:
    """Run fairseq-generate, which does not call ``run_command``."""
    if isinstance(cfg, Namespace):
        cfg = convert_namespace_to_omegaconf(cfg)
    with checked_outputs(), _finished_results(cfg):
        return original(cfg)


@contextmanager
def _finished_results(cfg: Any) -> Iterator[None]:
    """Let fairseq-generate write its file into a new folder, and move it to ``--results-path`` when it is complete.

    Raises:
        UserError: if the file cannot be written, or is a pipe, a device or a folder.
    """
    if cfg.common_eval.results_path is None:
        yield
        return
    folder, name = Path(cfg.common_eval.results_path), f"generate-{cfg.dataset.gen_subset}.txt"
    with ExitStack() as stack:
        with _names(folder):
            folder.mkdir(parents=True, exist_ok=True)
            place = followed(folder / name)
            if is_special(place):
                raise UserError(f"{place} is not a regular file: give another --results-path.")
            if cfg.dataset.num_shards > 1 and place.exists():
                logger.warning(f"{place} will be replaced: give each shard its own --results-path")
            new = stack.enter_context(partial_folder(place.parent))
        cfg.common_eval.results_path = str(new)
        try:
            yield
        finally:
            cfg.common_eval.results_path = str(folder)
        with _names(folder):
            keep_permissions(place, new / name)
            (new / name).replace(place)


@contextmanager
def _names(folder: Path) -> Iterator[None]:
    """Let the message about a folder that cannot be written name the folder."""
    try:
        yield
    except OSError as error:
        raise unwritable(str(folder), error) from None


def _check_saved(cfg: Any) -> None:
    """Raise ``UserError`` if a finished training has left no checkpoint, although it was to save some."""
    folder = Path(cfg.save_dir)
    if not cfg.no_save and not any(folder.glob("checkpoint*.pt")):
        raise UserError(
            f"the training has ended before its first checkpoint, and --save-dir {folder} has none: give a larger "
            "--max-epoch, or a smaller --save-interval or --save-interval-updates, or leave --no-last-checkpoints out."
        )


def _time_of_last(cfg: Any) -> int | None:
    """Return the time at which the last checkpoint was written, in nanoseconds, or None if there is none."""
    path = Path(cfg.save_dir) / LAST
    return path.stat().st_mtime_ns if path.exists() else None


def _saved_checkpoint(cfg: Any) -> str:
    if cfg.no_save or cfg.no_last_checkpoints:
        return f"no checkpoint is saved because of {'--no-save' if cfg.no_save else '--no-last-checkpoints'}"
    return f"the same command resumes from {Path(cfg.save_dir) / LAST}"
