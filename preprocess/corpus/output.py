"""An output directory that is either complete or missing, with files, counts and checksums in a manifest.

    output = OutputFolder(path, script="my_rules", version="1.0", options={"seed": 1}, overwrite=args.overwrite)
    if not output.finished():
        with output:
            with output.split("train") as split:
                split.write("a source", "its target")
                split.drop("too long")
            output.facts["rules"] = 200

All files are written to a folder inside a partial folder next to ``path`` (see ``storage.files.whole_folder``). This
folder gets its final name when the block ends without an error. The next run removes the partial folder of a killed
run. If it contains the only copy of an older output, the next run with the same ``path`` restores this output first. If
a second run starts at the same time, it is rejected.
"""

import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from msgspec import Struct, convert

from corpus.reading import read_beginning
from wean_fairseq.errors import UserError
from wean_fairseq.storage.data_files import MANIFEST, PreparedFile, check_prepared
from wean_fairseq.storage.files import count_lines, no_file, remove_partial, sha256_of, whole_folder
from wean_fairseq.storage.json_files import read_json

SPLITS = ("train", "valid", "test")
SIDES = ("src", "tgt")
_SPLIT_FILES = [f"{split}.{side}" for split in SPLITS for side in SIDES]
_LINE_BREAKS = frozenset("\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")


class _Manifest(Struct):
    """The part of a manifest that this module reads."""

    files: dict[str, PreparedFile]
    options: dict[str, Any]
    sources: list[PreparedFile] = []


class OutputFolder:
    """A directory that has a temporary name until it is complete.

    Args:
        path: path of the directory.
        script: name of the script. It is stored in the manifest, because a script may replace only its own outputs.
        options: the options that determine the content, as JSON values.
        version: version of the script. It must be raised if the same options give other bytes.
        versions: versions of the libraries on which the content depends.
        overwrite: replace an earlier output.
    """

    def __init__(
        self,
        path: Path,
        *,
        script: str,
        options: dict[str, Any],
        version: str = "",
        versions: dict[str, str] | None = None,
        overwrite: bool = False,
    ) -> None:
        self.path = path
        self.folder = path  # replaced by the folder to fill while the output is open
        self.overwrite = overwrite
        self.head: dict[str, Any] = {"script": script, **({"version": version} if version else {}), "options": options}
        self.versions = versions or {}
        self.sources: list[dict[str, Any]] = []
        self.splits: dict[str, SplitFiles] = {}
        self.facts: dict[str, Any] = {}
        self._opened = ExitStack()
        self._seen: set[Path] = set()

    def __enter__(self) -> Self:
        """Check that the directory may be written, and create the partial folder."""
        remove_partial(self.path.parent, self.path.name)
        check_free(self.path, self.head["script"], self.overwrite)
        try:
            new = whole_folder(self.path, replace=self.overwrite, exclusive=True)
            self.folder = self._opened.enter_context(new)
        except BlockingIOError as error:
            raise UserError(f"{self.path} is being written by another run: wait for it to end.") from error
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror} ({error.filename}).") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Rename the directory to its final name, or remove the files after an error."""
        if error is not None:
            self._opened.__exit__(kind, error, trace)
            return
        with self._opened:
            self.write_text(MANIFEST, json.dumps(self.manifest(), indent=2, ensure_ascii=False) + "\n")
            # Another program may have created the directory in the meantime.
            check_free(self.path, self.head["script"], self.overwrite)

    def finished(self, sources: Sequence[Path] = ()) -> bool:
        """Return True if the directory exists with the same options and sources.

        With ``overwrite``, always return False.

        Raises:
            UserError: if the directory exists, but some of its files were changed or removed.
        """
        if self.overwrite:
            return False
        remove_partial(self.path.parent, self.path.name)
        manifest = read_manifest(self.path)
        if {name: manifest.get(name) for name in self.head} != json.loads(json.dumps(self.head)):
            return False
        checksums = [sha256_of(source) for source in dict.fromkeys(sources) if source.is_file()]
        if checksums != [entry["sha256"] for entry in manifest["sources"]]:
            return False
        if check_prepared(self.path).keys() != manifest["files"].keys():
            raise UserError(f"{self.path / MANIFEST} is damaged: delete {self.path}, or pass --overwrite.")
        return True

    def source(self, path: Path) -> Path:
        """Record a file from which the content is created, with its checksum, and return its path.

        Raises:
            UserError: if there is no such file, the output would replace it, or it differs from the manifest next to it
                or is not in it. If it belongs to a split, all files of splits in the manifest must exist.
        """
        if path in self._seen:
            return path
        if path.resolve().is_relative_to(self.path.resolve()):
            raise UserError(f"{path} is in the directory that the output replaces: choose another --output.")
        if not path.is_file():
            raise UserError(f"{no_file(path)}: name a regular file.")
        if read_beginning(path, 64).count(0) == 64:  # hashing a huge sparse file would take hours
            raise UserError(f"{path} begins with zero bytes: this is not text.")
        try:
            digest = check_prepared(path.parent, [path.name]).get(path.name) or sha256_of(path)
            if path.name in _SPLIT_FILES:
                check_prepared(path.parent, [name for name in _SPLIT_FILES if not (path.parent / name).exists()])
            entry: dict[str, Any] = {"file": path.name, "bytes": path.stat().st_size, "sha256": digest}
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}.") from error
        self.sources.append(entry)
        self._seen.add(path)
        return path

    def split(self, name: str, sides: Sequence[str] = SIDES) -> "SplitFiles":
        """Return a context manager that writes a split, with one file ``<name>.<side>`` for each side."""
        self.splits[name] = SplitFiles(self.folder, name, sides)
        return self.splits[name]

    def write_text(self, name: str, text: str) -> None:
        """Write another file next to the splits."""
        (self.folder / name).write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")

    def sizes(self) -> str:
        """Return the number of lines in each split for display, such as ``900 train + 50 valid``."""
        return " + ".join(f"{split.kept:,} {name}" for name, split in self.splits.items())

    def manifest(self) -> dict[str, Any]:
        """Return the content of manifest.json. It does not depend on the machine, the folders or the time."""
        files = {
            path.name: {"lines": count_lines(path), "bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in sorted(self.folder.iterdir())
        }
        counts = {name: split.counts() for name, split in self.splits.items()}
        return {
            **self.head,
            "sources": self.sources,
            "splits": {name: counts[name] for name in sorted(counts, key=_split_order)},
            **self.facts,
            **({"versions": self.versions} if self.versions else {}),
            "files": files,
        }


class SplitFiles:
    """The aligned files of one split. Every line is written to all sides or to none."""

    def __init__(self, folder: Path, name: str, sides: Sequence[str] = SIDES) -> None:
        self.name = name
        self.paths = [folder / f"{name}.{side}" for side in sides]
        self.kept = 0
        self.dropped: Counter[str] = Counter()
        self._files: list[TextIO] = []

    def __enter__(self) -> Self:
        """Open the files of all sides."""
        self._files = [path.open("w", encoding="utf-8", newline="\n") for path in self.paths]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flush the files to disk, and close them."""
        for file in self._files:
            if error is None:
                file.flush()
                os.fsync(file.fileno())
            file.close()

    def write(self, *lines: str, beside: Sequence[str] = ()) -> None:
        """Write one line to each side.

        Args:
            lines: lines of text.
            beside: lines of the additional files, which may be empty.

        Raises:
            ValueError: if a line of text is empty, or if some programs would split it into two lines.
        """
        for line in (*lines, *filter(None, beside)):
            if not line or not (line.isprintable() or _LINE_BREAKS.isdisjoint(line)):
                raise ValueError(f"{line!r} is not one line of text.")
        for file, line in zip(self._files, (*lines, *beside), strict=True):
            file.write(line + "\n")
        self.kept += 1

    def drop(self, reason: str) -> None:
        """Count a line that is dropped for this reason."""
        self.dropped[reason] += 1

    def counts(self) -> dict[str, Any]:
        """Return the number of written lines, and the number of dropped lines for each reason."""
        return {"kept": self.kept, "dropped": dict(sorted(self.dropped.items()))}


def check_free(path: Path, script: str, overwrite: bool) -> None:
    """Raise an error if ``path`` must not be replaced. With ``overwrite``, a script may replace its own output.

    Raises:
        UserError: if ``path`` must not be replaced. The message says why.
    """
    if not os.path.lexists(path) or (path.is_dir() and not path.is_symlink() and not any(path.iterdir())):
        return
    if not overwrite:
        raise UserError(f"{path} exists already: choose another --output, or pass --overwrite to replace it.")
    manifest = read_manifest(path)
    names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    if path.is_symlink() or manifest.get("script") != script or not names <= {MANIFEST, *manifest["files"]}:
        raise UserError(
            f"{path} is not, or not only, an earlier output of {script}: choose another --output, or remove it."
        )


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of an output directory, or an empty manifest if this module did not write one."""
    with suppress(OSError, ValueError):  # this includes values of a wrong type
        manifest: dict[str, Any] = read_json(path / MANIFEST)
        convert(manifest, _Manifest)
        return {"sources": [], **manifest}
    return {"files": {}, "sources": []}


def _split_order(name: str) -> tuple[int, str]:
    return (SPLITS.index(name) if name in SPLITS else len(SPLITS)), name
