"""Check that tools never replace an output path that is a link, a pipe, a device or a folder.

Tools write through such a path or refuse it.
"""

import contextlib
import os
import socket
import stat
import threading
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import clause_chunks
import pytest
import restore_entities
import torch
import undo_text
from fairseq.data import Dictionary
from matplotlib.figure import Figure

from tests.fuzz.text import assert_one_sentence, call
from tests.reliability import Reliability
from wean_fairseq.checkpoints import writing
from wean_fairseq.checkpoints.cli import main_average
from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.cli import main as evaluate
from wean_fairseq.generation.growing import GrowingFile
from wean_fairseq.reporting.style import write_figure
from wean_fairseq.search.output_writer import OutputWriter
from wean_fairseq.search.traces import Trace

LOG = "S-{n}\tthe cat\nT-{n}\ta cat\nH-{n}\t-1\ta cat\nD-{n}\t-1\ta cat\nH-{n}\t-2\tcat\nD-{n}\t-2\tcat\n"


# --- what writes ----------------------------------------------------------------------------------------------------


def in_python(write: Callable[[], Any]) -> tuple[int, str]:
    """Call a writer that the commands only call after loading a model."""
    try:
        write()
    except UserError as error:
        return 2, f"command: error: {error}\n"
    return 0, ""


def score(folder: Path, *arguments: object) -> tuple[int, str]:
    files = ["--hyp", f"A={folder / 'text'}", "--ref", folder / "text", "--src", folder / "text"]
    return call(evaluate, *files, "--quiet", "--resamples", 0, "--metric", "exact@1", "--overwrite", *arguments)[::2]


def rerank(folder: Path, *arguments: object) -> tuple[int, str]:
    log = f"5={folder / 'log'}"
    files = ["--tune", log, "--test", log, "--ref", folder / "text"]
    return call(evaluate, "rerank", *files, "--ranks", 1, "--overwrite", *arguments)[::2]


def average(folder: Path, output: Path) -> tuple[int, str]:
    checkpoints = [folder / "checkpoint1.pt", folder / "checkpoint2.pt"]
    return call(main_average, *checkpoints, "--overwrite", "--output", output)[::2]


def dump(output: Path) -> None:
    sample = {"id": torch.tensor([7]), "net_input": {"src_tokens": torch.zeros(1, 0)}}  # the source has no words
    OutputWriter(str(output), "--copy-provenance", lambda *_: {"output": []}).write(
        sample, [[{"tokens": torch.zeros(0), "trace": Trace({}, {})}]], Dictionary(), Dictionary()
    )


def grow(output: Path) -> None:
    with GrowingFile(str(output), {}, overwrite=True) as file:
        file.write(["a", "b"], ["c", "d"])


TOOLS: dict[str, Callable[[Path, Path], tuple[int, str]]] = {
    "wean-evaluate --json": lambda folder, output: score(folder, "--json", output),
    "wean-evaluate --markdown": lambda folder, output: score(folder, "--markdown", output),
    "rerank --output": lambda folder, output: rerank(folder, "--output", output),
    "rerank --json": lambda folder, output: rerank(folder, "--output", folder / "reranked", "--json", output),
    "pictures": lambda _, output: in_python(
        lambda: write_figure(lambda: Figure(figsize=(1, 1)), output.with_suffix(""))
    ),
    "wean-average": average,
    "--copy-provenance": lambda _, output: in_python(lambda: dump(output)),
    "wean-generate": lambda _, output: in_python(lambda: grow(output)),
    "undo_text": lambda folder, output: call(
        undo_text.main, "--prepared", folder, "--input", folder / "text", "--overwrite", "--output", output
    )[::2],
    "clause_chunks": lambda folder, output: call(
        clause_chunks.main, "--input", folder / "text", "--overwrite", "--output", output
    )[::2],
    "restore_entities": lambda folder, output: call(
        restore_entities.main,
        *("--overwrite", "--entities", folder / "entities", "--input", folder / "text", "--output", output),
    )[::2],
}
FILES_ONLY = ("wean-average",)  # these tools only write regular files, because a checkpoint is a file
NEW_ONLY = ("--copy-provenance",)  # this option writes line by line and refuses an existing file
# these outputs contain names or times, so they differ in every run
CHANGES = ("wean-evaluate --json", "rerank --json", "wean-average")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with files that the tools read."""
    given = tmp_path / "given"
    given.mkdir()
    (given / "text").write_text("a cat\na cat\n")
    (given / "log").write_text(LOG.format(n=0) + LOG.format(n=1))
    (given / "entities").write_text("{}\n{}\n")
    (given / "manifest.json").write_text('{"files": {}, "options": {}}')
    for number in (1, 2):
        model = {"weight": torch.full((2, 2), float(number))}
        writing.save({"model": model, "cfg": {}}, given / f"checkpoint{number}.pt")
    return given


# --- existing outputs -----------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """An output path that exists already.

    Attributes:
        path: path that is given to the tool.
        received: returns the bytes that arrived. ``None`` means that the tool must refuse the path.
    """

    path: Path
    received: Callable[[], bytes] | None


@contextlib.contextmanager
def read_from(descriptor: int) -> Iterator[Callable[[], bytes]]:
    """Read in a thread until the last writer has closed the pipe."""
    pieces: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # raised when the other side of the terminal is closed
            while piece := os.read(descriptor, 65536):
                pieces.append(piece)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()

    def received() -> bytes:
        thread.join(20)
        return b"".join(pieces)

    yield received


@contextlib.contextmanager
def terminal(path: Path) -> Iterator[Place]:
    """Create a link to a device. A file cannot replace the device, because the device is in /dev/pts."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    path.symlink_to(os.ttyname(theirs))
    with read_from(ours) as received:

        def all_received() -> bytes:
            os.close(theirs)
            return received()

        yield Place(path, all_received)
    os.close(ours)


@contextlib.contextmanager
def read_pipe(path: Path) -> Iterator[Place]:
    os.mkfifo(path)
    ours, writing_end = os.open(path, os.O_RDONLY | os.O_NONBLOCK), os.open(path, os.O_WRONLY)
    os.set_blocking(ours, True)
    with read_from(ours) as received:

        def all_received() -> bytes:
            os.close(writing_end)
            return received()

        yield Place(path, all_received)
    os.close(ours)


@contextlib.contextmanager
def descriptor(path: Path) -> Iterator[Place]:
    """Create a link to /dev/fd/N, the form of path that bash uses for ``>(command)`` and that /dev/stdout has."""
    ours, theirs = os.pipe()
    path.symlink_to(f"/dev/fd/{theirs}")
    with read_from(ours) as received:

        def all_received() -> bytes:
            os.close(theirs)
            return received()

        yield Place(path, all_received)
    os.close(ours)


@contextlib.contextmanager
def refused(path: Path, make: Callable[[Path], object]) -> Iterator[Place]:
    made = make(path)
    yield Place(path, None)
    if isinstance(made, socket.socket):
        made.close()


@contextlib.contextmanager
def linked(path: Path, links: list[str], old: bytes | None) -> Iterator[Place]:
    """Create a chain of links, the last of which points to a file."""
    end = path.parent / "elsewhere" / "file.png"
    end.parent.mkdir()
    if old is not None:
        end.write_bytes(old)
    names = [path, *(path.parent / f"link{number}" for number in range(1, len(links)))]
    for name, kind, target in zip(names, links, [*names[1:], end], strict=True):
        name.symlink_to(os.path.relpath(target, path.parent) if kind == "relative" else target)
    yield Place(path, lambda: end.read_bytes() if end.exists() else b"")


def make_socket(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(path.parent)  # a relative name is used, because socket names have at most 107 bytes
    try:
        made.bind(path.name)
    finally:
        os.chdir(here)
    return made


def link_to_folder(path: Path) -> None:
    (path.parent / "linked").mkdir()
    path.symlink_to("linked")


PLACES: dict[str, Callable[[Path], Any]] = {
    "terminal": terminal,
    "pipe": read_pipe,
    "descriptor": descriptor,
    "link": lambda path: linked(path, ["absolute"], b"old"),
    "relative link": lambda path: linked(path, ["relative"], b"old"),
    "link to a link": lambda path: linked(path, ["relative", "absolute", "relative"], b"old"),
    "link to nothing": lambda path: linked(path, ["relative"], None),
    "pipe without a reader": lambda path: refused(path, os.mkfifo),
    "full device": lambda path: refused(path, lambda path: path.symlink_to("/dev/full")),
    "folder": lambda path: refused(path, Path.mkdir),
    "link to a folder": lambda path: refused(path, link_to_folder),
    "loop of links": lambda path: refused(path, lambda path: path.symlink_to(path.name)),
    "socket": lambda path: refused(path, make_socket),
    "link into nowhere": lambda path: refused(path, lambda path: path.symlink_to("/nowhere/at/all/file.png")),
}
FAST = ("terminal", "link to a link", "pipe without a reader", "loop of links")
CASES = [
    pytest.param(tool, place, id=f"{tool}, {place}", marks=[] if place in FAST else [pytest.mark.slow])
    for tool in TOOLS
    for place in PLACES
]


def look(folder: Path) -> dict[str, tuple[int, str]]:
    """Return the type of each entry in a folder, and the targets of links."""
    found = {}
    for path in folder.iterdir():
        kind = stat.S_IFMT(path.lstat().st_mode)
        found[path.name] = (kind, str(path.readlink()) if stat.S_ISLNK(kind) else "")
    return found


def attack(tool: str, place: str, folder: Path, tmp_path: Path) -> None:
    run, area = TOOLS[tool], tmp_path / "area"
    (tmp_path / "plain").mkdir()
    area.mkdir()
    plain = tmp_path / "plain" / "out.png"
    assert run(folder, plain) == (0, ""), tool
    with PLACES[place](area / "out.png") as target:
        before = look(area)
        status, said = run(folder, target.path)
        after = look(area)
        made = {name for name in after.keys() - before.keys() if name not in ("checksums.sha256", "out.svg", "out.tsv")}
        assert {name: after[name] for name in before} == before
        assert not made, "something half written is left"
        received = target.received() if target.received is not None else None
        is_file = received is not None and place.startswith(("link", "relative link"))
        if received is None or (tool in FILES_ONLY and not is_file) or tool in NEW_ONLY:
            assert status == 2
            assert_one_sentence(said, said.split(":")[0])
            assert received in (None, b"", b"old")
        else:
            assert (status, said) == (0, "")
            wanted = plain.read_bytes()
            assert received == wanted if tool not in CHANGES else abs(len(received) - len(wanted)) < 200


@pytest.mark.parametrize(("tool", "place"), CASES)
def test_what_is_no_file_stays_what_it_is(
    tool: str, place: str, folder: Path, tmp_path: Path, reliability: Reliability
) -> None:
    if place == "full device" and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    attack(tool, place, folder, tmp_path)
    reliability.count("outputs that are no files")


@pytest.mark.parametrize("name", ["a\nb.pt", "a\rb", "a\\b", "\\n", "a\u2028b", "a\x85b", "a\x0cb", " a ", "\udcff.pt"])
def test_any_name_can_have_a_checksum(name: str, tmp_path: Path) -> None:
    writing.save({"model": {}}, tmp_path / name)
    writing.save({"model": {}}, tmp_path / "checkpoint_last.pt")  # saving reads the manifest and writes it again
    run = SimpleNamespace(folder=tmp_path, name=os.fsencode(name))
    done = os.spawnlp(os.P_WAIT, "sh", "sh", "-c", f"cd '{run.folder}' && sha256sum --check --strict --quiet *.sha256")
    assert done == 0
