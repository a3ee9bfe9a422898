"""Checks of options and tasks that all models share."""

from typing import Any

from fairseq.tasks import FairseqTask

from ..errors import UserError


def check_task(task: FairseqTask, arch: str, shares_words: bool) -> None:
    """Refuse data with two dictionaries where words are shared, and targets padded on the left.

    Raises:
        UserError: saying what to do.
    """
    source, target = task.source_dictionary, task.target_dictionary
    if shares_words and source != target:
        raise UserError(
            f"{arch} shares its words between source and target, but the data has two dictionaries "
            f"({len(source)} and {len(target)} entries): run fairseq-preprocess again with --joined-dictionary."
        )
    if getattr(task.cfg, "left_pad_target", False):
        raise UserError(f"{arch} reads the target from the left: do not use --left-pad-target.")


def check_at_least(minimum: float, cfg: Any, *names: str) -> None:
    """Refuse options ``names`` of ``cfg`` that are below ``minimum``.

    Raises:
        UserError: naming the option.
    """
    for name in names:
        if getattr(cfg, name) < minimum:
            option = f"--{name.replace('_', '-')}"
            raise UserError(f"{option} must be at least {minimum}, but is {getattr(cfg, name)}.")


def check_init_range(cfg: Any) -> None:
    """Refuse a range of start weights below 0.

    Raises:
        UserError: saying what is accepted.
    """
    if cfg.init_range < 0:
        raise UserError(f"--init-range must be 0 (PyTorch's defaults) or more, but is {cfg.init_range}.")
