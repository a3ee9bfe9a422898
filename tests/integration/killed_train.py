"""Run fairseq-train and kill it at random moments, until it has been killed KILLS times.

``killed_train.py LOG KILLS SEED fairseq-train ARGUMENTS`` starts a second process that waits for the moment and sends
SIGKILL. A quarter of the moments are anywhere between the start of the program and its second checkpoint, half of them
are while a file is being written, and the rest are soon after a checkpoint. At each start, the files that the last kill
has left are recorded, without code of the plugin that is being tested.
"""

import hashlib
import json
import os
import random
import signal
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

STARTING = 25  # approximate number of seconds that a training needs to start on a busy machine
PATIENCE = 240  # maximum time to wait in seconds
WHOLE = "checkpoint_last.pt"


def look(folder: Path) -> dict[str, list[str]]:
    """Return the partial files, and the checkpoints that are damaged according to their checksums or the manifest."""
    manifest = folder / "checksums.sha256"
    lines = manifest.read_text().splitlines() if manifest.exists() else []
    partial = [line for line in lines if len(line.split("  ")[0]) != 64]
    for path in sorted(folder.glob("*.pt")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if f"{digest}  {path.name}" not in lines or not zipfile.is_zipfile(path) or zipfile.ZipFile(path).testzip():
            partial.append(path.name)
    return {"partial": partial, "unfinished": sorted(path.name for path in folder.glob(".wean-*"))}


def appearances(folder: Path, pattern: str) -> Callable[[], int]:
    """Return a counter of files that appear from now on. Replacements of existing files count, too."""
    seen = set()

    def count() -> int:
        for path in folder.glob(pattern):
            try:
                seen.add((path.name, path.stat().st_ino))
            except FileNotFoundError:
                continue
        return len(seen) - before

    before = 0
    before = count()
    return count


def wait_for_moment(folder: Path, chance: random.Random) -> str:
    """Sleep until the moment when the training must be killed. Return the kind of moment."""
    kind = chance.choices(("any time", "writing", "written"), (1, 2, 1))[0]
    until = time.monotonic() + (chance.uniform(0, STARTING) if kind == "any time" else PATIENCE)
    wanted = {"any time": 2, "writing": chance.randint(1, 12), "written": chance.randint(1, 3)}[kind]
    count = appearances(folder, ".wean-*" if kind == "writing" else WHOLE)
    while time.monotonic() < until and count() < wanted:
        time.sleep(0.0005)
    time.sleep(chance.uniform(0, {"any time": 0, "writing": 0.01, "written": 0.3}[kind]))
    return kind


def append(path: Path, entry: object) -> None:
    """Append ``entry`` as a line of JSON."""
    with path.open("a") as file:
        file.write(f"{json.dumps(entry)}\n")


def main() -> None:
    """Replace this process by fairseq-train.

    Before this, start the process that kills the training, unless the training has already been killed KILLS times.
    """
    log, (kills, seed, *command) = Path(sys.argv[1]), sys.argv[2:]
    folder = Path(command[command.index("--save-dir") + 1])
    killed = len(log.read_text().splitlines()) if log.exists() else 0
    if killed:
        append(log.with_suffix(".found"), look(folder))
    victim = os.getpid()
    if killed < int(kills) and os.fork() == 0:
        moment = wait_for_moment(folder, random.Random(f"{seed} {killed}"))
        if os.getppid() == victim:  # otherwise, the training has ended by itself
            append(log, moment)
            os.kill(victim, signal.SIGKILL)
        os._exit(0)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
