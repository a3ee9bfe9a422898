"""Describe trainings by the command and the log that a recipe stores in each folder.

    python -m wean_fairseq.training.trainings choose RUN/SYSTEM       # links it to the best of RUN/SYSTEM/tries
    python -m wean_fairseq.training.trainings describe RUN SYSTEM...  # writes RUN/trainings.json
    python -m wean_fairseq.training.trainings note RUN SYSTEM...      # prints the same notes, writes nothing

A training is "converged" if --patience ended it. It is "not chosen" if it was trained only for TRY_EPOCHS, because
another setting was better by then. It is "cut" if it ended for any other reason. ``--continue-with COMMAND`` stores a
note for each training that was cut in trainings.json, and prints it. The note has the command that continues the
training.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from ..console import OneLineParser, command, print_text
from ..errors import UserError
from ..evaluation.corpus import describe_file
from ..evaluation.text_files import read_lines, read_text, write_atomically
from ..evaluation.training_log import LOWER_IS_BETTER, read_log
from ..revision import commit

_METRIC = re.compile(r"^--best-checkpoint-metric (\S+)$", re.MULTILINE)


@command("trainings")
def main(arguments: list[str]) -> None:
    """Run the command line."""
    parser = OneLineParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=["choose", "describe", "note"])
    parser.add_argument("run", type=Path, help="folder of a system that was tried, or of a run")
    parser.add_argument("systems", nargs="*", help="systems of the run")
    parser.add_argument("--continue-with", default="", metavar="COMMAND", help="command that continues cut trainings")
    args = parser.parse_args(arguments)
    if args.what == "choose":
        choose_try(args.run)
        return
    trainings = {system: describe_system(args.run / system) for system in args.systems}
    for system, training in trainings.items():
        if training["end"] == "cut" and args.continue_with:
            training["note"] = cut_note(training, args.continue_with)
            print_text(f"{system} {training['note']}\n")
    if args.what == "describe":
        write_atomically(args.run / "trainings.json", json.dumps(trainings, indent=1) + "\n")


def describe_training(folder: Path) -> dict[str, Any]:
    """Return the options, best validation and cost of a training, and the conditions on which these numbers depend.

    For logs of older versions, ``cpu_seconds`` is None. In that case, the number of threads is read from the
    environment, and ``commit`` is the present commit.

    Raises:
        UserError: if the log contains no validation, or lacks the metric that selects the checkpoint.
    """
    command = read_text(folder / "command")
    metric = match[1] if (match := _METRIC.search(command)) else "loss"
    threads = re.match("[1-9][0-9]{0,8}", os.environ.get("OMP_NUM_THREADS", ""))  # "4,2" means 2 in nested loops
    log = read_log(folder / "train.log")
    if not log.validations(metric):
        raise UserError(f"{log.path} has no validation by {metric}: nothing can be chosen by it.")
    best = log.best(metric)
    return {
        "options": command.splitlines(),
        "metric": metric,
        "best": best.values[metric],
        "epoch_of_best": round(best.epoch, 2),
        "epochs_to_95_percent": round(log.near_best(metric).epoch, 2),
        "epochs": round(log.valid[-1].epoch, 2),
        "updates": log.valid[-1].updates,
        "schedule": log.max_epoch,
        "seed": log.seed,
        "parameters": log.parameters,
        "cpu_seconds": None if log.cpu_seconds is None else round(log.cpu_seconds),
        "threads": log.threads or (int(threads[0]) if threads else None),
        "commit": log.commit or commit(),
        "end": "converged" if log.stopped_early else "cut",
        **({"limit": log.limit} if log.limit else {}),
    }


def cut_note(training: dict[str, Any], command: str) -> str:
    """Return a note that a limit, usually the number of epochs, ended the training. It has the command to continue."""
    best, epochs, limit = training["epoch_of_best"], training["epochs"], training.get("limit")
    why = "while validation was still improving" if best >= epochs else "before --patience did"
    ended = f"was ended by {limit or 'the number of epochs'} {why} (best validation at epoch {best:g} of {epochs:g}). "
    if limit == "--max-update":  # a schedule may depend on it, so that recipes refuse to change it
        return f"{ended}To train longer, give a larger --max-update and a new directory: {command}"
    return (
        f"{ended}To continue it, repeat the command with {f'a larger {limit}' if limit else 'more epochs'}: {command}"
    )


def describe_data(folder: Path) -> list[dict[str, Any]]:
    """Identify the training and validation text by name, SHA-256 and number of lines."""
    paths = [path for split in ("train", "valid") for path in sorted(folder.glob(f"{split}.*")) if path.is_file()]
    return [describe_file(path, len(read_lines(path))) for path in paths]


def describe_system(folder: Path) -> dict[str, Any]:
    """Return the training of a system.

    If several settings were tried, return the chosen training together with all tries.
    """
    tries = {
        path.name: describe_training(path)
        for path in sorted((folder / "tries").glob("*"))
        if (path / "command").exists()
    }
    data = describe_data(folder.parent / "text")
    if not tries:
        return {**describe_training(folder), "data": data}
    chosen = best_of(tries)
    for training in tries.values():
        if training["end"] == "cut" and (training["schedule"] or 0) < (tries[chosen]["schedule"] or 0):
            training["end"] = "not chosen"
    short = ("best", "epoch_of_best", "epochs", "schedule", "cpu_seconds", "end")
    return {
        **tries[chosen],
        "data": data,
        "chosen": chosen,
        "tries": {name: {key: training[key] for key in short} for name, training in tries.items()},
    }


def best_of(tries: dict[str, dict[str, Any]]) -> str:
    """Return the name of the try with the best validation."""
    metric = next(iter(tries.values()))["metric"]
    return (min if metric in LOWER_IS_BETTER else max)(tries, key=lambda name: tries[name]["best"])


def choose_try(folder: Path) -> None:
    """Link a system's checkpoint, log and command to the files of its best try."""
    chosen = describe_system(folder)["chosen"]
    for name in ("checkpoint_best.pt", "train.log"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(Path("tries", chosen, name))
    print_text(f"{folder.name}: {chosen} is the best on validation\n")


if __name__ == "__main__":
    sys.exit(main())
