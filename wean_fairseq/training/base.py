"""A trained model with which a training starts: its options, dictionaries and text settings."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY

from ..checkpoints.export import WEIGHTS, is_export, read_model, sides_of
from ..checkpoints.loading import chosen_search, missing_model
from ..checkpoints.reading import options_of
from ..console import counted
from ..errors import UserError
from ..evaluation.corpus import read_corpus
from ..evaluation.text_files import read_typed_json
from ..fields import start_files
from ..host.command_line import arch_defaults
from ..ranges import flag
from ..storage.data_files import MANIFEST, PairCounts
from ..storage.files import count_lines
from ..storage.search import kept_search
from ..text import prepared_text, read_text_settings
from .defaults import ARCHS_OF
from .settings import Settings

# Options of the task that change what the model reads.
_OF_TASK = (
    "no_source_end",
    "max_source_positions",
    "max_target_positions",
    "oov_slots",
    "left_pad_source",
    "max_topics",
)


@dataclass(frozen=True)
class Base:
    """A trained model with which a new training starts.

    Attributes:
        weights: file with the parameters.
        arch: family of the model.
        width: size of the embeddings.
        options: options of model and task that differ from the defaults, as arguments of fairseq-train.
        text: folder with the text settings.
        dictionaries: dictionaries of source and target.
        old_test: sources and references of the model's test set, if the files exist.
        search: search options of the model that differ from fairseq's defaults, by name.
        max_topics: maximum number of topics that the model reads. 0 = the model reads sentences.
    """

    weights: Path
    arch: str
    width: int
    options: list[str]
    text: Path
    dictionaries: list[Path]
    old_test: list[Path]
    search: dict[str, Any]
    max_topics: int


def read_base(settings: Settings) -> Base:
    """Read the model that the setting ``from`` names.

    Raise ``UserError`` if a training with the settings cannot start from it.
    """
    path = Path(settings.from_)
    if is_export(path):
        path = path / WEIGHTS if path.is_dir() else path
    elif not path.is_file():
        raise missing_model(path)
    state = read_model(path)
    model, task = options_of(state, "model"), options_of(state, "task")
    arch = model.get("_name") or model.get("arch")
    if arch not in ARCHS_OF[settings.task]:
        other = next((f"give --task {name}" for name, archs in ARCHS_OF.items() if arch in archs), "")
        advice = other or f"choose from {', '.join(ARCHS_OF[settings.task])}"
        raise UserError(f"{path} is of arch {arch}, which is not for the task {settings.task}: {advice}.")
    width = int(model.get("embed_dim") or model["encoder_embed_dim"])
    for name, old in (("arch", arch), ("width", width)):
        new = getattr(settings, name)
        if new not in (None, old):
            raise UserError(f"{name} {new} is not that of {settings.from_}, which is {old}: leave it out.")
    data = path.parent if is_export(path) else Path(str(task.get("data")).split(":")[0])
    text = data if is_export(path) else _text_folder(path, data)
    if read_text_settings(text) is None:
        raise UserError(f"it is not known how text becomes the tokens of {path}: export it again with --text.")
    of_task = {name: value for name, value in task.items() if name in _OF_TASK}
    of_task["bert"] = _bert(settings, task.get("bert"))
    options = _given(model, vars(_defaults(arch)))
    options += _given(of_task, vars(TASK_DATACLASS_REGISTRY[task["_name"]]()))
    dictionaries = [data / f"dict.{side}.txt" for side in sides_of(task, data).values()]
    generation = state["cfg"].get("generation") or {}
    search = chosen_search(generation, task) if is_export(path) else kept_search(path)
    old_test = _old_test(settings, path, text)
    return Base(path, arch, width, options, text, dictionaries, old_test, search, int(task.get("max_topics") or 0))


def _bert(settings: Settings, trained: str | None) -> str | None:
    """Return the directory of the BERT that the model reads. It may have moved since the training."""
    if settings.bert and not trained:
        raise UserError(f"bert is for models that were trained with one, and {settings.from_} was not: leave it out.")
    folder = settings.bert or trained
    if folder and not Path(folder).is_dir():
        raise UserError(
            f"there is no BERT directory {folder!r}, with which {settings.from_} was trained: give bert its new place."
        )
    return folder


def _text_folder(path: Path, data: Path) -> Path:
    text = prepared_text(data)
    if text is None or text.folder is None:
        raise UserError(f"{data}, the data of {path}, does not say how its text was prepared: give an exported folder.")
    return text.folder


def _defaults(arch: str) -> Any:
    """Return the options of an arch with their defaults. A fairseq arch without a dataclass has a parser instead."""
    defaults = arch_defaults(arch)
    if defaults is not None:
        return defaults
    values, parser = Namespace(), ArgumentParser()
    ARCH_CONFIG_REGISTRY[arch](values)
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    names = {action.dest for action in parser._actions}  # fairseq computes the values of all other options
    return Namespace(**{name: value for name, value in vars(values).items() if name in names})


def _given(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """Return the values that differ from the defaults as options of fairseq-train.

    Options that name files with initial values are left out.
    """
    line: list[str] = []
    left_out = {"_name", "data"} | start_files()
    for name, default in defaults.items():
        value = values.get(name, default)
        if value == default or name in left_out:
            continue
        line.append(flag(name))
        if not isinstance(value, bool):
            line.append(",".join(map(str, value)) if isinstance(value, list) else str(value))
    return line


def _old_test(settings: Settings, path: Path, text: Path) -> list[Path]:
    """Return the test set of the model from the settings or, if they name none, from the model's text.

    The recipes and wean-train keep this text next to the model.
    """
    if settings.old_test:
        sources, references = settings.old_test
        try:
            read_corpus([references], sources)
        except UserError as error:
            raise UserError(f"old_test: {error}") from error
        return [Path(sources), Path(references)]
    folder = path.parent
    known = read_text_settings(text)
    assert known is not None  # read_base has refused a text without settings
    for place in (text, folder.parent / "text", folder.with_name(f"{folder.name}.work") / "text"):
        files = [place / "test.raw.src", *sorted(place.glob("test.raw.tgt*"))]
        is_alike = len(files) > 1 and files[0].is_file() and read_text_settings(place) == known
        if is_alike and _has_same_files(place, text, known.files):
            return files
    return []


def _has_same_files(place: Path, text: Path, names: Sequence[str]) -> bool:
    return all((place / name).is_file() and (place / name).read_bytes() == (text / name).read_bytes() for name in names)


def count_pairs(text: Path, remedy: str) -> int:
    """Return the number of training pairs in a prepared text.

    Raises:
        UserError: if its manifest has another number or is broken. The message ends with ``remedy``.
    """
    manifest = text / MANIFEST
    pairs = read_typed_json(manifest, PairCounts, remedy).splits.train.kept
    source = text / "train.src"
    lines = count_lines(source)
    if lines != pairs:
        raise UserError(f"{source} has {counted(lines, 'line')}, but {manifest} says {pairs:,}: {remedy}.")
    return pairs
