#!/usr/bin/env python3
"""Writes docs/reliability.md from what a run of the tests has counted; `make test-slow` calls it.

    python -m pytest -m slow tests --reliability-record RECORD && python scripts/reliability.py RECORD

Several records make one page: that of runs of different tests on the same machine.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.harness import describe_run, run_lines  # noqa: E402 - the root of the project comes first
from tests.reliability import read_record  # noqa: E402

PAGE = ROOT / "docs" / "reliability.md"
PACKAGES = ("fairseq-fixed", "torch", "numpy", "hypothesis")

# Each kind that is counted, with its outcome every time; kinds that are not here get a row too.
MEANINGS = {
    "kills survived": "SIGKILL at random moments under `examples/train_until_done.sh`: after each, every file under a "
    "final name was whole; the end is that of a training that was left alone, to the last bit",
    "of these, kills that left a half-written file behind": "in the end nothing of them was left",
    "resume combinations": "killed after an epoch or inside one, with dropout, 0 or 2 data workers, 1 or 2 processes, "
    "and started again: parameters, optimiser, schedule and random numbers equal those of a training that was left "
    "alone, to the last bit",
    "families resumed": "every family of models, with dropout: stopped inside an epoch and gone on with by another "
    "process: parameters, optimiser and schedule equal those of a training that did not stop, to the last bit",
    "faults injected": "a full disk, files that may not grow, folders that cannot be written: one sentence, and the "
    "checkpoints of before stayed byte for byte",
    "hostile checkpoints tried": "code, interpolations and odd types wherever fairseq evaluates an option, given to "
    "every tool that reads checkpoints: an audit hook saw nothing compiled, executed, started or written",
    "members of other types": "each member of a checkpoint in turn replaced by something of another type, or left out, "
    "and given to every tool that reads checkpoints: one sentence, or the tool had no need of it",
    "resumes with other options": "inside an epoch and at its end, watched pair by pair: each pair is in the epoch "
    "once, or the epoch begins anew and says so",
    "second trainings in a folder": "also after SIGKILL to `examples/train_until_done.sh`, whose training lives on: "
    "one sentence that names the first",
    "outputs that are no files": "devices, pipes, sockets, folders and links under the name of an output, for every "
    "tool that writes: each stayed what it was, and was written through or refused in one sentence",
    "options out of range": "of training, decoding and resuming, and address spaces too small: one sentence, never a "
    "traceback or a success that did nothing",
    "malformed files": "dictionaries, headers of word vectors, JSON of reports, encodings that lack the characters: "
    "never a traceback",
    "attacks on the page": "80 half-sent requests at a time: the page answered, and they were given up",
    "bad inputs tried": "random text, files and logs, damaged ones among them: never a traceback, never a line lost or "
    "shifted",
}

TEMPLATE = """\
# Reliability: the last run of the slow tests

This page is written by `scripts/reliability.py` at the end of `make test-slow`; it is not edited by hand.

{machine}
* {passed} tests passed, {failed} failed, {skipped} were skipped. Nothing was lost.

| What | How often | What was seen each time | Tests |
|---|---:|---|---|
{rows}

## What you can rely on

* **A training that is killed goes on from its last checkpoint and ends as if it had never been killed**, to the last
  bit, on the same machine with the same versions, options and number of processes; the number of data workers may
  change. Each update draws its random numbers from the seed and the number of the update; the batches of an epoch come
  from the seed and the number of the epoch (`--rebuild-batches` would turn that off).
* **Inside an epoch, no pair is trained twice or left out unnoticed.** With another `--batch-size`, `--max-tokens`,
  `--seed`, limit of length, number of processes or text the epoch begins anew, and the log says so; with another
  `--update-freq` it goes on where it was. Other pairs with the same dictionary are said, too.
* **Two trainings in one `--save-dir`** cannot be: the second ends with a sentence that names the first. The lock ends
  with its process, however that ends; file systems without locks have none.
* **An output option replaces files only.** Links are followed; devices and pipes are written through, or refused.
* **A training that is done stays as it is** when its command is given again: fairseq adds an update to one that
  `--max-update` has ended, and trains on after `--patience`, whose count it forgets. A command that names a checkpoint
  with `--restore-file` begins with it each time, done or not.
* **A file under its final name is whole.** It is written as `.wean-*.partial`, synchronised and renamed. If a
  process is killed, the next one that writes into the folder removes its partial files, if the file system has locks.
* **A full disk or a folder that cannot be written ends the training** with one sentence; the checkpoints stay.

`examples/train_until_done.sh` starts a training again until it is done:

```bash
bash examples/train_until_done.sh fairseq-train DATA --save-dir FOLDER --save-interval-updates 1000 ...
```

Its exit status is 0 when the training is done; 1 when it has ended `TRIES` times in a row without a new checkpoint; 2
when starting again cannot help, because the options are wrong or the training has said `wean_fairseq: error: ...` (it
diverged, its data is damaged, the disk is full); 129, 130 or 143 when you stop it. Damaged files are the subject of
`docs/security.md`, several processes that of `docs/scaling.md`.
"""


def results(records: list[list[dict[str, Any]]]) -> Counter[str]:
    """Counts of tests that passed, failed and so on.

    Raises:
        SystemExit: if a run has not ended, or not well: then there is nothing to be told.
    """
    ends = [record[-1] if record else {} for record in records]
    if any(end.get("exit") != 0 for end in ends):
        raise SystemExit("reliability.py: error: a run of the tests has failed or not ended: the page stays as it is.")
    return Counter({kind: sum(end[kind] for end in ends) for kind in ("passed", "failed", "error", "skipped")})


def rows(entries: list[dict[str, Any]]) -> list[str]:
    """A row of the table for each kind, the known ones first."""
    numbers: Counter[str] = Counter()
    files: dict[str, set[str]] = {}
    for entry in entries:
        if "kind" in entry:
            numbers[entry["kind"]] += entry["n"]
            files.setdefault(entry["kind"], set()).add(f"`{entry['file'].removeprefix('tests/')}`")
    kinds = [kind for kind in MEANINGS if kind in numbers] + sorted(numbers.keys() - MEANINGS.keys())
    cells = ((kind, f"{numbers[kind]:,}", MEANINGS.get(kind, ""), ", ".join(sorted(files[kind]))) for kind in kinds)
    return [f"| {' | '.join(row)} |" for row in cells]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", nargs="+", type=Path, help="files of pytest --reliability-record")
    parser.add_argument("--output", type=Path, default=PAGE, help="page to write (default: docs/reliability.md)")
    parser.add_argument("--command", default="make test-slow", help="what ran the tests (default: %(default)s)")
    args = parser.parse_args()
    records = [read_record(path) for path in args.records]
    ended = results(records)
    run = describe_run(args.command, PACKAGES)
    del run["load_average_at_start"]  # the tests have ended
    machine = "\n".join(run_lines(run))
    page = TEMPLATE.format(
        machine=machine, rows="\n".join(rows([entry for record in records for entry in record])), **ended
    )
    args.output.write_text(page, encoding="utf-8")
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
