"""The settings of one training on sentence pairs.

They are read from the command line, TOML or Python, and written as TOML.
"""

import json
import os
import sys
import tomllib
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from ..errors import UserError, name_some, shown, similar
from ..ranges import MOST_PROCESSES, check_positive, checked
from ..storage.files import is_utf8, no_file, read_regular
from ..storage.search import check_generation, parse_search
from .defaults import ARCHS_OF, BERT_ARCHS, HEADS, VECTOR_ARCHS, Sizes

PROGRAM = "wean-train"
FILE = "run.toml"
_LARGEST = 1 << 15  # maximum size in bytes of a settings file. Parsing a key with 16,000 parts would take 5 s

Positive = Annotated[int, Meta(ge=1, le=999_999_999)]
NotNegative = Annotated[int, Meta(ge=0, le=999_999_999)]
Files = str | list[str]
Unit = Literal["joiner", "moses", "words", "characters", "jieba"]
Case = Literal["truecase", "lowercase", "keep"]
_OF_TEXT: dict[str, Any] = {"unit": "joiner", "case": "truecase", "bpe": 0}  # defaults of the text steps


class Settings(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Settings of a training.

    Values that depend on the number of pairs are None until ``with_sizes`` sets them. If the training starts from a
    model, the model's arch, width and text steps are used, and these settings are None.

    Attributes:
        data: a table with both sides, or two text files.
        output: folder of the model.
        work: folder for all other files (default: ``output`` with the suffix ``.work``).
        from_: a model folder or a checkpoint with which the training starts.
        old_test: two text files with the sources and references of the test set of ``from``.
        task: ``pairs`` for sentence pairs, or ``essay`` for topic words and essays.
        columns: names or numbers of the source and the target column. Further columns contain references.
        header: whether the first row contains the names of the columns.
        valid: number of validation pairs, or files with them.
        test: number of test pairs, or files with them.
        split_seed: random seed of the splits.
        unit: kind of tokens, such as joiner or moses.
        case: truecase (the default for pairs), lowercase or keep (the default for essays).
        bpe: number of merges of byte pair encoding. 0 = do not split words.
        language: two-letter code of the language, for the unit moses.
        limit: maximum number of pairs per split. 0 = no limit.
        arch: the system to train.
        bert: directory of a BERT whose states the model reads. Empty = the BERT of ``from``, or none.
        embedding_file: text file with word vectors of the model's width, with which the embeddings start.
        width: size of embeddings and layers.
        epochs: maximum number of passes over the data.
        rate: learning rate.
        patience: the training ends after this number of validations without improvement.
        search: options of fairseq-generate, which override the default search or the search of ``from``.
        seed: random seed of the training.
        processes: number of training processes, each with its own batches. None = one process per GPU.
        device: device of the training. Empty = a GPU, if there is one.
    """

    data: Files
    output: str
    work: str = ""
    from_: str = ""
    old_test: list[str] | None = None
    task: Literal["pairs", "essay"] = "pairs"
    columns: str = ""
    header: Literal["", "yes", "no"] = ""
    valid: Positive | Files | None = None
    test: Positive | Files | None = None
    split_seed: NotNegative = 1
    unit: Unit | None = None
    case: Case | None = None
    bpe: NotNegative | None = None
    language: str = ""
    limit: NotNegative = 0
    arch: str | None = None
    bert: str = ""
    embedding_file: str = ""
    width: Positive | None = None
    epochs: Positive | None = None
    rate: float | None = None
    patience: Positive = 4
    search: str = ""
    seed: NotNegative = 1
    processes: Annotated[int, Meta(ge=1, le=MOST_PROCESSES)] | None = None
    device: Literal["", "cpu", "cuda"] = ""

    @property
    def folder(self) -> Path:
        """Folder of the model."""
        return Path(self.output)

    @property
    def work_folder(self) -> Path:
        """Folder of all other files."""
        return Path(self.work or f"{self.output}.work")

    def files(self, name: str) -> list[str]:
        """Return the files that a setting names, as a list."""
        value = getattr(self, name)
        return value if isinstance(value, list) else [value] if isinstance(value, str) else []

    def with_sizes(self, sizes: Sizes) -> "Settings":
        """Return a copy of the settings, in which ``sizes`` replace the values that are None."""
        values = {"epochs": sizes.epochs, "rate": sizes.rate} if self.from_ else sizes._asdict()
        return self._with_missing(values)

    def _with_missing(self, values: Mapping[str, Any]) -> "Settings":
        missing = {name: value for name, value in values.items() if getattr(self, name) is None}
        return structs.replace(self, **missing)


SETTING_NAMES = Settings.__struct_encode_fields__
_PATHS = ("data", "output", "work", "from", "old_test", "valid", "test", "bert", "embedding_file")


def read_settings(values: Mapping[str, Any], where: str = "", folder: Path | None = None) -> dict[str, Any]:
    """Check the names and types of some settings, and return the settings by name.

    Args:
        values: values by the names of the settings. None = a missing value.
        where: file with the values, for messages.
        folder: folder from which relative paths start.

    Raises:
        UserError: if a setting is unknown or its value has the wrong type. The message names the setting.
    """
    values = {name: value for name, value in values.items() if value is not None}
    prefix = f"{where}: " if where else ""
    unknown = [name for name in values if name not in SETTING_NAMES]
    if unknown:
        hint = similar(unknown[0], SETTING_NAMES)
        raise UserError(f"{prefix}unknown setting {name_some(unknown)}{hint}: choose from {', '.join(SETTING_NAMES)}.")
    settings = {}
    for name, value in values.items():
        settings[name] = checked(name, value, Settings.__annotations__[_attribute(name)], where)
        text = "".join(value) if isinstance(value, list) else str(value)
        try:
            os.fsencode(text)  # a lone surrogate cannot be written and cannot be part of a file name
        except UnicodeEncodeError as error:
            raise UserError(f"{prefix}{name} is {shown(value)}: {error}.") from error
        if name in _PATHS and "\0" in text:
            raise UserError(f"{prefix}{name} is {value!r}: a file name has the character NUL, which no file has.")
    return settings | {name: _placed(folder, settings[name]) for name in _PATHS if name in settings}


def read_file(path: Path) -> dict[str, Any]:
    """Read a settings file. Relative paths in it start from its folder.

    Raise ``UserError`` if it does not contain settings in TOML.
    """
    try:
        values = tomllib.loads(read_regular(path, _LARGEST).decode("utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): name a file of settings in TOML.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not TOML ({error}): write lines such as epochs = 20.") from error
    return read_settings(values, str(path), path.parent)


def _attribute(name: str) -> str:
    return "from_" if name == "from" else name


def _placed(folder: Path | None, value: Any) -> Any:
    """Return paths relative to ``folder``.

    A path that begins with a dash is made absolute, so that it is not taken for an option. (``Path`` would remove
    a "./" before it.)
    """
    if isinstance(value, list):
        return [_placed(folder, part) for part in value]
    if not isinstance(value, str) or not value:
        return value
    if folder is not None:
        short = os.path.normpath(folder / value)  # another file if ".." follows a link to a folder
        value = short if os.path.realpath(short) == os.path.realpath(folder / value) else str(folder / value)
    return str(Path.cwd() / value) if value.startswith("-") else value


def build_settings(values: Mapping[str, Any]) -> Settings:
    """Build settings from checked values. Raise ``UserError`` if values are missing or contradict each other."""
    for name, example in (("data", "a table with both sides, or two text files"), ("output", "a folder for the model")):
        if not values.get(name):
            raise UserError(f"{name} is missing: give {example}.")
    settings = Settings(**{_attribute(name): value for name, value in values.items()})
    if settings.from_:
        given = [name for name in (*_OF_TEXT, "language") if getattr(settings, name)]
        if given:
            raise UserError(f"{given[0]} is that of {settings.from_}, whose text steps are used again: leave it out.")
    elif settings.old_test is not None:
        raise UserError("old_test is the test set of a model that --from names: leave it out.")
    if settings.old_test is not None and len(settings.old_test) != 2:
        raise UserError("old_test takes two text files: sources and references.")
    for name, place in (("output", settings.output), ("work", str(settings.work_folder))):
        if any(mark in place for mark in (":", ",", "${")):
            raise UserError(
                f"{name} {place} has : or , or ${{ in its name, which fairseq splits or replaces: give another."
            )
    if not 1 <= len(settings.files("data")) <= 2:
        raise UserError("data takes one file with both sides, or two text files.")
    _check_training(settings)
    own = {"case": "keep"} if settings.task == "essay" else {}
    return settings if settings.from_ else settings._with_missing(_OF_TEXT | own)


def _check_pretrained(settings: Settings) -> None:
    """Raise ``UserError`` if a BERT or word vectors are given that the arch does not read."""
    if settings.bert and not settings.from_ and settings.arch not in BERT_ARCHS:
        raise UserError(f"bert is for the archs {' and '.join(BERT_ARCHS)}: give one of them, or leave it out.")
    if settings.bert and not Path(settings.bert).is_dir():
        raise UserError(f"there is no BERT directory {settings.bert!r}: give bert a local transformers directory.")
    if settings.embedding_file:
        if settings.from_:
            raise UserError(f"embedding_file is for a new model, and {settings.from_} has its words: leave it out.")
        if settings.task == "essay" or settings.arch not in (None, *VECTOR_ARCHS):
            raise UserError(f"embedding_file is for the archs {', '.join(VECTOR_ARCHS)}: give one of them.")
        if not Path(settings.embedding_file).is_file():
            raise UserError(f"{no_file(settings.embedding_file)}: give embedding_file a file of word vectors.")


def _check_training(settings: Settings) -> None:
    """Raise ``UserError`` if settings of the training contradict each other."""
    archs = ARCHS_OF[settings.task]
    if settings.arch is not None and settings.arch not in archs:
        task = next((task for task, others in ARCHS_OF.items() if settings.arch in others), None)
        hint = f" (it is for the task {task})" if task else similar(settings.arch, archs)
        raise UserError(f"there is no arch {settings.arch} for {settings.task}{hint}: choose from {', '.join(archs)}.")
    _check_pretrained(settings)
    if settings.rate is not None:
        check_positive("rate", [settings.rate])
    if settings.width is not None and "_transformer" in (settings.arch or "") and settings.width % HEADS:
        raise UserError(
            f"width must be a multiple of {HEADS}, the attention heads of {settings.arch}, but is {settings.width}."
        )
    if settings.bpe and settings.unit == "characters":
        raise UserError("bpe splits words, and the unit characters has no words: leave one of them out.")
    if settings.task == "essay" and settings.case == "truecase":
        raise UserError("case truecase is for sentence pairs, not for the task essay: leave it out.")
    if settings.language and settings.unit != "moses":
        raise UserError("language is for the unit moses: leave it out.")
    check_generation(Namespace(**{"beam": 1, **parse_search(settings.search, "search")}), sys.maxsize)


def _real(path: str | Path) -> Path:
    """Return a path without links to folders, from which other paths can be counted by ``..``."""
    return Path(path).parent.resolve() / Path(path).name


def write_toml(settings: Settings, folder: Path) -> str:
    """Return the settings as TOML, with paths relative to ``folder``."""
    lines = [f"# Settings of this model. To repeat its training: wean-train --config {FILE} --output another-folder"]
    for name in SETTING_NAMES:
        value = getattr(settings, _attribute(name))
        if value in (None, "") or (name == "work"):
            continue
        if name in _PATHS and not isinstance(value, int):
            paths = [os.path.relpath(_real(path), folder.resolve()) for path in settings.files(_attribute(name))]
            value = paths if isinstance(value, list) else paths[0]
        if not all(map(is_utf8, value if isinstance(value, list) else [str(value)])):
            lines.append(f"# The setting {name} is not valid UTF-8, which TOML requires: give it as an option.")
            continue
        lines.append(f"{name} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f"))
    return "".join(f"{line}\n" for line in lines)
