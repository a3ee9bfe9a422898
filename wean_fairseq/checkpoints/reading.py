"""Read checkpoints with torch's safe loader, and report problems in one sentence.

Problems are reported in one sentence.

The safe loader runs no code from a file. This is not sufficient, because fairseq evaluates the text of some options in
the configuration. Therefore the options are copied into plain containers and checked (see ``options.py``). Only this
copy is returned.
"""

import contextlib
import re
import zipfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import UserError
from ..storage import archive
from ..storage.files import is_utf8
from ..storage.manifest import Damaged, check_file, remember_intact, seen_intact
from ..storage.pickles import look_into
from .options import Refused, plain
from .structure import odd_value, wrong_member, wrong_option

# Names that pickles of torch.save may contain in addition to the types of compat.safe_globals.
_ORDINARY = re.compile(
    r"torch\.(_utils\._rebuild_\w+|\w+Storage|Size|device|b?float\d*|u?int\d+)|collections\.\w+|_codecs\.encode"
    r"|(builtins|__builtin__)\.(dict|int|list|set)"
)
# module whose types take a millisecond per value to load; only messages between processes contain them
_SLOW = "omegaconf."
_ADVICE = "use another checkpoint"
# names of fairseq's checkpoints; users choose other names
CHECKPOINT_NAMES = re.compile(r"checkpoint(\d+|_\d+_\d+|_best|_last|\.best_.+)\.pt")
_NO_MEMORY = re.compile("unable to mmap|allocate memory")  # torch's messages for a file that does not fit into memory


class Hostile(UserError):
    """Error for a checkpoint that would run code."""


def read_checkpoint(path: str | Path, lazily: bool = False) -> dict[str, Any]:
    """Return the content of a checkpoint of fairseq-train.

    Args:
        lazily: leave the tensors on the disk until they are used. The file must not change while the tensors are in
            use.

    Raises:
        Damaged: if the file is truncated, changed, or not a checkpoint.
        Hostile: if loading the file would run code.
        UserError: if the file is missing, or does not fit into memory.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no checkpoint {path}: name a file that fairseq-train wrote.")
    with _readable(path):
        check_intact(path)
    return _load(path, lazily)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raise ``UserError`` if the operating system cannot read ``path`` within the ``with`` block."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): look at its disk and its permissions.") from error


def check_intact(path: Path) -> None:
    """Compare a checkpoint with the checksum in the manifest next to it.

    If there is no manifest, check the checksums inside the file.

    Raises:
        Damaged: if the checksums differ.
    """
    advice = "it is damaged or was replaced; use another checkpoint, or, if you replaced it, run wean-checksum on it"
    if path.stat().st_size == 0:
        raise Damaged(f"{path} is empty: {_ADVICE}.")
    # fairseq may have copied the best checkpoint to the last one, so the checksum of another name is accepted, too
    known = check_file(path, advice, copies=True, alike=CHECKPOINT_NAMES.fullmatch) or seen_intact(path)
    _check_archive(path)
    if known:
        return
    if not archive.is_whole_archive(path):
        raise Damaged(f"{path} is damaged, it is cut off or some of it was changed: {_ADVICE}.")
    remember_intact(path)


def _check_archive(path: Path) -> None:
    """Refuse a damaged archive, and an archive that would take hours or all memory to read."""
    defect = archive.defect(path)
    if defect is not None:
        raise Damaged(f"{path} {defect}: {_ADVICE}.")


def read_unchecked(path: Path, lazily: bool = True) -> dict[str, Any]:
    """Read a checkpoint like ``read_checkpoint``, but without comparing checksums."""
    with _readable(path):
        _check_archive(path)
    return _load(path, lazily)


def _load(path: Path, lazily: bool) -> dict[str, Any]:
    names, danger = look_into(path)
    if any(name.startswith(_SLOW) for name in names):
        raise _refusal(path, names)
    if danger:
        raise Damaged(f"{path} {danger}: {_ADVICE}.")
    # torch cannot map files that were written by torch < 1.6, and it maps only files whose paths are in UTF-8.
    lazily = lazily and zipfile.is_zipfile(path) and is_utf8(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=lazily)
    except Exception as error:  # a file that is not a checkpoint can cause any error
        if _NO_MEMORY.search(str(error)):
            raise UserError(f"{path} cannot be read into memory ({error}): make room for it.") from error
        raise _refusal(path, names) from error
    if not isinstance(content, dict) or not isinstance(dict.get(content, "model"), dict):
        raise Damaged(f"{path} is not a checkpoint of fairseq-train, which holds a model: name one that is.")
    # use the methods of ``dict``, because the file may have replaced the methods of its dictionary (see structure.py)
    content = dict(dict.items(content))
    content["cfg"] = checked_options(path, content.get("cfg"), dict)
    content["args"] = checked_options(path, content.get("args"), Namespace)
    check_members(path, content)
    return content


def check_members(path: Path, content: dict[str, Any]) -> None:
    """Refuse a checkpoint or an exported model with members or options that fairseq does not write in this form.

    Raises:
        Damaged: if a member is invalid. The message names the member.
    """
    wrong = odd_value(content) or wrong_member(content) or wrong_option(content["cfg"] or {})
    if wrong is not None:
        raise Damaged(
            f"{path} is damaged, or was not written by fairseq-train: its {wrong} has the wrong type or value."
        )


def _refusal(path: Path, names: Sequence[str]) -> UserError:
    """Return the error for a file that is not loaded because it contains the names of unexpected functions or types.

    A file with an unknown protocol may also be hostile.
    """
    known = torch.serialization.get_safe_globals()
    allowed = {kind[1] if isinstance(kind, tuple) else f"{kind.__module__}.{kind.__qualname__}" for kind in known}
    foreign = [name for name in names if name.startswith(_SLOW) or not (name in allowed or _ORDINARY.fullmatch(name))]
    if not foreign:
        return Damaged(f"{path} is damaged, or was not written by fairseq-train: {_ADVICE}.")
    return Hostile(
        f"{path} is refused, and nothing in it was run: loading it would call {foreign[0]}, which no checkpoint of "
        "fairseq-train needs; do not use it, and get the model again from a source you trust."
    )


def checked_options(path: Path, options: Any, kind: type) -> Any:
    """Return a copy of a file's options in plain containers, in which fairseq evaluates and resolves nothing.

    Args:
        options: configuration in the file, or ``None`` if it has none.
        kind: type of the configuration that fairseq writes.

    Raises:
        Hostile: if an option is refused. The message names the option.
    """
    try:
        if options is not None and not isinstance(options, kind):
            raise Refused(f"is of a type that fairseq does not write ({type(options).__name__})")
        return plain(options)
    except Refused as error:
        raise Hostile(
            f"{path} is refused, and nothing in it was run: its configuration {error}; do not use it, and get the "
            "model again from a source you trust."
        ) from error


def options_of(content: dict[str, Any], section: str) -> dict[str, Any]:
    """Return one section of a checkpoint's configuration as a dictionary, even for old archs.

    It is empty if the section is missing.
    """
    options = (content.get("cfg") or {}).get(section) or {}
    return vars(options) if isinstance(options, Namespace) else options


def same_tensors(tensors: dict[str, Tensor]) -> dict[str, str]:
    """Map the names of tensors that share memory (tied embeddings) to the name of the first such tensor."""
    first: dict[Any, str] = {}
    same = {}
    for name, tensor in tensors.items():
        place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride())
        if tensor.numel() and first.setdefault(place, name) != name:
            same[name] = first[place]
    return same
