"""Detect a finished training, so that starting it again adds no updates.

fairseq forgets the count of ``--patience`` when it is restarted, and checks ``--max-update`` and ``--stop-time-hours``
only after an update.
Therefore a training that is restarted until it is complete would run more updates than an uninterrupted one.
"""

import logging
import sys
from typing import Any

from omegaconf import open_dict

_COUNTED = ("best", "num_runs")
logger = logging.getLogger("fairseq_cli.train")  # the file of --log-file has only the messages of this logger


def patience() -> dict[str, Any]:
    """Return the count of ``--patience`` (validations without improvement) and the best score.

    It is empty outside of a training.
    """
    counter = _counter()
    return {name: getattr(counter, name) for name in _COUNTED if hasattr(counter, name)}


def restore_patience(state: dict[str, Any]) -> None:
    """Restore the count of ``--patience`` from a state that ``patience`` returned."""
    counter = _counter()
    if counter is not None:
        for name in state.keys() & _COUNTED:
            setattr(counter, name, state[name])


def forget_patience() -> None:
    """Restart the count of ``--patience`` from 0."""
    restore_patience({"best": None, "num_runs": 0})


def stop_if_done(trainer: Any) -> bool:
    """Stop a training that ``--max-update``, ``--patience`` or ``--stop-time-hours`` has ended.

    Return True if it is stopped.
    """
    cfg, updates = trainer.cfg, trainer.get_num_updates()
    hours, most_hours = trainer.cumulative_training_time() / 3600, cfg.optimization.stop_time_hours
    # with these options, fairseq also forgets the best score
    if cfg.checkpoint.reset_meters or cfg.checkpoint.reset_optimizer:
        forget_patience()
    waited = patience().get("num_runs", 0)
    if 0 < cfg.optimization.max_update <= updates:
        why = f"it has {updates} updates, and --max-update is {cfg.optimization.max_update}"
    elif 0 < cfg.checkpoint.patience <= waited:
        why = f"{waited} validations brought no improvement, and --patience is {cfg.checkpoint.patience}"
    elif updates and 0 < most_hours < hours:
        why = f"it has run {hours:.3g} hours, and --stop-time-hours is {most_hours:g}"
    else:
        return False
    logger.info(f"this training is complete: {why}")
    with open_dict(cfg):
        cfg.optimization.max_epoch = -1  # fairseq checks max_epoch before each epoch, so its loop over epochs ends
    return True


def _counter() -> Any:
    """Return the function of fairseq that counts validations for ``--patience``.

    The module ``fairseq_cli.train`` may be the running program or an imported module.
    """
    modules = (sys.modules.get(name) for name in ("__main__", "fairseq_cli.train"))
    functions = (getattr(module, "should_stop_early", None) for module in modules)
    return next((function for function in functions if function is not None), None)
