"""Load a trained model for use from a checkpoint of fairseq-train or a folder of ``wean-export``."""

from argparse import Namespace
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from fairseq import checkpoint_utils
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import OmegaConf

from ..errors import UserError
from ..ranges import check_no_reference
from ..storage.files import sha256_of
from ..storage.manifest import Manifest
from ..storage.search import GENERATION, TASK_OPTIONS, kept_search
from .export import WEIGHTS, is_export
from .reading import check_intact

MODELS = "a folder of wean-export, or a checkpoint of fairseq-train"


def missing_model(path: str | Path) -> UserError:
    """Return the error for a path that contains no model.

    If the path is a run directory that contains a model, the error suggests this model.
    """
    inside = Path(path) / "model"
    advice = f"did you mean {inside}?" if is_export(inside) else f"name {MODELS}."
    return UserError(f"there is no model {path}: {advice}")


def chosen_search(generation: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    """Return those search options that differ from fairseq's defaults, by name.

    Args:
        generation: generation options of fairseq.
        task: options of the task, including its search options.
    """
    usual = vars(GenerationConfig())
    given = {name: generation.get(name) for name in ("beam", "replace_unk", *GENERATION)}
    chosen = {name: value for name, value in given.items() if value not in (None, usual[name])}
    return chosen | {name: str(task[name]) for name in TASK_OPTIONS if task.get(name) not in (None, 0, "fairseq")}


class Loaded(NamedTuple):
    """A model in evaluation mode, with its task, its search options and the name of its arch."""

    model: Any
    task: Any
    search: dict[str, Any]
    arch: str = ""  # name of the arch, or empty if the checkpoint does not record it


class StoredModel:
    """A model that is stored on disk and can be loaded.

    Args:
        path: path of a checkpoint, of a folder of ``wean-export``, or of the weights in that folder.
        data: directory of a checkpoint's dictionaries (default: the directory recorded in training).

    Attributes:
        is_export: whether ``path`` belongs to a folder of ``wean-export``.
        search: generation options that are stored in a file next to a checkpoint. It is empty for an exported model,
            whose configuration contains the options.

    Raises:
        UserError: if the options next to the checkpoint cannot be read.
    """

    def __init__(self, path: str | Path, data: str | Path | None = None) -> None:
        for name, place in (("the model", path), ("the data", data)):
            check_no_reference(name, place)
        self.path = str(path)
        self.is_export = is_export(path)
        self.data = None if self.is_export else data  # an exported folder has its own dictionaries
        self.search = {} if self.is_export else kept_search(path)

    @cached_property
    def identity(self) -> str:
        """Checksum that identifies the model. It is empty if the model's file does not exist.

        Raises ``Damaged`` if the file is a damaged checkpoint.
        """
        file = Path(self.path)
        if self.is_export:
            file = file / WEIGHTS if file.is_dir() else file
            manifest = Manifest(file.parent)
            if file.name in manifest.digests:
                file = manifest.path
        elif file.is_file():
            check_intact(file)  # a sparse file that only looks large must not be read completely
        return sha256_of(file) if file.is_file() else ""

    def load(self, **options: Any) -> Loaded:
        """Load the model.

        Args:
            options: options of the task. They override the options of the stored search, which override the options of
                the training.

        Raises:
            UserError: if a file is missing or damaged, or the files do not match.
        """
        stored = {name: value for name, value in self.search.items() if name in TASK_OPTIONS}
        moved = {} if self.data is None else {"data": str(self.data)}
        state = checkpoint_utils.load_checkpoint_to_cpu(self.path, {**moved, **stored, **options})
        models, _, task = checkpoint_utils.load_model_ensemble_and_task([self.path], state=state)
        generation: Any = state["cfg"].get("generation")
        search: Any = OmegaConf.to_container(generation) if generation else vars(GenerationConfig())
        search |= {name: value for name, value in options.items() if name in search}
        search |= {name: value for name, value in self.search.items() if name not in (*TASK_OPTIONS, *options)}
        model = state["cfg"]["model"]
        model = vars(model) if isinstance(model, Namespace) else model
        return Loaded(models[0].eval(), task, search, str(model.get("arch") or model.get("_name") or ""))
