"""Reading checkpoints: with torch's safe loader, never without, and in one sentence what is wrong with one.

The safe loader runs nothing that a file brings along. That is not enough: fairseq gives option strings of a
checkpoint's configuration to ``eval`` (``fairseq/models/lstm.py``, ``wav2vec2.py`` and others), so that a configuration
of plain strings can call anything. Option strings that are Python expressions with a call are refused here.
"""

import argparse
import ast
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import UserError
from .files import is_whole_archive
from .manifest import Damaged, check_file, remember_intact, seen_intact

_FOREIGN_TYPE = re.compile(r"(?:GLOBAL|class) (\S+)")
_ADVICE = "delete it and use another checkpoint"
_NO_MEMORY = re.compile("unable to mmap|allocate memory")  # what torch says where a file cannot be had in memory
# Options of archs that name word vectors to begin a training with.
VECTOR_FILES = ("topic_vectors", "global_vectors", "local_source_vectors", "local_target_vectors")
VECTOR_FILES += ("encoder_embed_path", "decoder_embed_path")
# Options that name files: nothing evaluates them, and brackets in names, as in out/lr(0.1), make them look like calls.
_FILES = {
    *("data", "save_dir", "restore_file", "finetune_from_model", "continue_once", "tensorboard_logdir", "log_file"),
    *("user_dir", "path", "results_path", "bert", "bert_cache", "granularity_labels", "granularity_dump"),
    *("copy_provenance", *VECTOR_FILES),
}


class Hostile(UserError):
    """A checkpoint that would run code."""


def read_checkpoint(path: str | Path, lazily: bool = False) -> dict[str, Any]:
    """The content of a checkpoint of fairseq-train.

    Args:
        path: of the file.
        lazily: leave the tensors on the disk until they are used; then the file must stay as it is meanwhile.

    Raises:
        Damaged: if it is cut off, changed, or no checkpoint at all.
        Hostile: if it would run code.
        UserError: if it is not there, or there is no memory for it.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no checkpoint {path}: name a file that fairseq-train wrote.")
    try:
        check_intact(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): look at its disk and its permissions.") from error
    return _read(path, lazily)


def check_intact(path: Path) -> None:
    """Compare a checkpoint with its checksum in the manifest beside it, or else with those that it holds itself.

    Raises:
        Damaged: if it is not what was written.
    """
    advice = "it is damaged or was replaced; use another checkpoint, or, if you replaced it, run wean-checksum on it"
    if path.stat().st_size == 0:
        raise Damaged(f"{path} is empty: {_ADVICE}.")
    if check_file(path, advice, copies=True) or seen_intact(path):  # somebody may have copied the best to the last
        return
    if not is_whole_archive(path):
        raise Damaged(f"{path} is damaged, it is cut off or some of it was changed: {_ADVICE}.")
    remember_intact(path)


def read_unchecked(path: Path) -> dict[str, Any]:
    """As ``read_checkpoint`` lazily, of a file whose checksums are looked at later."""
    return _read(path, lazily=True)


def _read(path: Path, lazily: bool) -> dict[str, Any]:
    lazily = lazily and zipfile.is_zipfile(path)  # torch cannot leave tensors in files of torch < 1.6
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=lazily)
    except pickle.UnpicklingError as error:
        raise _refused(path, str(error)) from error
    except (OSError, RuntimeError, EOFError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        if _NO_MEMORY.search(str(error)):
            raise UserError(f"{path} cannot be read into memory ({error}): make room for it.") from error
        raise Damaged(f"{path} is damaged, or was not written by fairseq-train: {_ADVICE}.") from error
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise Damaged(f"{path} is not a checkpoint of fairseq-train, which holds a model: name one that is.")
    check_options(path, {"cfg": content.get("cfg"), "args": content.get("args")})
    return content


def _refused(path: Path, why: str) -> UserError:
    foreign = _FOREIGN_TYPE.search(why)
    if foreign is None:
        return Damaged(f"{path} is damaged, or was not written by fairseq-train: {_ADVICE}.")
    return Hostile(
        f"{path} is refused, and nothing in it was run: loading it would call {foreign[1]}, which no checkpoint of "
        "fairseq-train needs; do not use it, and get the model again from somebody you trust."
    )


def check_options(path: Path, options: Any) -> None:
    """Refuse options that fairseq's ``eval`` would run.

    Raises:
        Hostile: naming the option.
    """
    for value in _strings(options):
        if _calls(value):
            shown = value if len(value) < 60 else value[:60] + "..."
            raise Hostile(
                f"{path} is refused, and nothing in it was run: its configuration has the option {shown!r}, which is "
                "code that fairseq may run; do not use it, and get the model again from somebody you trust."
            )


def same_tensors(tensors: dict[str, Tensor]) -> dict[str, str]:
    """The names of tensors that are another one's memory (tied embeddings), each with the first name of that memory."""
    first: dict[Any, str] = {}
    same = {}
    for name, tensor in tensors.items():
        place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride())
        if tensor.numel() and first.setdefault(place, name) != name:
            same[name] = first[place]
    return same


def _strings(options: Any) -> list[str]:
    """All strings in nested options, but for the names of files."""
    found, waiting = [], [options]
    while waiting:
        value = waiting.pop()
        if isinstance(value, argparse.Namespace):
            value = vars(value)
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            waiting += value
            waiting += [item for key, item in value.items() if not (key in _FILES and isinstance(item, str))]
        elif isinstance(value, list | tuple | set):
            waiting += value
    return found


def _calls(value: str) -> bool:
    """Whether a string is a Python expression that calls something; file names and sentences are not."""
    if "(" not in value:
        return False
    try:
        return any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(value.strip(), mode="eval")))
    except (SyntaxError, ValueError):
        return False
    except (RecursionError, MemoryError):
        return True  # too deep to look into
