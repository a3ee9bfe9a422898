"""Ctrl-C in a training: its update is done, a checkpoint is written, and the command ends with one sentence.

fairseq ends in the middle of an update, with a traceback, and what came after the last checkpoint is lost.
"""

import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from fairseq import checkpoint_utils

from ..checkpoints.resume import LAST
from ..console import print_message

_LOOP = "validate_and_save"  # what fairseq's training calls after every update
_STATUS = 128 + signal.SIGINT


class _Watch:
    def __init__(self) -> None:
        self.asked = False

    def start(self) -> None:
        """Take Ctrl-C for a question, once; where it does something else already, as in the background, it stays so."""
        alone = threading.current_thread() is threading.main_thread()
        if alone and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.stop()
        self.asked = True
        print_message("wean_fairseq", "stopping after this update; Ctrl-C again stops at once.")

    def stop(self) -> None:
        """Let Ctrl-C be what it was."""
        if signal.getsignal(signal.SIGINT) == self._ask:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def ends_well(cfg: Any, main: Callable[..., Any]) -> Iterator[None]:
    """Let Ctrl-C end a training of one process after its update, and every command with one sentence."""
    command = getattr(main, "__globals__", {})
    watch, loop = _Watch(), command.get(_LOOP)
    if loop is not None and cfg.distributed_training.distributed_world_size == 1:
        command[_LOOP] = _watching(watch, loop)
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if not _came_of_an_interrupt(error):
            raise
        goes_on = "; the same command resumes from the last checkpoint, if there is one" if loop else ""
        print_message("wean_fairseq", f"stopped at once{goes_on}.")
        sys.exit(_STATUS)
    finally:
        watch.stop()
        if loop is not None:
            command[_LOOP] = loop


def _came_of_an_interrupt(error: BaseException | None) -> bool:
    """Whether an error is a second Ctrl-C, or came of one: any other is told as it is, also after the first."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _watching(watch: _Watch, loop: Callable[..., Any]) -> Callable[..., Any]:
    """fairseq's function after an update, which ends the training where that is asked for."""

    @functools.wraps(loop)
    def validate_and_save(
        cfg: Any, trainer: Any, task: Any, epoch_itr: Any, valid_subsets: list[str], end_of_epoch: bool
    ) -> Any:
        if not watch.asked:
            watch.start()
        if end_of_epoch or not watch.asked:
            result = loop(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
        if not watch.asked:
            return result
        if not end_of_epoch:
            checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
        done = f"stopped after update {trainer.get_num_updates()}"
        print_message("wean_fairseq", f"{done}; {_what_is_kept(cfg.checkpoint)}.")
        sys.exit(_STATUS)

    return validate_and_save


def _what_is_kept(cfg: Any) -> str:
    if cfg.no_save or cfg.no_last_checkpoints:
        return f"no checkpoint is saved because of {'--no-save' if cfg.no_save else '--no-last-checkpoints'}"
    return f"the same command resumes from {Path(cfg.save_dir) / LAST}"
