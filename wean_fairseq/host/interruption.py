"""Handle Ctrl-C during a training: finish the update, write a checkpoint, and end the command with one sentence."""

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from fairseq import checkpoint_utils

from ..checkpoints.resume import LAST
from ..console import INTERRUPTED, is_interrupt, print_message
from ..errors import UserError
from . import launchers, precision
from .patches import Original


class _Watch:
    """Waits for Ctrl-C while a training with one process runs."""

    def __init__(self) -> None:
        self.active = False
        self.asked = False

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


_watch = _Watch()  # the watch that waits for Ctrl-C in the running training


def run_command(original: Original, cfg: Any, main: Callable[..., Any], **kwargs: Any) -> None:
    """Run a command of fairseq after adapting its options to this machine. Ctrl-C ends it with one sentence."""
    global _watch  # noqa: PLW0603 - fairseq hands nothing from here to its loop
    precision.adapt_precision(cfg)
    launchers.use_gloo(cfg)
    trains = "validate_and_save" in getattr(main, "__globals__", {})
    _watch = _Watch()
    _watch.active = trains and cfg.distributed_training.distributed_world_size == 1
    first_rank = cfg.distributed_training.distributed_rank
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
        _watch.stop()
        _watch.active = False


def validate_and_save(
    original: Original, cfg: Any, trainer: Any, task: Any, epoch_itr: Any, valid_subsets: Any, end_of_epoch: bool
) -> Any:
    """Call fairseq's function of this name, which runs after every update. After Ctrl-C, save a checkpoint and exit."""
    watch = _watch
    if watch.active and not watch.asked:
        watch.start()
    if end_of_epoch or not watch.asked:
        result = original(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
    if not watch.asked:
        return result
    if not end_of_epoch:
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
    print_message(
        "wean_fairseq", f"stopped after update {trainer.get_num_updates()}; {_saved_checkpoint(cfg.checkpoint)}."
    )
    sys.exit(INTERRUPTED)


def _check_saved(cfg: Any) -> None:
    """Raise ``UserError`` if a finished training has left no checkpoint, although it was to save some."""
    folder = Path(cfg.save_dir)
    if not cfg.no_save and not any(folder.glob("checkpoint*.pt")):
        raise UserError(
            f"the training has ended before its first checkpoint, and --save-dir {folder} has none: give a larger "
            "--max-epoch, or a smaller --save-interval or --save-interval-updates, or leave --no-last-checkpoints out."
        )


def _saved_checkpoint(cfg: Any) -> str:
    if cfg.no_save or cfg.no_last_checkpoints:
        return f"no checkpoint is saved because of {'--no-save' if cfg.no_save else '--no-last-checkpoints'}"
    return f"the same command resumes from {Path(cfg.save_dir) / LAST}"
