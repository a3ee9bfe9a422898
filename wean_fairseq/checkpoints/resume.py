"""Which checkpoint a training goes on from: the last one, or, loudly, the newest intact one; silently never none."""

import logging
import re
from pathlib import Path
from typing import Any, NamedTuple

from fairseq.dataclass.configs import CheckpointConfig

from ..errors import UserError
from ..storage.manifest import Damaged
from .export import is_export, read_export
from .reading import read_checkpoint, read_unchecked

LAST = "checkpoint_last.pt"  # fairseq's, and what --restore-file is unless it is given
_OTHERS = re.compile(r"checkpoint(\d+|_\d+_\d+|_best|\.best_.+)\.pt")  # fairseq's: files of other names are the user's
AVERAGE_OF = "average_of"  # in extra_state: the files that an average was made of
logger = logging.getLogger(__name__)


class Choice(NamedTuple):
    """A checkpoint, and what it holds (its tensors still on the disk)."""

    path: Path
    state: dict[str, Any]


def choose(cfg: CheckpointConfig) -> Choice | None:
    """The checkpoint to go on from, or to begin with; ``None`` if the training begins with nothing.

    Raises:
        UserError: if one was named and is not there or not intact, or if there are some and none of them is intact.
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
        return None if start is None else Choice(Path(start), _read_start(start))
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


def _read_start(path: str) -> dict[str, Any]:
    """The content of a model to begin with: the weights of an exported folder, or a checkpoint."""
    return read_export(path) if is_export(path) else read_checkpoint(path, lazily=True)


def updates_of(state: dict[str, Any]) -> int:
    """The number of updates that a model has been trained for, 0 if the checkpoint does not say."""
    history = state.get("optimizer_history") or [{}]
    return int(history[-1].get("num_updates", 0))


def others_of(cfg: CheckpointConfig) -> list[Path]:
    """The files in the training's folder that fairseq-train writes, its last one apart; none if one was named."""
    if is_named(cfg):
        return []
    return [path for path in sorted(Path(cfg.save_dir).glob("checkpoint*.pt")) if _OTHERS.fullmatch(path.name)]


def is_named(cfg: CheckpointConfig) -> bool:
    """Whether the user chose a checkpoint; scripts that name the last one by its path mean it where it is."""
    return cfg.restore_file != LAST and Path(cfg.restore_file) != Path(cfg.save_dir) / LAST


def is_average(state: dict[str, Any]) -> bool:
    """Whether ``wean-average`` made it: nothing to go on from."""
    return AVERAGE_OF in (state.get("extra_state") or {})


def _newest_intact(paths: list[Path], trains: bool) -> Choice | None:
    """The newest checkpoint that a training can go on from."""
    found = []
    for path in paths:  # without the checksums: to compare those of all files would take long
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
