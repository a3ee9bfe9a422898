#!/usr/bin/env python3
"""Write docs/reliability.md from the counts of a test run. `make test-slow` calls the script.

    python -m pytest -m slow tests --reliability-record RECORD && python scripts/reliability.py RECORD

If there are several records of different tests on the same machine, they are combined in one page.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.harness import describe_run, run_lines  # noqa: E402 - after adding the project's root to the path
from tests.reliability import read_record  # noqa: E402

PAGE = ROOT / "docs" / "reliability.md"
PACKAGES = ("fairseq-fixed", "torch", "numpy", "hypothesis")

# These are the outcomes that each kind of event must always have. Other kinds that were counted also get a row in the
# table.
MEANINGS = {
    "kills survived": "SIGKILL at random moments under `examples/train_until_done.sh`: after each kill every file "
    "under a final name was complete, and the finished training equals an uninterrupted one to the last bit",
    "of these, kills that left a half-written file behind": "these files were removed in the end",
    "resume combinations": "killed after an epoch or inside one, with dropout, 0 or 2 data workers, 1 or 2 processes, "
    "and started again: parameters, optimiser, schedule and random numbers equal those of an uninterrupted training, "
    "to the last bit",
    "families resumed": "every family of models, with dropout: stopped inside an epoch and resumed by another "
    "process: parameters, optimiser and schedule equal those of an uninterrupted training, to the last bit",
    "faults injected": "a full disk, files that may not grow, folders that cannot be written: one error message, and "
    "earlier checkpoints unchanged",
    "hostile checkpoints tried": "code, interpolations and odd types wherever fairseq evaluates an option, given to "
    "every tool that reads checkpoints: an audit hook saw nothing compiled, executed, started or written",
    "members of other types": "each member of a checkpoint in turn replaced by a value of another type, or left out, "
    "and given to every tool that reads checkpoints: one error message, or the tool did not need the member",
    "resumes with other options": "inside an epoch and at its end, watched pair by pair: each pair is in the epoch "
    "once, or the epoch starts again with a log message",
    "second trainings in a folder": "also after SIGKILL to `examples/train_until_done.sh`, whose training continues: "
    "one error message that names the first training",
    "outputs that are no files": "devices, pipes, sockets, folders and links under the name of an output, for every "
    "tool that writes: each was kept, and was written through or rejected with one error message",
    "options out of range": "of training, decoding and resuming, and address spaces too small for a model: one "
    "message, no traceback, no success without effect",
    "malformed files": "dictionaries, headers of word vectors, JSON of reports, encodings that lack the characters: "
    "never a traceback",
    "attacks on the page": "80 half-sent requests at a time: the page answered, and the requests were closed",
    "bad inputs tried": "random text, files and logs, also damaged ones: never a traceback, never a lost or shifted "
    "line",
}

TEMPLATE = """\
# Reliability: the last run of the slow tests

`scripts/reliability.py` writes this page at the end of `make test-slow`. Do not edit it by hand.

{machine}
* {passed} tests passed, {failed} failed, {skipped} were skipped. No data was lost.

| Kind | Number | Result each time | Tests |
|---|---:|---|---|
{rows}

## Guarantees

* **A killed training resumes from its last checkpoint and ends as if it had never been killed**, to the last bit, on
  the same machine with the same versions, options and number of processes. The number of data workers may change;
  `--rebuild-batches` changes batches.
* **Inside an epoch, no pair is trained twice or left out silently.** With another `--batch-size`, `--max-tokens`,
  `--seed`, limit of length, number of processes or text the epoch starts again, with a log message. With another
  `--update-freq` it continues.
* **Two trainings cannot use one `--save-dir`, nor two runs one `RUN`**, if the file system has locks. The second is
  rejected.
* **An output option replaces a file only with `--overwrite`.** `wean-report` replaces its own reports, a recipe its own
  files in its own `RUN`, and fairseq's `--results-path` its `generate-*.txt` when all of it is decoded (an interrupted
  command leaves no part of it). Permissions are kept, and links are followed, except by trainings. Devices and pipes
  are written through, or rejected.
* **A finished training is not changed** when its command is repeated. A command with `--restore-file` starts from
  that checkpoint each time.
* **A file under its final name is complete.** Partial files `.wean-*.partial` of a killed process are removed by the
  next one of the same user. If it was killed while it replaced a folder, the older one gets its name again when
  that folder is written again.
* **A full disk or a folder that cannot be written ends the training** with one message. The checkpoints are kept.

`examples/train_until_done.sh` restarts a training until it is finished:

```bash
bash examples/train_until_done.sh fairseq-train DATA --save-dir FOLDER --save-interval-updates 1000 ...
```

Its exit status is 0 if the training is finished or has reached its `--stop-time-hours`, 1 if it has ended `TRIES` times
in a row without a new checkpoint, 2 if a restart cannot help (wrong options, divergence, damaged data, a full disk),
and 129, 130 or 143 if you stop it.
"""


def results(records: list[list[dict[str, Any]]]) -> Counter[str]:
    """Return the numbers of tests that passed, failed or were skipped.

    Raises:
        SystemExit: if a run has failed or has not ended.
    """
    ends = [record[-1] if record else {} for record in records]
    if any(end.get("exit") != 0 for end in ends):
        raise SystemExit("reliability.py: error: a run of the tests has failed or not ended; the page was not changed.")
    return Counter({kind: sum(end[kind] for end in ends) for kind in ("passed", "failed", "error", "skipped")})


def rows(entries: list[dict[str, Any]]) -> list[str]:
    """Return one table row for each kind of event. The listed kinds come first."""
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("records", nargs="+", type=Path, help="files of pytest --reliability-record")
    parser.add_argument("--output", type=Path, default=PAGE, help="page to write (default: docs/reliability.md)")
    parser.add_argument("--command", default="make test-slow", help="command that ran the tests (default: %(default)s)")
    args = parser.parse_args()
    records = [read_record(path) for path in args.records]
    ended = results(records)
    run = describe_run(args.command, PACKAGES)
    del run["load_average_at_start"]  # this number has no meaning after the tests have ended
    machine = "\n".join(run_lines(run))
    page = TEMPLATE.format(
        machine=machine, rows="\n".join(rows([entry for record in records for entry in record])), **ended
    )
    args.output.write_text(page, encoding="utf-8")
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
