"""Write checkpoints of fairseq-train atomically, read them safely, and resume only from matching checkpoints.

``table`` contains the reasons.
"""

import copy
import logging
import traceback
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.distributed import utils as distributed_utils
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from ..checkpoints import training_lock, writing
from ..checkpoints.export import WEIGHTS, read_model
from ..checkpoints.loading import missing_model
from ..checkpoints.reading import options_of, read_checkpoint
from ..checkpoints.resume import LAST, Choice, choose, is_average, is_named, others_of
from ..checkpoints.structure import align_state, without_state, wrong_in_optimizer
from ..errors import UserError, name_some, printable, sentence_of, similar
from ..storage.files import remove_partial
from ..storage.manifest import Damaged, Manifest
from . import stopping
from .options import MODEL_OVERRIDES, check_training, read_overrides
from .patches import Original

logger = logging.getLogger(__name__)
# Methods that restore the state of optimiser, schedule, meters, batches and task from a checkpoint.
_RESTORES = {"load_state_dict", "set_checkpoint_dict"}


def copy_checkpoint(_original: Original, src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Copy a checkpoint and its checksum atomically, and return True if it was copied."""
    if not overwrite and Path(dst_path).exists():
        return False
    writing.copy(Path(src_path), Path(dst_path))
    return True


def verify_checkpoint_directory(_original: Original, save_dir: str) -> None:
    """Create the directory and lock it for this training. fairseq calls this only in the first process.

    Raises:
        UserError: if files cannot be written there, or another training writes into it.
    """
    try:
        training_lock.acquire(Path(save_dir))
    except OSError as error:
        raise UserError(
            f"--save-dir {save_dir} cannot be written ({error.strerror}): its checkpoints are unchanged; make it "
            "writable, or choose another directory."
        ) from error


def torch_persistent_save(original: Original, obj: Any, filename: str, async_write: bool = False) -> None:
    """Write a checkpoint and its checksum, each atomically. Raise the errors of ``writing.save``."""
    if async_write:
        # With --write-checkpoints-asynchronously, iopath finishes the file after this call, so no checksum can be
        # recorded here.
        Manifest(Path(filename).parent).forget(Path(filename).name)
        original(obj, filename, async_write)
    else:
        writing.save(obj, Path(filename))


def load_checkpoint_to_cpu(
    _original: Original, path: str, arg_overrides: dict[str, Any] | None = None, load_on_all_ranks: bool = False
) -> dict[str, Any]:
    """Check a checkpoint or a folder of ``wean-export``, and read it.

    Raises:
        UserError: if it is missing, damaged, hostile or not a checkpoint.
    """
    arg_overrides = read_overrides(arg_overrides or {}, *MODEL_OVERRIDES)
    state = read_model(path)
    models = {**ARCH_MODEL_REGISTRY, **MODEL_REGISTRY}
    for section, old_name, names in (("model", "arch", models), ("task", "task", TASK_REGISTRY)):
        name = options_of(state, section).get("_name") or getattr(state["args"], old_name, None)
        if name and name not in names:
            raise UserError(
                f"{path} was trained with the {section} {name}, which is not registered: give the --user-dir of its "
                "training; if it is this one, the file is damaged."
            )
    for option, value in arg_overrides.items() if state["args"] is not None else ():
        setattr(state["args"], option, value)
    if state["cfg"] is not None:
        state["cfg"] = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
        overwrite_args_by_name(state["cfg"], arg_overrides)
    try:
        state = cast("dict[str, Any]", checkpoint_utils._upgrade_state_dict(state))
    except (LookupError, TypeError, AttributeError) as error:
        # the name of the missing value, from OmegaConf's message
        missing = str(error).partition("\n")[0].removeprefix("Missing key ")
        raise Damaged(f"{path} is damaged, or was not written by fairseq-train: it lacks {missing}.") from error
    state["task_state"] = {**(state.get("task_state") or {}), "checkpoint": str(path)}
    return state


def _model_overrides(overrides: dict[str, Any] | None) -> dict[str, Any]:
    """Return the content of ``--model-overrides``.

    Args:
        overrides: values that fairseq writes into the configuration of a checkpoint. For fairseq-validate, these are
            all options of its command line, of which ``--path`` is always given.
    """
    overrides = read_overrides(overrides or {}, *MODEL_OVERRIDES)
    is_command_line = "path" in overrides
    return read_overrides(overrides.get("model_overrides", "{}"), *MODEL_OVERRIDES) if is_command_line else overrides


def _warn_of_unknown(overrides: dict[str, Any], path: str, cfg: DictConfig) -> None:
    """Log a warning for each name in ``--model-overrides`` that has not become an option of the loaded model."""
    options = set(_options_in(cast("dict[str, Any]", OmegaConf.to_container(cfg, resolve=False))))
    for name in sorted(overrides.keys() - options):
        logger.warning(
            f"{path} has no option {printable(name)}{similar(name, sorted(options))}, so --model-overrides does not "
            "change it"
        )


def _options_in(settings: dict[str, Any]) -> Iterator[str]:
    """Yield the names of options in a configuration, with those of its sections."""
    for name, value in settings.items():
        yield name
        if isinstance(value, Namespace):
            yield from vars(value)
        elif isinstance(value, dict):
            yield from _options_in(value)


def load_checkpoint(original: Original, cfg: CheckpointConfig, trainer: Any, **kwargs: Any) -> Any:
    """Resume from the checkpoint that ``resume.choose`` selects. All processes load the same checkpoint.

    Raises:
        UserError: if no checkpoint can be loaded, the checkpoint does not fit this training, or an option is out of
            range.
    """
    check_training(trainer.cfg)
    if trainer.checkpoint_suffix:  # if each process has a part of the model, fairseq loads the parts itself
        return original(cfg, trainer, **kwargs)
    # The first process chooses, because the processes share no memory and may see different states of the folder.
    path, is_older = _agree_on_checkpoint(cfg, trainer)
    names_one = is_named(cfg)
    _check_optimizer_overrides(cfg, trainer)
    cfg = _starting_from(cfg, path if is_older else None)
    try:
        loaded = original(cfg, trainer, **kwargs)
    except UserError:
        raise
    except AssertionError as error:
        if "does not match; please reset" in str(error):
            raise UserError(f"cannot resume from {path}: {error}") from error
        raise
    except Exception as error:
        # fairseq's error does not contain the reason, which is only in the error's context.
        if "Cannot load model parameters" in str(error) and not isinstance(error.__context__, UserError):
            raise _other_model(str(path), error.__context__ or error) from error
        if not _RESTORES.isdisjoint(frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)):
            raise _cannot_resume(path, _in_short(error)) from error
        raise
    wrong = wrong_in_optimizer(trainer.optimizer.optimizer) if path is not None else None
    if wrong is not None:
        raise _cannot_resume(path, f"{wrong} of the optimiser has the wrong type, size or value")
    if new := without_state(trainer.optimizer.optimizer, trainer.model):
        logger.warning(
            f"{path} has no optimiser state for {name_some(new)}: these parameters start a new one, which is right if "
            "they have had no gradient so far."
        )
    align_state(trainer.optimizer.optimizer)
    # a run that starts from a named checkpoint counts as a new run, even if an earlier run ended with this checkpoint
    if names_one:
        stopping.forget_patience()
    elif stopping.stop_if_done(trainer) and is_older:
        _make_last(Path(str(path)), cfg, trainer)
    return loaded


def load_model_ensemble_and_task(original: Original, filenames: list[str], *args: Any, **kwargs: Any) -> Any:
    """Load models, and check their parameters.

    Raises:
        UserError: if the parameters do not fit the configuration, the data and the options, if a parameter is not
            finite, or if no model can be built from the configuration.
    """
    overrides = _model_overrides(kwargs.get("arg_overrides") or next(iter(args), None))
    try:
        models, cfg, task = original(filenames, *args, **kwargs)
    except Exception as error:  # fairseq's tasks and archs raise errors of any type
        if str(error).startswith("Error(s) in loading state_dict"):
            raise _other_model(", ".join(filenames), error, overrides) from error
        if str(error).startswith("Model file not found: "):
            raise missing_model(str(error).partition(": ")[2]) from error
        if sentence_of(error) is not None and not isinstance(error, OSError | OmegaConfBaseException):
            raise
        advice = "give the --user-dir of its training; if it is this one, the file is damaged"
        if overrides:
            advice = "correct --model-overrides; if it is right, give the --user-dir of the training"
        raise UserError(f"cannot build a model from {', '.join(filenames)} ({_in_short(error)}): {advice}.") from error
    if overrides:
        _warn_of_unknown(overrides, filenames[-1], cfg)
    for filename, model in zip(filenames, models, strict=True):
        for name, parameter in model.named_parameters():
            if not parameter.isfinite().all():
                raise UserError(
                    f"{filename} has a parameter that is not finite ({name}): its training diverged, and its outputs "
                    "mean nothing; use an earlier checkpoint."
                )
    return models, cfg, task


def _check_optimizer_overrides(cfg: CheckpointConfig, trainer: Any) -> None:
    """Refuse names that are not options of the optimiser. PyTorch would store them without an effect."""
    overrides = read_overrides(cfg.optimizer_overrides, "--optimizer-overrides", "{'weight_decay': 0.01}")
    known = sorted(set(trainer.optimizer.optimizer.param_groups[0]) - {"params"}) if overrides else []
    for name in sorted(overrides.keys() - set(known)):
        raise UserError(
            f"--optimizer-overrides has {printable(name)}{similar(name, known)}, which is not an option of the "
            f"optimiser: choose from {', '.join(known)}."
        )


def _starting_from(cfg: CheckpointConfig, older: str | None) -> CheckpointConfig:
    """Return a configuration that names the older checkpoint, or the weights file of an exported folder.

    If the configuration names a folder, fairseq starts without a model and reports no error.
    """
    start = cfg.finetune_from_model
    if older is None and not (start and Path(start).is_dir()):
        return cfg
    cfg = copy.deepcopy(cfg)
    with open_dict(cfg):
        if older is not None:  # otherwise fairseq would load checkpoint_last.pt, which is missing or damaged
            cfg.restore_file, cfg.finetune_from_model = older, None
        else:
            cfg.finetune_from_model = str(Path(str(start)) / WEIGHTS)
    return cfg


def _agree_on_checkpoint(cfg: CheckpointConfig, trainer: Any) -> tuple[str | None, bool]:
    """Return the path that the first process chooses, and whether fairseq itself would choose another path.

    All processes return the same path or raise the same error.
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
    """Remove partial files that killed processes have left in a folder."""
    removed = remove_partial(folder)
    if removed:
        logger.info(f"Removed {removed} partial file(s) left by killed processes from {folder}")


def _make_last(path: Path, cfg: CheckpointConfig, trainer: Any) -> None:
    """Replace a missing or damaged last checkpoint by a copy of the checkpoint of a finished training."""
    if trainer.should_save_checkpoint_on_current_rank and not (cfg.no_save or cfg.no_last_checkpoints):
        writing.copy(path, Path(cfg.save_dir) / LAST)
        logger.info(f"Copied {path} to {LAST}")


def _check_fits(choice: Choice | None, trainer: Any) -> None:
    """Refuse a checkpoint whose dictionaries order words differently, or whose schedule state cannot be used."""
    if choice is None:
        return
    if hasattr(trainer.task, "check_dictionaries"):
        trainer.task.check_dictionaries(choice.state.get("task_state") or {}, str(choice.path))
        if not (is_named(trainer.cfg.checkpoint) or trainer.cfg.checkpoint.finetune_from_model):
            trainer.task.resume_from(choice.state.get("task_state") or {})
    _check_optimizer_state(choice, trainer.cfg.checkpoint)
    reset = trainer.cfg.checkpoint.reset_lr_scheduler or trainer.cfg.checkpoint.reset_optimizer
    before = options_of(choice.state, "lr_scheduler").get("_name")
    now = trainer.cfg.lr_scheduler._name
    if before not in (None, now) and not (reset or trainer.cfg.checkpoint.finetune_from_model):
        raise UserError(
            f"{choice.path} was trained with --lr-scheduler {before}, and this is {now}: give {before}, or add "
            "--reset-lr-scheduler to start a new schedule."
        )


def _check_optimizer_state(choice: Choice, cfg: CheckpointConfig) -> None:
    """Refuse to resume from an average, and warn of a checkpoint without a state of the optimiser."""
    starts = {Path(start) for start in (getattr(cfg, "continue_once", None), cfg.finetune_from_model) if start}
    if cfg.reset_optimizer or choice.path in starts:
        return
    if is_average(choice.state):
        raise UserError(
            f"{choice.path} is an average of checkpoints, which has no state of the optimiser, so that no training can "
            "resume from it: give it as --finetune-from-model with a new --save-dir, or add --reset-optimizer."
        )
    if "last_optimizer_state" not in choice.state:
        logger.warning(
            f"{choice.path} has no state of the optimiser: the training starts a new one, and will differ from a "
            "training without interruption"
        )


def _cannot_resume(path: str | None, why: str) -> UserError:
    return UserError(
        f"cannot resume from {path} ({why}): give the options of its training; if they are the same, the file is "
        "damaged, and you need another checkpoint."
    )


def _other_model(path: str, error: BaseException, overrides: dict[str, Any] | None = None) -> UserError:
    correct = "correct --model-overrides, " if overrides else ""
    return UserError(
        f"{path}{_arch_of(path)} has other parameters than the model of these options ({_in_short(error)}): "
        f"{correct}give the options and the dictionary of its training, or choose another checkpoint or --save-dir."
    )


def _in_short(error: BaseException) -> str:
    """Return the most informative line of an error, shortened. torch's first line is only a title."""
    said = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
    lines = [line.strip() for line in said.splitlines()] or [type(error).__name__]
    said = lines[1] if len(lines) > 1 else lines[0]
    return said.rstrip(".") if len(said) < 240 else said[:240] + "..."


def _arch_of(path: str) -> str:
    try:
        name = options_of(read_checkpoint(path, lazily=True), "model").get("_name")
    except UserError:  # the path is a list of several files
        return ""
    return "" if name is None else f" is of --arch {name} and"
