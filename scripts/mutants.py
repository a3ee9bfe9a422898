#!/usr/bin/env python3
"""Mutation tests: break the package on purpose, one line at a time, and report the mutants that no test detects.

    python scripts/mutants.py                  # all mutants of scripts/mutants.toml
    python scripts/mutants.py -k dropout -j 4  # mutants whose file or text contains the word, four at a time
    python scripts/mutants.py --random 200     # random mutants (random_mutants.py) with their tests (mutant_tests.py)

Each mutant replaces a text in a file of a copy of the project. The tests that are listed for the mutant run in this
copy. If the old text is missing or occurs twice, this is an error, and the row must be fixed. Before the mutants, each
set of tests runs once on an unchanged copy, so that a mutant does not count as detected by a test that fails anyway.
For random mutants, all tests run once, and tests that fail are excluded. The report is printed line by line. It ends
with the totals, even after Ctrl-C.
"""

import argparse
import importlib
import io
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

import mutant_tests
import random_mutants

ROOT = Path(__file__).resolve().parents[1]
MUTANTS = ROOT / "scripts" / "mutants.toml"
# The unit tests need these files and folders of the project.
COPIED = ("wean_fairseq", "tests", "preprocess", "pyproject.toml", "setup.py")
KILLED, SURVIVED, BROKEN = "killed", "SURVIVED", "BROKEN"
LONGEST = 900  # maximum seconds per mutant; a mutant that makes a test hang counts as killed
UNSEEN = 99  # exit status if tests pass without importing the package's copy


class Mutant(NamedTuple):
    """Replaces ``old`` in the file by ``new``. ``tests`` are pytest's arguments. Empty texts change nothing.

    ``place`` is the file and line of a random mutant. Its ``old`` and ``new`` are the text of the whole file.
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    place: str = ""

    def describe(self) -> str:
        """Return a description in one line."""
        if self.place:
            pairs = zip(self.old.splitlines(), self.new.splitlines(), strict=True)
            old, new = next((old.strip(), new.strip()) for old, new in pairs if old != new)
            return f"{self.place}: {old!r} -> {new!r}"
        if not self.old:
            return f"unchanged: {' '.join(self.tests)}"
        return f"{self.file}: {self.old.strip()!r} -> {self.new.strip()!r}"


def read_mutants(path: Path) -> list[Mutant]:
    """Return the rows of ``path``. Every old text must occur exactly once in its file.

    Raises:
        SystemExit: if rows must be fixed. The message names these rows.
    """
    mutants = []
    for group in tomllib.loads(path.read_text(encoding="utf-8"))["group"]:
        mutants += [Mutant(group["file"], old, new, tuple(group["tests"])) for old, new in group["mutants"]]
    wrong = []
    for mutant in mutants:
        file = ROOT / mutant.file
        occurrences = file.read_text(encoding="utf-8").count(mutant.old) if file.exists() else 0
        if occurrences != 1 or mutant.old == mutant.new:
            wrong.append(f"  {occurrences} times in {mutant.file}: {mutant.old!r}")
    if wrong:
        sys.exit("\n".join([f"mutants: error: the old text of a mutant must occur once in its file ({path}):", *wrong]))
    return mutants


def draw_mutants(number: int, seed: int, covering: mutant_tests.Covering) -> list[Mutant]:
    """Return random mutants, each with the tests that run its line."""
    mutants = []
    for file, place, changed in random_mutants.draw(ROOT, number, seed):
        text = (ROOT / file).read_text(encoding="utf-8")
        new = random_mutants.mutate(text, place, changed)
        mutants.append(Mutant(file, text, new, covering.of_line(file, int(place.rpartition(":")[2])), place))
    return mutants


def run_tests(mutant: Mutant) -> tuple[Mutant, str, str]:
    """Run the tests of a mutant in a separate copy. Each process runs only one mutant, because tests change sys.path.

    Returns:
        The mutant, its outcome, and the end of pytest's output.
    """
    if not mutant.tests:
        return mutant, SURVIVED, "no test runs this line"
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(LONGEST)
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        _copy_project(Path(folder))
        if mutant.old:
            path = Path(folder, mutant.file)
            path.write_text(path.read_text(encoding="utf-8").replace(mutant.old, mutant.new), encoding="utf-8")
        said = io.StringIO()
        try:
            with redirect_stdout(said), redirect_stderr(said):
                status = _pytest(folder, mutant.tests)
        except TimeoutError:
            return mutant, KILLED, "it took too long"
        finally:
            signal.alarm(0)
            os.chdir(ROOT)
    # Any error counts as detecting the mutant, including an error while pytest collects the tests.
    return mutant, {0: SURVIVED, UNSEEN: BROKEN}.get(status, KILLED), said.getvalue()[-1500:]


def _give_up(_signal: int, _frame: Any) -> None:
    raise TimeoutError


def _copy_project(folder: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder)


def _pytest(folder: str, tests: Iterable[str]) -> int:
    import pytest

    _enter(folder)
    status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--rootdir", folder, *tests]))
    package = sys.modules.get("wean_fairseq")
    seen = package is not None and str(package.__file__).startswith(folder)
    return UNSEEN if status == 0 and not seen else status


def _enter(folder: str) -> None:
    os.chdir(folder)
    sys.path.insert(0, folder)


def measure_lines(record: Path) -> None:
    """Run mutant_tests.measure in a separate process and copy. It writes to ``record`` which tests run which lines."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        _copy_project(Path(folder))
        with multiprocessing.get_context("fork").Pool(1) as pool:
            pool.apply(_measure, (folder, record))


def _measure(folder: str, record: Path) -> None:
    _enter(folder)
    mutant_tests.measure(Path(folder), record)


def main() -> int:
    """Run the mutants and print a report. Return 1 if the goal is missed or tests are broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-k", metavar="WORD", default="", help="only mutants whose file or text has this word")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, help="mutants at a time (default: all processors)")
    parser.add_argument("--random", type=int, metavar="N", help="draw N mutants instead of those of mutants.toml")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: %(default)s)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep which tests run which lines, or read it")
    parser.add_argument("--goal", type=float, default=95.0, help="percentage to be killed (default: %(default)s)")
    args = parser.parse_args()
    if not 1 <= args.j <= 4 * max(16, os.cpu_count() or 1):
        parser.error(f"-j {args.j} is not between 1 and {4 * max(16, os.cpu_count() or 1)}")
    # These slow imports are done once here, instead of in every forked process.
    for name in ("fairseq.models", "fairseq.tasks", "scipy.stats"):
        importlib.import_module(name)
    sys.dont_write_bytecode = True
    mutants = [one for one in _all_mutants(args) if args.k in one.file or args.k in one.old]
    if not mutants:
        parser.error(f"no mutant has {args.k!r} in its file or text")
    unchanged = [Mutant("", "", "", tests) for tests in dict.fromkeys(one.tests for one in mutants if not one.place)]
    ended = Counter[str]()
    with multiprocessing.get_context("fork").Pool(args.j, maxtasksperchild=1) as pool:
        for mutant, end, said in pool.imap_unordered(run_tests, unchanged, chunksize=1):
            if end != SURVIVED:
                sys.exit(f"mutants: error: these tests fail on the unchanged project:\n{mutant.describe()}\n{said}")
        with suppress(KeyboardInterrupt):
            for mutant, end, said in pool.imap_unordered(run_tests, mutants, chunksize=1):
                ended[end] += 1
                print(f"{end:8} {mutant.describe()}", flush=True)
                if end == BROKEN:
                    print(said)
    share = 100 * ended[KILLED] / max(1, ended.total())
    print(f"{ended[KILLED]} of {ended.total()} mutants killed ({share:.1f} %), {len(mutants) - ended.total()} not run")
    return 0 if share >= args.goal and not ended[BROKEN] and ended.total() == len(mutants) else 1


def _all_mutants(args: argparse.Namespace) -> list[Mutant]:
    if args.random is None:
        return read_mutants(MUTANTS)
    with tempfile.TemporaryDirectory() as folder:
        record = args.record or Path(folder, "lines.json")
        if not record.exists():
            measure_lines(record.resolve())
        covering = mutant_tests.read(ROOT, record)
    print(f"{len(covering.tests)} tests took {sum(covering.seconds.values()):.0f} seconds")
    return draw_mutants(args.random, args.seed, covering)


if __name__ == "__main__":
    sys.exit(main())
