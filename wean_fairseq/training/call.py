"""Train by a call in Python, which does the same as the command ``wean-train``."""

import os
from pathlib import Path
from typing import Any

from ..errors import UserError, sentence_of
from ..generation import TextModel, load
from .run import TrainingRun, run
from .settings import build_settings, read_file, read_settings
from .tables import SAVED_TABLES, is_table, save_tables


def train(
    data: Any = None, output: str | Path | None = None, *, config: str | Path | None = None, **settings: Any
) -> TextModel:
    """Train a model on sentence pairs, and load it.

        model = wean_fairseq.train("pairs.csv", "model", arch="copynet", epochs=20)
        model.generate("What's the best way to learn Python?")

    The call does the same as the command ``wean-train``. If a training was interrupted, the same call continues it.

    Args:
        data: a table with both sides, or a list of two text files. It may also be a pandas DataFrame, a Hugging Face
            data set, or a dictionary of data sets by split. Such tables in memory are saved in the work folder.
        output: model folder.
        config: a settings file in TOML. The arguments of the call override its values.
        settings: further settings, such as ``arch`` or ``from_``, see ``training.settings.Settings``.

    Returns:
        The model, as ``wean_fairseq.load`` returns it.

    Raises:
        UserError: if a setting or a file cannot be used, or a step fails.
    """
    if not isinstance(config, str | os.PathLike | None):
        raise UserError(f"config is {config!r:.40}: give the path of a settings file.")
    chosen = read_file(Path(config)) if config is not None else {}
    given = {**settings, "output": output, "data": None if is_table(data) else data}
    # `from` is a reserved word of Python.
    chosen |= read_settings({"from" if name == "from_" else name: _plain(value) for name, value in given.items()})
    if is_table(data):
        intended = TrainingRun(build_settings({**chosen, "data": "a table in memory"}))
        intended.check_folders()  # checked before the first file is written
        named = [name for name, value in given.items() if value is not None]
        chosen |= save_tables(data, intended.work / SAVED_TABLES, named)
    built = build_settings(chosen)
    try:
        run(built)
    except OSError as error:
        raise UserError(sentence_of(error) or f"{built.folder} cannot be written ({error}).") from error
    return load(built.folder, device=built.device or None)


def _plain(value: Any) -> Any:
    """Return the value with all paths as text."""
    parts = list(value) if isinstance(value, list | tuple) else [value]
    parts = [os.fspath(part) if isinstance(part, os.PathLike) else part for part in parts]
    return parts if isinstance(value, list | tuple) else parts[0]
