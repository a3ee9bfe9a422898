"""Checks of options and tasks that all models share."""

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
