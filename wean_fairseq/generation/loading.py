"""Load a model for use from a folder of ``wean-export``, or from a checkpoint with the data of its training."""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from enum import EnumType
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..checkpoints.export import check_unused, read_exported_text
from ..checkpoints.loading import MODELS, Loaded, StoredModel, missing_model
from ..data.given_text import compare_text
from ..errors import UserError, name_some, printable
from ..ranges import flag
from ..storage.search import GENERATION, check_stored
from ..tasks.paraphrase import ParaphraseTask
from ..text import TOKENS, Text, TextSettings, prepared_text
from .arguments import check_names, check_numbers
from .ctranslate2_engine import CTranslate2Engine
from .model import TextModel, quiet

logger = logging.getLogger(__name__)

ENGINES = ("pytorch", "ctranslate2")
COMPUTE_TYPE = "float32"
# Task options that a user may set when loading a model. The other task options describe the training, so a user rarely
# overrides them.
_OF_USE = ("beam", "search_preset", "essay_length", "replace_unk", "bert", "stock_search", "bf16_scores", "int8_scores")
# Options for test sets that contain more than source sentences.
_OF_TEST_SETS = ("constraints", "score_reference", "prefix_size")


def load(
    path: str | Path,
    data: str | Path | None = None,
    *,
    text: str | Path | TextSettings | None = None,
    device: str | torch.device | None = None,
    engine: str = "pytorch",
    compute_type: str = COMPUTE_TYPE,
    **options: Any,
) -> TextModel:
    """Load a trained model that reads and writes untokenised text.

    Args:
        path: a folder that ``wean-export`` wrote, or a checkpoint of fairseq-train.
        data: for a checkpoint, the data directory of its training, which contains the dictionaries (default: its
            original path).
        text: for a checkpoint, the output folder of the ``preprocess/`` script for its training text (default: recorded
            in the data). Without a record, words are separated by spaces, and a warning says so.
        device: device of the model, such as ``"cpu"`` (default: a GPU, if there is one).
        engine: library for the search: ``"pytorch"``, or ``"ctranslate2"`` for Transformers that do not copy.
        compute_type: number type of the matrix products in CTranslate2, such as ``"int8"``.
        options: task options that override the options of the training, such as ``search_preset`` or ``bert``. By
            default, a model searches with the options in its folder, or in ``search.txt`` next to its checkpoint.

    Returns:
        The loaded model. Its main method is ``TextModel.generate``.

    Raises:
        UserError: if a file is missing or the files do not match.
    """
    _check_engine(engine, compute_type)
    path = _check_paths(path, data, text)
    check_unused(path, data=data, text=None if isinstance(text, TextSettings) else text)
    options = {name: value for name, value in options.items() if value is not None}
    options = check_numbers(options)
    _check_values(options)
    # Errors that can be found quickly are reported first, because loading a model may take a minute.
    stored = StoredModel(path, data)
    if isinstance(text, TextSettings) and text.files:
        advice = "leave text out" if stored.is_export else "give the folder of the prepared text as text"
        raise UserError(
            f"the text settings ({text.describe()}) need {name_some(text.files)}: {advice}, because it has such files."
        )
    if not stored.is_export and not Path(path).is_file():
        raise missing_model(path)
    if stored.data is not None and not Path(stored.data).is_dir():
        raise UserError(f"there is no directory {data}: name the data directory of the training.")
    with quiet():
        loaded = stored.load(**{"dataset_impl": "raw", "eval_bleu": False} | options)
    if not isinstance(loaded.task, ParaphraseTask):
        raise UserError(
            f"{path} is a model of {type(loaded.task).__name__}, and only those of the tasks paraphrase and "
            "topic_essay are loaded to use them: give it to fairseq-generate."
        )
    _check_names(loaded, options, path)
    text_steps = _text_steps(stored, Path(str(loaded.task.cfg.data).split(":")[0]), text)
    place = _device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    # CTranslate2 converts weights in the memory of the CPU, where they were loaded. Therefore the model is moved to its
    # device afterwards.
    search_engine = None
    if engine == "ctranslate2":
        search_engine = CTranslate2Engine(loaded.model, loaded.task, place, compute_type)
    loaded.model.to(place)
    try:
        check_stored({name: value for name, value in loaded.search.items() if name not in options})
        return TextModel(loaded, text_steps, search_engine)
    except UserError as error:
        raise UserError(f"the search of {path} is not valid: {error}") from error


def _text_steps(stored: StoredModel, data: Path, text: str | Path | TextSettings | None) -> Text:
    """Return the text steps of the caller, of the exported folder, or of the text from which the data was made.

    If they are not known, words are separated by spaces. For a checkpoint, this is logged.
    """
    if isinstance(text, TextSettings):
        return Text(text)
    steps = read_exported_text(str(stored.path)) if stored.is_export else prepared_text(data, text)
    if text is not None:
        compare_text(data, Path(text))
    elif steps is None and not stored.is_export:
        logger.warning(
            f"it is not known how text becomes the tokens of {printable(str(stored.path))}, so it reads words between "
            "spaces: if a script of preprocess/ wrote its training text, name the folder of that text with --text"
        )
    return steps or Text(TOKENS)


def _check_paths(path: Any, data: Any, text: Any) -> str:
    """Refuse paths that have the wrong type or do not exist. Return the path of the model as text."""
    for name, value in (("path", path), ("data", data), ("text", text)):
        accepted = isinstance(value, str | PathLike) or (name == "text" and isinstance(value, TextSettings))
        if not accepted and (value is not None or name == "path"):
            raise UserError(f"{name} is {value!r:.40}: give a path as a string.")
        if isinstance(value, PathLike) and not isinstance(value.__fspath__(), str):
            raise UserError(f"{name} is a path of bytes: give a path as a string.")
    if not _is_there(path):
        raise UserError(f"there is no model {os.fspath(path):.300}: name {MODELS}.")
    for name, folder in (("data", data), ("text", text)):
        if isinstance(folder, str | PathLike) and not _is_there(os.fspath(folder).split(":")[0]):
            raise UserError(f"there is no directory {os.fspath(folder):.300}: give another {name}, or leave it out.")
    return str(os.fspath(path))


def _is_there(path: str | PathLike[str]) -> bool:
    """Return True if ``path`` is an existing file or folder.

    Return False for all other paths, including names that are too long for the file system.
    """
    with suppress(OSError):
        return Path(path).exists()
    return False


def _tasks() -> list[type]:
    """Return the option classes of this package's tasks."""
    package = __name__.partition(".")[0]
    return [kind for kind in TASK_DATACLASS_REGISTRY.values() if kind.__module__.partition(".")[0] == package]


def _check_values(options: Mapping[str, Any]) -> None:
    """Refuse unknown choices, and values whose type differs from the type in the configuration.

    fairseq would wrongly report that the model is damaged.
    """
    for name, value in options.items():
        for kind in (*_tasks(), GenerationConfig):
            known = {item.name: item.type for item in fields(kind)}
            if name not in known:
                continue
            settings = OmegaConf.structured(kind)
            try:
                settings[name] = value
                getattr(settings, name)  # this raises an error if the value refers to an unknown option
            except OmegaConfBaseException as error:
                choices = [str(choice) for choice in known[name]] if isinstance(known[name], EnumType) else []
                reason = f"choose from {', '.join(choices)}" if choices else str(error).partition("\n")[0]
                raise UserError(f"{name} cannot be {value!r:.60}: {reason.rstrip('.')}.") from error
            break


def _check_names(loaded: Loaded, options: Mapping[str, Any], path: str | Path) -> None:
    """Raise ``UserError`` for an option that neither task nor search has, or that only test sets can use."""
    # An option may belong to the task or to the search, whose options are known only now.
    unknown = [name for name in options if not hasattr(loaded.task.cfg, name) and name not in loaded.search]
    if unknown:
        check_names(unknown, [*_OF_USE, *GENERATION], f"the task or the search of {path}")
    # These options come from the model's folder, not from the caller.
    unusable = [name for name in _OF_TEST_SETS if loaded.search.get(name)]
    if unusable:
        raise UserError(
            f"{path} searches with {flag(unusable[0])}, which is for test sets: give it to "
            "fairseq-generate, or export the model again without it."
        )


def _device(name: str | torch.device) -> torch.device:
    try:
        probe = torch.ones(1, device=name)
        probe.item()  # this raises an error for the device meta, which stores no numbers
        return probe.device
    except (RuntimeError, AssertionError, TypeError) as error:  # torch without CUDA raises AssertionError
        reason = str(error).partition("\n")[0]
        # torch's message only lists 20 kinds of devices, so it is not quoted.
        reason = "" if reason.startswith("Expected one of") else f" ({reason})"
        raise UserError(f"the device {name!r} cannot be used{reason}: choose cpu, or cuda with a GPU.") from error


def _check_engine(engine: str, compute_type: str) -> None:
    if engine not in ENGINES:
        raise UserError(f"the engine must be one of {', '.join(ENGINES)}, but is {engine!r}.")
    if engine == "pytorch" and compute_type != COMPUTE_TYPE:
        raise UserError(f"compute type {compute_type!r} is an option of the engine ctranslate2: choose that engine.")
