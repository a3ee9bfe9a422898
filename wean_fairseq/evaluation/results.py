"""Record measured results in ``results/<experiment>.json``.

A result file contains the JSON of ``wean-evaluate --json`` (with the hashes of the test files), and everything that is
needed to repeat the measurement: command, seed, hashes of other data, commit, hardware and software.
"""

import argparse
import importlib.metadata
import json
import math
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from ..console import SEED, OneLineParser, counted
from ..errors import UserError, printable
from ..optional import LazyModule
from ..ranges import Amount
from ..revision import commit
from .corpus import describe_file, is_baseline
from .score_file import DataFile, Evaluation
from .system_arguments import SEVERAL
from .tables import Table, without_formula
from .text_files import (
    PathLike,
    check_outputs,
    convert_content,
    decode_lines,
    read_bytes,
    read_lines,
    read_typed_json,
    sha256_as_read,
    write_atomically,
)

torch = LazyModule("torch")

_RATE = r"(?:\d{1,9}\.?\d{0,30}|\.\d{1,30})(?:e[+-]?\d{1,2})?"  # a number that is short enough to fit into a float
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_NO_TRAININGS = "give trainings.json of a recipe's run"
_PACKAGES = ("torch", "fairseq-fixed", "sacrebleu", "rouge-score", "numpy")


class Training(Struct):
    """The members of a training in ``trainings.json`` that this module reads. Its other members are recorded unchanged.

    Attributes:
        options: lines of its command.
        data: the training and validation text.
        runs: one training per seed, if the system was trained with several seeds.
    """

    options: list[str] = []
    parameters: Amount | None = None
    epochs: Amount | None = None
    epoch_of_best: Amount | None = None
    cpu_seconds: Amount | None = None
    data: list[DataFile] = []
    runs: list["Training"] = []

    def option(self, name: str) -> float | None:
        """Return the first number after an option of the command, or None if there is none."""
        found = re.search(rf"^{name} \[?({_RATE})(?![\w.-])", "\n".join(self.options), re.MULTILINE | re.ASCII)
        return float(found[1]) if found else None


class Result(Struct):
    """A file of ``wean-evaluate record``.

    Attributes:
        seeds: seeds of the trainings, if there are several trainings.
        commit: commit of the working tree, with ``-dirty`` if it was changed, or ``unknown``.
        where: origin of the scores, if they were computed now and not read from ``results/``.
    """

    experiment: str
    command: str
    seed: int
    evaluation: Evaluation
    seeds: list[int] = []
    note: str = ""
    commit: str | None = "unknown"
    hardware: Any = None
    trainings: dict[str, Training] = {}
    where: str = ""


def read_result(path: PathLike) -> Result:
    """Read a file of ``wean-evaluate record``.

    Raises:
        UserError: if the file has other content.
    """
    return read_typed_json(path, Result, "give a file of wean-evaluate record")


def hardware() -> dict[str, Any]:
    """Return processor, cores, memory and GPUs of this machine."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        models = re.findall(r"^model name\s*:\s*(.+)$", information.read_text(encoding="utf-8"), re.MULTILINE)
        processor = models[0] if models else processor
    result: dict[str, Any] = {"processor": processor, "cores": os.cpu_count()}
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        result["memory_gib"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    if torch.cuda.is_available():
        result["gpus"] = [torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count())]
    return result


def software() -> dict[str, str]:
    """Return the versions of Python and the main libraries."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def record_command(argv: list[str]) -> str:
    """Run ``wean-evaluate record``."""
    description = "Keep a measured evaluation with all that is needed to repeat it."
    parser = OneLineParser(prog="wean-evaluate record", description=description)
    parser.add_argument("evaluation", metavar="JSON", help="written by wean-evaluate --json")
    parser.add_argument("--experiment", required=True, help="name of the result file, e.g. wean_pwkp")
    parser.add_argument("--command", required=True, help="the command that reproduces it (as a user would type it)")
    parser.add_argument("--seed", required=True, type=SEED, help="seed of each training run", **SEVERAL)
    for option, metavar, name in (("--trainings", "JSON", "trainings.json"), ("--curves", "TSV", "curves.tsv")):
        text = f"{name} of the recipe's run, one for each seed"
        parser.add_argument(option, metavar=metavar, help=text, **SEVERAL)
    parser.add_argument("--note", default="", help="note for readers, e.g. how the data differ from the paper's")
    text = "text to identify by its hash as well, e.g. the train set"
    parser.add_argument("--data", metavar="FILE", help=text, **SEVERAL)
    parser.add_argument("--hardware", help="hardware of the training (default: this machine)")
    parser.add_argument("--overwrite", action="store_true", help="replace an older result of this name")
    parser.add_argument("--results", default="results", metavar="FOLDER", help="default: %(default)s")
    args = parser.parse_args(argv)
    if not _NAME.fullmatch(args.experiment):
        raise UserError(f"{args.experiment!r} is not a file name; use letters, digits, '_', '.' and '-'.")
    if not args.command.strip():
        raise UserError("--command is empty; give the command that reproduces the result.")
    path = Path(args.results, f"{args.experiment}.json")
    curves_path = path.with_suffix(".curves.tsv")
    inputs = [args.evaluation, *args.data, *args.trainings, *args.curves]
    outputs = {f"--experiment {args.experiment}:": path, "curves": curves_path if args.curves else None}
    check_outputs(outputs, inputs, overwrite=args.overwrite)
    if not args.curves and curves_path.exists():
        raise UserError(
            f"{curves_path} has the curves of an earlier result of this name: give --curves, or move this file."
        )
    evaluation = read_typed_json(args.evaluation, dict[str, Any])
    if isinstance(names := evaluation.get("sets"), dict):
        raise UserError(
            f"{args.evaluation} has the scores of several test sets ({', '.join(map(printable, names))}): score one of "
            "them without --set, and record its file."
        )
    scored = convert_content(evaluation, Evaluation, args.evaluation, "give a file written by wean-evaluate")
    _check_seeds(args, scored)
    trainings, trained_on = merge_trainings(args.trainings)
    curves = merge_curves(args.curves, args.seed)
    _check_members(args, scored, trainings, curves)
    result = {
        "experiment": args.experiment,
        "command": args.command,
        "seed": args.seed[0],
        **({"seeds": args.seed} if len(args.seed) > 1 else {}),
        "note": args.note,
        "commit": commit(),
        "hardware": args.hardware or hardware(),
        "software": software(),
        "data": [*(describe_file(path, len(read_lines(path))) for path in args.data), *trained_on],
        **({"trainings": trainings} if trainings else {}),
        "evaluation": evaluation,
    }
    if curves:
        write_atomically(curves_path, curves.as_tsv())
    write_atomically(path, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    marks = f"`<!-- results: {args.experiment} -->` and `<!-- /results -->`"
    return f"{printable(str(path))} written; put {marks} on separate lines where its table goes.\n"


def _check_seeds(args: argparse.Namespace, evaluation: Evaluation) -> None:
    """Refuse seeds whose number is not that of the scored runs, of ``--trainings`` or of ``--curves``."""
    if len(set(args.seed)) < len(args.seed):
        raise UserError(
            f"--seed {' '.join(map(str, args.seed))} has a seed twice; give the seed of each training once."
        )
    runs = {
        name: max([1, *(len(score.runs) for score in scores.values())])
        for name, scores in evaluation.scores.items()
        if not is_baseline(name)
    }
    # Systems with a single run, such as the outputs of a paper, may be next to systems with several runs.
    wrong = [name for name, number in runs.items() if number not in (1, len(args.seed))]
    if wrong or (runs and len(args.seed) not in runs.values()):
        name = (wrong or [*runs])[0]
        raise UserError(
            f"{args.evaluation} has {counted(runs[name], 'run')} of {name}, but --seed names "
            f"{counted(len(args.seed), 'seed')}; give the scores and the seeds of the same trainings."
        )
    for option in ("trainings", "curves"):
        paths = getattr(args, option)
        if len(paths) not in (0, len(args.seed)):
            raise UserError(f"--{option}: {len(paths)} files for {len(args.seed)} seeds; give one file for each seed.")


def _check_members(
    args: argparse.Namespace, evaluation: Evaluation, trainings: dict[str, Any], curves: Table | None
) -> None:
    """Refuse trainings and curves of other systems, seeds or epochs, or the same file for two seeds.

    Members that older files lack are not compared.
    """
    for paths in (args.trainings, args.curves):
        digests = [sha256_as_read(path) for path in paths]
        for number, digest in enumerate(digests):
            if (first := digests.index(digest)) < number:
                raise UserError(f"{paths[number]} equals {paths[first]}; give the file of each seed's own run.")
    names = {without_formula(name) for name in evaluation.scores}
    last = {(str(row[0]), str(row[1])): str(row[2]) for row in curves.rows} if curves else {}
    curve_files = {str(seed): path for seed, path in zip(args.seed, args.curves, strict=False)}
    # Every file of --trainings has the same systems, see `merge_trainings`.
    found = [(args.trainings[0], system) for system in trainings]
    for path, system in [*found, *((curve_files[seed], system) for seed, system in last)]:
        if without_formula(system) not in names:
            raise UserError(
                f"{path} has the system {system}, but {args.evaluation} has scores of "
                f"{', '.join(evaluation.scores)}; give files of the same run."
            )
    for name, content in trainings.items():
        training = convert(content, Training)
        for path, seed, run in zip(args.trainings, args.seed, training.runs or [training], strict=True):
            if run.option("--seed") not in (None, seed):
                raise UserError(
                    f"{path}: the training of {name} has --seed {run.option('--seed'):g}, but it is given for "
                    f"--seed {seed}; give the files and seeds in the same order."
                )
            end = last.get((str(seed), without_formula(name)))
            # Curves have three decimals and trainings two.
            if end is None or run.epochs is None or abs(float(end) - run.epochs) < 0.01:
                continue
            raise UserError(
                f"{curve_files[str(seed)]}: the curve of {name} with seed {seed} ends at epoch {end}, but its training "
                f"in {path} at epoch {run.epochs:g}; give curves.tsv and trainings.json of the same run."
            )


def merge_trainings(paths: Sequence[PathLike]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the trainings of all systems, and the data that they used.

    If a system was trained with several seeds, its trainings are in ``runs``. The description of the data is moved out
    of the trainings, because all trainings share it.
    """
    files = [read_typed_json(path, dict[str, dict[str, Any]], _NO_TRAININGS) for path in paths]
    data: dict[str, dict[str, Any]] = {}
    for path, trainings in zip(paths, files, strict=True):
        convert_content(trainings, dict[str, Training], path, _NO_TRAININGS)
        if set(trainings) != set(files[0]):
            raise UserError(
                f"{path} has trainings of {', '.join(trainings)} but {paths[0]} of {', '.join(files[0])}; "
                "give trainings.json of runs with the same systems."
            )
        for training in trainings.values():
            data |= {f"{entry['name']} {entry['sha256']}": entry for entry in training.pop("data", [])}
    if len(files) < 2:
        return (files[0] if files else {}), list(data.values())
    return {system: {"runs": [trainings[system] for trainings in files]} for system in files[0]}, list(data.values())


def merge_curves(paths: Sequence[PathLike], seeds: Sequence[int]) -> Table | None:
    """Return one table of all validation curves, or None if there are no files.

    The first column is the seed. A cell is empty if a validation lacks a metric.
    """
    heads: list[str] = []
    rows: list[list[str]] = []
    for path, seed in zip(paths, seeds, strict=False):
        content = read_bytes(path)
        if not content.endswith(b"\n"):
            raise UserError(f"the last line of {path} has no line end, so it may be cut; give the whole file.")
        head, *lines = decode_lines(content, path)
        width = head.count("\t") + 1
        if head.split("\t")[:3] != ["system", "epoch", "updates"] or width == 3 or not lines:
            raise UserError(f"{path} is not a table of curves; give curves.tsv of a recipe's run.")
        heads.append(head)
        if head != heads[0]:
            raise UserError(f"{path} has other columns than {paths[0]}; give curves of the same metrics.")
        for number, line in enumerate(lines, start=2):
            rows.append([str(seed), *line.split("\t")])
            if len(rows[-1]) != width + 1:
                raise UserError(
                    f"line {number} of {path} has {len(rows[-1]) - 1} cells, but the first has {width}; give "
                    "curves.tsv of a recipe's run."
                )
            for cell in [*rows[-1][2:4], *filter(None, rows[-1][4:])]:
                _check_number(cell, f"line {number} of {path}")
    return Table(["seed", *heads[0].split("\t")], rows) if heads else None


def _check_number(cell: str, where: str) -> None:
    try:
        is_finite = math.isfinite(float(cell))
    except ValueError:
        raise UserError(f"{where} has {cell!r:.40}, not a number; give the whole file.") from None
    if not is_finite:
        raise UserError(
            f"{where} has {cell!r:.40}, which is not finite; write the file again with wean-plot curves, which leaves "
            "such cells of a diverged training empty."
        )
