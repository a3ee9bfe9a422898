"""Record the settings of a run directory or a training once, and compare them at every later start.

    printf '%s\n' SEED=1 | python -m wean_fairseq.training.state RUN/settings --input /data/quora/train.src
    printf '%s\n' '--lr 0.001' | python -m wean_fairseq.training.state RUN/SYSTEM/command

Standard input has one ``NAME=VALUE`` or ``--option value`` per line. They are recorded with the SHA-256 of each
``--input``, and of word vectors and models outside the run directory that options name. If other values were recorded
before, the changes are printed (``NAME: old -> new``), the exit status is 3, and the file is kept. Recorded settings
are replaced if nothing has been created with them yet, so that a refused value can be corrected.
"""

import fcntl
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from ..console import OneLineParser, print_text, standard_input
from ..errors import UserError, printable, sentence_of
from ..storage.files import open_growing, read_regular, sha256_of, write_text
from ..storage.run_settings import HASH, LOCK
from .defaults import ARCHS_OF

_LIMITS = {"--stop-time-hours"}  # options that may change, because they only end a training
# Options that name word vectors, or models that stay unchanged. --finetune-from-model is left out, because another
# training may still replace that checkpoint.
_READ = re.compile(
    r"--(embedding-file|[a-z-]*vectors|(en|de)coder-embed-path|base-checkpoint|auto-encoder|language-model)"
)
_OWN = "RUN/"  # beginning of paths in the run directory of a recipe. The recipe checks these files itself.
CHANGED = 3  # exit status if settings have changed
# names of files, and of folders, in a work folder
_FILE = re.compile(r"settings|command|published|\.trained|.*\.(json|jsonl|md|source|log|out|txt|pt|src|tgt|lock)")
_FOLDER = re.compile("|".join(["text", "bin", "report", "tables", *chain(*ARCHS_OF.values())]))
_SHOWN = 200  # maximum number of characters of a value in a message
# Patterns of files that exist only if the settings of a run directory, or the options of a training, have been used.
_MADE = ("text*/manifest.json", "text/*/manifest.json", "*/checkpoint*.pt", "checkpoint*.pt")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    parser = OneLineParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="file that records the settings")
    parser.add_argument("--input", type=Path, action="append", default=[], metavar="FILE", help="input to hash")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    args = parser.parse_args(arguments)
    try:
        # a file name may not be valid UTF-8
        given = standard_input().buffer.read().decode("utf-8", errors="backslashreplace")
        lines = [line for line in given.split("\n") if line]  # a file name may contain U+2028 and the like
        changes = record_settings(args.file, lines + input_lines(args.input), check=args.check, own=_OWN)
    except (OSError, UserError) as error:
        print_text(f"{sentence_of(error) or error}\n")
        return 2
    if changes:
        print_text(f"{changes}\n")
    return CHANGED if changes else 0


def option_lines(options: Sequence[str]) -> list[str]:
    """Return the fairseq-train options as sorted lines, in the format that the recipes record."""
    lines: list[str] = []
    for word in options:
        if word.startswith("--"):
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return sorted(lines)


def record_settings(file: Path, lines: list[str], *, check: bool = False, own: str = "") -> str:
    """Record settings, or compare them with the recorded ones. Return the changes, or an empty text if there are none.

    Args:
        file: file that records the settings.
        lines: one ``NAME=VALUE`` or ``--option value`` per line.
        check: only compare, and write nothing.
        own: beginning of the names of files that are not hashed. Empty = all are hashed.
    """
    earlier = read_regular(file).decode("utf-8", errors="replace") if file.is_file() else ""
    if not earlier or HASH in earlier or not is_used(file.parent):  # earlier versions recorded no SHA-256 here
        lines = lines + input_lines(_option_files(lines, own))
    lines = [printable(line) for line in lines]  # a file name may contain line breaks
    changes = compare_settings(file, lines)
    if changes and is_used(file.parent):
        return "; ".join(changes)
    if not check and (changes or not file.exists()):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, "".join(f"{line}\n" for line in lines))
    return ""


def _option_files(lines: Sequence[str], own: str) -> list[Path]:
    """Return the files with word vectors or models that the options name. The name follows ``=`` or a space."""
    options = (re.split("[ =]", line, maxsplit=1) for line in lines if line.startswith("--"))
    names = [value for name, *values in options if _READ.fullmatch(name) for value in values]
    outside = [name for name in names if not (own and name.startswith(own))]
    return [Path(name) for name in outside if os.path.isfile(name)]  # noqa: PTH113 - Path.is_file raises for long names


def input_lines(paths: list[Path]) -> list[str]:
    """Return one line with the SHA-256 of each file. Files with the same name are numbered."""
    seen: Counter[str] = Counter()
    lines = []
    for path in dict.fromkeys(paths):
        seen[path.name] += 1
        number = f" ({seen[path.name]})" if seen[path.name] > 1 else ""
        lines.append(f"{HASH}{path.name}{number}={sha256_of(path)}")
    return lines


def compare_settings(file: Path, lines: list[str]) -> list[str]:
    """Return the differences between ``lines`` and the recorded lines of ``file``, as ``NAME: old -> new``.

    Raises:
        UserError: if the file has content, but contains none of the names in ``lines``. Such a file was written by the
            user and must not be replaced.
    """
    try:
        recorded = _values(
            [printable(line) for line in read_regular(file).decode("utf-8", errors="replace").splitlines()]
        )
    except FileNotFoundError:
        return []
    values = _values(lines)
    if recorded and not recorded.keys() & values.keys():
        raise UserError(f"{_printable(str(file))} is not a file of settings: move it, or choose another directory.")
    return [
        _change(name, recorded.get(name), values.get(name))
        for name in dict.fromkeys([*recorded, *values])
        if recorded.get(name) != values.get(name) and name.partition("=")[0] not in _LIMITS
    ]


def check_entries(work: Path) -> None:
    """Raise ``UserError`` if an entry of the work folder of wean-train would be replaced or written by mistake.

    These are devices, links to other folders, and entries with the name of a file or folder that the run writes.
    """
    for path in sorted(work.rglob("*")):
        if (_FILE if path.is_dir() else _FOLDER).fullmatch(path.name):
            kinds = ("folder", "file") if path.is_dir() else ("file", "folder")
            raise UserError(f"{path} is a {kinds[0]}, but wean-train writes a {kinds[1]} of this name: move it.")
        if not path.is_dir() and not (path.is_file() and path.resolve().is_relative_to(work.resolve())):
            raise UserError(f"{path} is not a file, or is a link to one outside of {work}: remove it, and start again.")


def _values(lines: list[str]) -> dict[str, str]:
    """Split each line at the first ``=`` or, for an option, at the first space."""
    pairs = (line.partition(" " if line.startswith("--") else "=") for line in lines)
    return {name: value for name, _, value in pairs}


def _change(name: str, old: str | None, new: str | None) -> str:
    if name.startswith(HASH) and old and new:
        return f"the content of {_printable(name.removeprefix(HASH))}: SHA-256 {_printable(old)[:12]} -> {new[:12]}"
    empty = "on" if name.startswith("--") else "not set"
    if name.startswith(HASH):  # one of them is None
        old, new = old[:12] if old else "not recorded", new[:12] if new else "not found"
    shown = ("not given" if value is None else _printable(value) or empty for value in (old, new))
    return f"{_printable(name)}: {' -> '.join(shown)}"


def _printable(text: str) -> str:
    """Truncate long values, and escape control characters, which a terminal would execute."""
    return printable(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def is_used(folder: Path) -> bool:
    """Return True if a file in ``folder`` was created with its settings, or if a training is running there."""
    return any(True for pattern in _MADE for _ in folder.glob(pattern)) or _is_training(folder / ".training.lock")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock the folder of a run. The folder is created if necessary.

    On a file system without locks, there is no protection.

    Raises:
        OSError: if the folder cannot be written.
        UserError: if another run has locked it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open_growing(folder / LOCK) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"another run is using {folder}: wait until it has ended, or stop it, or choose another folder."
            ) from error
        except OSError:
            pass  # the file system has no locks
        yield


def _is_training(lock: Path) -> bool:
    """Return True if a training process holds the lock of its folder (``checkpoints.training_lock``)."""
    try:
        with lock.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    except OSError:  # the file is missing, or the file system has no locks
        return False
    return False


if __name__ == "__main__":
    sys.exit(main())
