"""Choose the checkpoint to resume from. If the last one is damaged, take the newest intact one with a warning.

If a folder contains only damaged checkpoints, this is an error and the training does not start from scratch.
"""

import logging
from argparse import Namespace
from pathlib import Path
from typing import Any, NamedTuple

from fairseq.dataclass.configs import CheckpointConfig

from ..errors import UserError
from ..storage.manifest import Damaged
from .export import is_export, read_export
from .reading import CHECKPOINT_NAMES, read_checkpoint, read_unchecked

LAST = "checkpoint_last.pt"  # fairseq's name of the last checkpoint, and the default of --restore-file
AVERAGE_OF = "average_of"  # key in extra_state for the list of the checkpoints that were averaged
logger = logging.getLogger(__name__)


class Choice(NamedTuple):
    """Path and content of a checkpoint. The tensors stay on the disk until they are used."""

    path: Path
    state: dict[str, Any]


def choose(cfg: CheckpointConfig) -> Choice | None:
    """Return the checkpoint to resume from or to start from, or ``None`` for a training from scratch.

    Raises:
        UserError: if a named checkpoint is missing or not intact, or if all existing checkpoints are damaged.
    """
    if is_named(cfg):
        path = Path(cfg.restore_file)
        return Choice(path, read_checkpoint(path, lazily=True))
    folder = Path(cfg.save_dir)
    last = folder / LAST
    if last.exists():
        try:
            return Choice(last, read_checkpoint(last, lazily=True))
        except Damaged as error:
            wrong = str(error).rstrip(".")
    else:
        wrong = f"{folder} has no {LAST}, but it has other checkpoints"
    others = others_of(cfg)
    if not last.exists() and not others:
        start = getattr(cfg, "continue_once", None) or cfg.finetune_from_model
        if start is None:
            return None
        # The path is either the weights of an exported folder or a checkpoint.
        return Choice(Path(start), read_export(start) if is_export(start) else read_checkpoint(start, lazily=True))
    newest = _newest_intact(others, trains=not (cfg.no_save_optimizer_state or cfg.reset_optimizer))
    if newest is None:
        raise UserError(
            f"{wrong}; no other checkpoint in {folder} is intact and has the state of the optimiser, and training "
            "never starts again in such a folder: restore a checkpoint, or choose another --save-dir to start again."
        )
    logger.warning(
        f"RESUMING FROM AN OLDER CHECKPOINT: {wrong}; the newest intact checkpoint is {newest.path} "
        f"({updates_of(newest.state)} updates), and training resumes from there (to start again, choose another "
        "--save-dir)"
    )
    return newest


def updates_of(state: dict[str, Any]) -> int:
    """Return the number of updates with which a model was trained, or 0 if the checkpoint does not record it."""
    history = state.get("optimizer_history") or [{}]
    return int(history[-1].get("num_updates", 0))


def others_of(cfg: CheckpointConfig) -> list[Path]:
    """Return the checkpoints of fairseq-train in the training's folder, except the last one.

    The list is empty if the user named a checkpoint to start from.
    """
    if is_named(cfg):
        return []
    paths = sorted(Path(cfg.save_dir).glob("checkpoint*.pt"))
    return [path for path in paths if CHECKPOINT_NAMES.fullmatch(path.name) and path.name != LAST]


def is_named(cfg: CheckpointConfig | Namespace) -> bool:
    """Return True if the user named a checkpoint other than the last one of the training's folder."""
    return cfg.restore_file != LAST and Path(cfg.restore_file) != Path(cfg.save_dir) / LAST


def is_average(state: dict[str, Any]) -> bool:
    """Return True if ``wean-average`` wrote the checkpoint. No training can resume from such a checkpoint."""
    return AVERAGE_OF in (state.get("extra_state") or {})


def _newest_intact(paths: list[Path], trains: bool) -> Choice | None:
    """Return the newest checkpoint from which a training can resume."""
    found = []
    for path in paths:  # checksums are not compared here, because that would take long for many files
        try:
            state = read_unchecked(path)
        except Damaged as error:
            logger.warning(f"passed over: {error}")
            continue
        if not is_average(state) and ("last_optimizer_state" in state or not trains):
            found.append((updates_of(state), path))
    for _, path in sorted(found, reverse=True):
        try:
            return Choice(path, read_checkpoint(path, lazily=True))
        except Damaged as error:
            logger.warning(f"passed over: {error}")
    return None
