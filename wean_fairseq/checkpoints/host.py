"""Replacements of functions of ``fairseq.checkpoint_utils``; ``compat.install`` puts it there and says why.

Each does its work before or after fairseq's own function, which it calls; only reading a file and writing one are
wholly their own.
"""

import copy
import logging
import traceback
from pathlib import Path
from typing import Any, cast

from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from omegaconf import OmegaConf, open_dict

from ..errors import UserError, sentence_of
from ..options import check_training
from ..storage.files import remove_partial
from ..storage.manifest import Damaged, Manifest
from . import stopping, training_lock, writing
from .export import read_model
from .reading import options_of, read_checkpoint
from .resume import LAST, Choice, choose, is_named, others_of
from .structure import wrong_in_optimizer

logger = logging.getLogger(__name__)
# The functions that get what a checkpoint holds of the optimiser, the schedule, the meters, the batches and the task.
_RESTORES = {"load_state_dict", "set_checkpoint_dict"}

_load_checkpoint = checkpoint_utils.load_checkpoint
_load_model_ensemble_and_task = checkpoint_utils.load_model_ensemble_and_task
_torch_persistent_save = checkpoint_utils.torch_persistent_save


class WholeFiles(PathManager):
    """fairseq's file functions, for checkpoints."""

    @staticmethod
    def copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
        """Copy a checkpoint, whole or not at all, with its checksum; true, as fairseq asserts."""
        if not overwrite and Path(dst_path).exists():
            return False
        writing.copy(Path(src_path), Path(dst_path))
        return True


def verify_checkpoint_directory(save_dir: str) -> None:
    """Make the directory and be the only training there; of several processes the first one calls this.

    Raises:
        UserError: if files cannot be written there, or another training is writing them.
    """
    try:
        training_lock.acquire(Path(save_dir))
    except OSError as error:
        raise UserError(
            f"--save-dir {save_dir} cannot be written ({error.strerror}): its checkpoints are unchanged; make it "
            "writable, or choose another directory."
        ) from error


def torch_persistent_save(obj: Any, filename: str, async_write: bool = False) -> None:
    """Write a checkpoint, whole or not at all, with its checksum; raises what ``writing.save`` does."""
    if async_write:  # --write-checkpoints-asynchronously: the file is iopath's, which finishes it later
        Manifest(Path(filename).parent).forget(Path(filename).name)
        _torch_persistent_save(obj, filename, async_write)
    else:
        writing.save(obj, Path(filename))


def load_checkpoint_to_cpu(
    path: str, arg_overrides: dict[str, Any] | None = None, load_on_all_ranks: bool = False
) -> dict[str, Any]:
    """Read a checkpoint or a folder of ``wean-export`` as fairseq does, after checking it.

    Raises:
        UserError: if it is not there, damaged, hostile or no checkpoint.
    """
    state = read_model(path)
    for option, value in (arg_overrides or {}).items() if state["args"] is not None else ():
        setattr(state["args"], option, value)
    if state["cfg"] is not None:
        state["cfg"] = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
        overwrite_args_by_name(state["cfg"], arg_overrides or {})
    try:
        state = cast("dict[str, Any]", checkpoint_utils._upgrade_state_dict(state))
    except (LookupError, TypeError, AttributeError) as error:
        missing = str(error).partition("\n")[0].removeprefix("Missing key ")  # the words of OmegaConf
        raise Damaged(f"{path} is damaged, or was not written by fairseq-train: it lacks {missing}.") from error
    state["task_state"] = {**(state.get("task_state") or {}), "checkpoint": str(path)}
    return state


def load_checkpoint(cfg: CheckpointConfig, trainer: Any, **passthrough_args: Any) -> Any:
    """Resume as fairseq does, from the checkpoint that ``resume.choose`` finds; all processes load the same one.

    Raises:
        UserError: if there is none to go on from, it does not fit this training, or an option is out of range.
    """
    check_training(trainer.cfg)
    if trainer.checkpoint_suffix:  # parts of a model, one a process: fairseq's own way
        return _load_checkpoint(cfg, trainer, **passthrough_args)
    path, is_older = _agree_on_checkpoint(cfg, trainer)
    names_one = is_named(cfg)
    if is_older:
        cfg = copy.deepcopy(cfg)
        with open_dict(cfg):
            cfg.restore_file, cfg.finetune_from_model = path, None
    try:
        loaded = _load_checkpoint(cfg, trainer, **passthrough_args)
    except UserError:
        raise
    except AssertionError as error:
        if "does not match; please reset" in str(error):
            raise UserError(f"cannot resume from {path}: {error}") from error
        raise
    except Exception as error:
        if "Cannot load model parameters" in str(error) and not isinstance(error.__context__, UserError):
            raise _other_model(str(path), error.__context__ or error) from error
        if not _RESTORES.isdisjoint(frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)):
            raise _cannot_go_on(path, _in_short(error)) from error
        raise
    wrong = wrong_in_optimizer(trainer.optimizer.optimizer) if path is not None else None
    if wrong is not None:
        raise _cannot_go_on(path, f"{wrong} of the optimiser has the wrong type or size")
    if names_one:  # what is begun with it is not done, whatever it was the end of
        stopping.forget_patience()
    elif stopping.stop_if_done(trainer) and is_older:
        _make_last(Path(str(path)), cfg, trainer)
    return loaded


def load_model_ensemble_and_task(filenames: list[str], *args: Any, **kwargs: Any) -> Any:
    """Load models as fairseq does, and check their parameters.

    Raises:
        UserError: if a checkpoint has other parameters than its configuration, the data and the options call for, or
            parameters that are not finite, or a configuration that no model can be made of.
    """
    try:
        models, cfg, task = _load_model_ensemble_and_task(filenames, *args, **kwargs)
    except Exception as error:  # fairseq's tasks and archs raise anything
        if str(error).startswith("Error(s) in loading state_dict"):
            raise _other_model(", ".join(filenames), error) from error
        if sentence_of(error) is not None and not isinstance(error, OSError):
            raise
        raise UserError(
            f"{', '.join(filenames)} cannot be made a model of ({_in_short(error)}): give the --user-dir that it was "
            "trained with; if it is this one, the file is damaged."
        ) from error
    for filename, model in zip(filenames, models, strict=True):
        for name, parameter in model.named_parameters():
            if not parameter.isfinite().all():
                raise UserError(
                    f"{filename} has a parameter that is not finite ({name}): its training diverged, and nothing it "
                    "writes means anything; use an earlier checkpoint."
                )
    return models, cfg, task


def _agree_on_checkpoint(cfg: CheckpointConfig, trainer: Any) -> tuple[str | None, bool]:
    """The path that the first process chooses, and whether it is another than fairseq would take.

    It is the same in all processes, and an error is one in all of them.
    """
    answer: dict[str, Any] = {"path": None, "is_older": False, "error": None}
    if trainer.data_parallel_rank == 0:
        try:
            _remove_partial(Path(cfg.save_dir))
            choice = choose(cfg)
            _check_fits(choice, trainer)
            if choice is not None:
                answer |= {"path": str(choice.path), "is_older": choice.path in others_of(cfg)}
        except UserError as error:
            answer["error"] = str(error)
    if trainer.data_parallel_world_size > 1:
        group, device = trainer.data_parallel_process_group, trainer.device
        answer = distributed_utils.broadcast_object(answer, src_rank=0, group=group, dist_device=device)
    if answer["error"] is not None:
        raise UserError(answer["error"])
    return answer["path"], answer["is_older"]


def _remove_partial(folder: Path) -> None:
    """Remove the partial files of killed processes."""
    removed = remove_partial(folder)
    if removed:
        logger.info(f"Removed {removed} partial file(s) of killed processes from {folder}")


def _make_last(path: Path, cfg: CheckpointConfig, trainer: Any) -> None:
    """Make the checkpoint at which a training was done its last one, which is not there or damaged."""
    if trainer.should_save_checkpoint_on_current_rank and not (cfg.no_save or cfg.no_last_checkpoints):
        writing.copy(path, Path(cfg.save_dir) / LAST)
        logger.info(f"{path} is now {LAST}, too")


def _check_fits(choice: Choice | None, trainer: Any) -> None:
    """Refuse dictionaries whose words have other numbers, and a schedule that cannot take over another one's state."""
    if choice is None:
        return
    if hasattr(trainer.task, "check_dictionaries"):
        trainer.task.check_dictionaries(choice.state.get("task_state") or {}, str(choice.path))
        if not (is_named(trainer.cfg.checkpoint) or trainer.cfg.checkpoint.finetune_from_model):
            trainer.task.resume_from(choice.state.get("task_state") or {})
    reset = trainer.cfg.checkpoint.reset_lr_scheduler or trainer.cfg.checkpoint.reset_optimizer
    before = options_of(choice.state, "lr_scheduler").get("_name")
    now = trainer.cfg.lr_scheduler._name
    if before not in (None, now) and not (reset or trainer.cfg.checkpoint.finetune_from_model):
        raise UserError(
            f"{choice.path} was trained with --lr-scheduler {before}, and this is {now}: give that one, or add "
            "--reset-lr-scheduler to begin a new schedule."
        )


def _cannot_go_on(path: str | None, why: str) -> UserError:
    return UserError(
        f"cannot resume from {path} ({why}): give the options that it was trained with; if they are the same, the file "
        "is damaged, and you need another checkpoint."
    )


def _other_model(path: str, error: BaseException) -> UserError:
    return UserError(
        f"{path}{_arch_of(path)} has other parameters than the model that the options ask for ({_in_short(error)}): "
        "give the options and the dictionary that it was trained with, or choose another checkpoint or --save-dir."
    )


def _in_short(error: BaseException) -> str:
    """The line of an error that says most, cut to a readable length; torch's first one is a title."""
    said = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
    lines = [line.strip() for line in said.splitlines()] or [type(error).__name__]
    said = lines[1] if len(lines) > 1 else lines[0]
    return said.rstrip(".") if len(said) < 240 else said[:240] + "..."


def _arch_of(path: str) -> str:
    try:
        name = options_of(read_checkpoint(path, lazily=True), "model").get("_name")
    except UserError:  # several files
        return ""
    return "" if name is None else f" is of --arch {name} and"
