"""When a training has come to its end, so that starting it again adds nothing to it.

fairseq forgets ``--patience``'s count when it is started again, and looks at ``--max-update`` only after an update: a
training that is restarted until it is done would go further than one that was left alone.
"""

import logging
import sys
from typing import Any

from omegaconf import open_dict

_COUNTED = ("best", "num_runs")
logger = logging.getLogger(__name__)


def patience() -> dict[str, Any]:
    """For how many validations the model has not become better, and how good it was; empty where nobody counts."""
    counter = _counter()
    return {name: getattr(counter, name) for name in _COUNTED if hasattr(counter, name)}


def restore_patience(state: dict[str, Any]) -> None:
    """Go on counting from what ``patience`` gave."""
    counter = _counter()
    if counter is not None:
        for name in state.keys() & _COUNTED:
            setattr(counter, name, state[name])


def forget_patience() -> None:
    """Begin to count anew."""
    restore_patience({"best": None, "num_runs": 0})


def stop_if_done(trainer: Any) -> bool:
    """Whether ``--max-update`` or ``--patience`` has ended a training, which is then let end at once."""
    cfg, updates = trainer.cfg, trainer.get_num_updates()
    if cfg.checkpoint.reset_meters or cfg.checkpoint.reset_optimizer:  # fairseq forgets the best one, too
        forget_patience()
    waited = patience().get("num_runs", 0)
    if 0 < cfg.optimization.max_update <= updates:
        why = f"it has {updates} updates, and --max-update is {cfg.optimization.max_update}"
    elif 0 < cfg.checkpoint.patience <= waited:
        why = f"{waited} validations brought no improvement, and --patience is {cfg.checkpoint.patience}"
    else:
        return False
    logger.info(f"this training is complete: {why}")
    with open_dict(cfg):
        cfg.optimization.max_epoch = -1  # what fairseq's loop over epochs looks at before it begins one
    return True


def _counter() -> Any:
    """fairseq's function that keeps the count: ``fairseq_cli.train`` is the command itself, or imported by it."""
    modules = (sys.modules.get(name) for name in ("__main__", "fairseq_cli.train"))
    found = (getattr(module, "should_stop_early", None) for module in modules)
    return next((function for function in found if function is not None), None)
