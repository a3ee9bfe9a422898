"""A trained model as plain files: weights as safetensors, configuration as JSON, dictionaries as text; and back.

Tensors that share their memory (tied embeddings) are written once; ``config.json`` says which names are the same.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from ..errors import UserError
from . import dictionaries
from .files import copy_into, read_regular, sha256_of, write_text, write_whole
from .manifest import Damaged, Manifest, check_file
from .reading import checked_options, read_checkpoint, same_tensors

WEIGHTS, CONFIG = "model.safetensors", "config.json"
_KEPT = ("task", "model", "criterion", "generation")  # of the configuration: the rest is about how it was trained


def is_export(path: str | Path) -> bool:
    """Whether ``path`` is meant to be the weights in a directory that ``export`` wrote."""
    return str(path).endswith(".safetensors")


def export(checkpoint: str | Path, folder: str | Path, data: str | Path | None = None) -> None:
    """Write ``folder``/{model.safetensors, config.json, dict.*.txt, checksums.sha256}.

    Args:
        checkpoint: a file of fairseq-train.
        folder: must not exist yet, or be empty.
        data: directory of the dictionaries; ``None`` = where they were in training.

    Raises:
        UserError: if the checkpoint or the dictionaries are not what they must be, or the folder has files.
    """
    folder = Path(folder).resolve()
    partial = folder.with_name(f"{folder.name}.tmp")
    for path in (folder, partial):
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise UserError(f"{path} is a file or has files already: delete it, or choose another directory.")
    state = read_checkpoint(checkpoint)
    if not state.get("cfg"):
        raise UserError(f"{checkpoint} holds no configuration: only models with one can be exported.")
    task_cfg = state["cfg"]["task"]
    sources = _dictionary_files(task_cfg, Path(str(data or task_cfg["data"]).split(":")[0]), state, str(checkpoint))
    try:
        partial.mkdir(parents=True, exist_ok=True)
        _write(state, sources, partial)
        partial.replace(folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}): choose another directory.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(state: dict[str, Any], dictionary_files: list[Path], folder: Path) -> None:
    from safetensors.torch import save

    same_as = same_tensors(state["model"])
    weights = {name: tensor.contiguous() for name, tensor in state["model"].items() if name not in same_as}
    write_whole(folder / WEIGHTS, lambda file: file.write(save(weights)))
    cfg = {section: state["cfg"][section] for section in _KEPT if state["cfg"].get(section) is not None}
    cfg["task"] = {**cfg["task"], "data": "."}  # the dictionaries are here now
    history = [{**entry, "lr_scheduler_state": {}} for entry in state["optimizer_history"]]
    config = {
        "format": 1,
        "cfg": cfg,
        "same_as": same_as,
        "optimizer_history": history,
        "task_state": state.get("task_state") or {},
    }
    write_text(folder / CONFIG, json.dumps(config, indent=2, ensure_ascii=False, sort_keys=True) + "\n")
    for path in dictionary_files:
        write_whole(folder / path.name, lambda file, path=path: copy_into(path, file))
    Manifest(folder).settle({path.name: sha256_of(path) for path in folder.iterdir()})


def _dictionary_files(cfg: dict[str, Any], folder: Path, state: dict[str, Any], checkpoint: str) -> list[Path]:
    """The dictionaries of both sides, which must be those of the training."""
    from fairseq.data import Dictionary

    sides = [cfg.get("source_lang"), cfg.get("target_lang")]
    paths = [folder / f"dict.{side}.txt" for side in sides if side]
    for path in paths:
        if not path.is_file():
            raise UserError(f"{folder} has no {path.name}: give the directory of the dictionaries with --data.")
    trained = (state.get("task_state") or {}).get("dictionaries") or {}
    loaded = {side: Dictionary.load(str(folder / f"dict.{side}.txt")) for side in sides if side}
    dictionaries.check(trained, loaded, checkpoint, str(folder))
    return paths


def read_export(weights: str | Path) -> dict[str, Any]:
    """What ``export`` wrote, as a checkpoint of fairseq-train without the state of its optimiser.

    Raises:
        Damaged: if something in the directory has changed, or is not what ``export`` writes.
        UserError: if it is not there.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    weights = Path(weights)
    config_file = weights.with_name(CONFIG)
    for path in (weights, config_file):
        if not path.is_file():
            raise UserError(f"there is no {path}: name the {WEIGHTS} in a directory that wean-export wrote.")
        check_file(path, "export the model again")
    try:
        config = json.loads(read_regular(config_file))
        model = load_file(weights)
        model |= {name: model[kept] for name, kept in config["same_as"].items()}
        cfg = checked_options(config_file, config["cfg"], dict)
        cfg["task"]["data"] = str(weights.parent)
        state = {
            "args": None,
            "cfg": cfg,
            "model": model,
            "optimizer_history": config["optimizer_history"],
            "task_state": config["task_state"],
            "extra_state": {"train_iterator": {"epoch": 1}},
        }
    except UserError:
        raise
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"{weights.parent} is damaged, or was not written by wean-export: export it again.") from error
    return state
