"""Write the model card of an exported folder: a README.md with data, settings, scores and limits."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from markupsafe import Markup
from msgspec import Struct, ValidationError, convert, field

from .. import __version__
from ..console import markdown, without_folders
from ..errors import UserError
from ..ranges import Count
from ..storage.data_files import MANIFEST
from ..storage.json_files import read_json
from ..templates import render_template
from ..text.settings import Text, small_splits

CARD = "README.md"
_SIZES = ("width", "dim", "size", "layers", "heads", "dropout")
_SHOWN = 500  # maximum number of characters that the card shows of a value


class _Column(Struct):
    label: str
    signature: str


class _Score(Struct):
    score: float | None
    interval: tuple[float | None, float | None] | None = field(name="ci", default=None)


class _Data(Struct):
    sentences: Count = 0
    references: Count = 0
    warnings: list[str] = []


class _Scores(Struct):
    """The members of ``wean-evaluate``'s JSON that a card shows."""

    columns: dict[str, _Column]
    systems: dict[str, dict[str, _Score]]
    data: _Data


class _Sets(Struct):
    sets: dict[str, _Scores]


class _Source(Struct):
    file: str
    sha256: str


class _Split(Struct):
    kept: Count
    dropped: dict[str, Count] = {}


class _Manifest(Struct):
    """The members of a training text's manifest that a card shows."""

    script: str = ""
    sources: list[_Source] = []
    splits: dict[str, _Split] = {}
    left_out: dict[str, Count] = {}


def read_evaluations(path: str | Path) -> dict[str, _Scores]:
    """Return the scores in a JSON file of ``wean-evaluate``, by test set.

    Raises ``UserError`` if the file was not written by ``wean-evaluate``.
    """
    try:
        content = read_json(path)
        if isinstance(content, dict) and "sets" in content:
            return convert(content, _Sets).sets
        return {"test": convert(content, _Scores)}
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give a file of wean-evaluate --json.") from error
    except (ValueError, ValidationError) as error:
        raise UserError(f"{path} has no scores ({error}): give a file of wean-evaluate --json.") from error


def write_card(state: dict[str, Any], words: int, text: Text | None, scores: str | Path | None, note: str) -> str:
    """Return the Markdown text of a model's card.

    Args:
        state: content of the model's checkpoint.
        words: size of the target dictionary.
        text: the steps that prepared the training text, and the folder with its manifest, if they are known.
        scores: a JSON file of ``wean-evaluate``.
        note: note for users of the model.
    """
    cfg = state["cfg"]
    model = cfg["model"] if isinstance(cfg["model"], dict) else vars(cfg["model"])
    sizes = {name: value for name, value in model.items() if name.endswith(_SIZES) and value not in (None, 0, "")}
    training = {
        "seed": (cfg.get("common") or {}).get("seed"),
        "updates": state["optimizer_history"][-1].get("num_updates"),
        "learning rate": (cfg.get("optimization") or {}).get("lr"),
        "sentences per batch": (cfg.get("dataset") or {}).get("batch_size"),
        "criterion": (cfg.get("criterion") or {}).get("_name"),
        "continued from": without_folders((cfg.get("checkpoint") or {}).get("finetune_from_model") or ""),
    }
    manifest = _manifest(text)
    return render_template(
        __package__,
        "card.md.j2",
        finalize=_markdown,
        version=__version__,
        arch=str(model.get("_name") or model.get("arch")),
        writes_essays=cfg["task"].get("_name") == "topic_essay",
        parameters=sum(tensor.numel() for tensor in state["model"].values()),
        sizes=sizes,
        training={name: value for name, value in training.items() if value not in (None, "")},
        words=words,
        longest=cfg["task"].get("max_source_positions"),
        manifest=manifest,
        small_splits=small_splits({name: split.kept for name, split in manifest.splits.items()}),
        text="" if text is None else text.settings.describe(),
        sets={} if scores is None else read_evaluations(scores),
        note=note,
    )


def _manifest(text: Text | None) -> _Manifest:
    """Return the part of the training text's manifest that a card shows.

    The record is empty if there is no manifest, or if the manifest has another format.
    """
    if text is not None and text.folder is not None:
        with suppress(OSError, ValueError, ValidationError):
            return convert(read_json(text.folder / MANIFEST), _Manifest)
    return _Manifest()


def _markdown(value: Any) -> Markup:
    """Return a value as Markdown text with its markup escaped."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, list):
        return Markup(", ").join(map(_markdown, value))
    shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return Markup(markdown(shown[:_SHOWN]).replace("`", "'"))
