"""``wean-average``, ``wean-export`` and ``wean-checksum``."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from ..data.integrity import record
from ..errors import UserError
from .average import average, newest
from .export import WEIGHTS, export
from .files import is_special, sha256_of
from .manifest import Manifest


def main_average(arguments: list[str] | None = None) -> int:
    """Run ``wean-average``; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="wean-average", description="Write a checkpoint whose parameters are the mean of those of others."
    )
    parser.add_argument("checkpoints", nargs="+", help="files, or with --last the folder of a training")
    parser.add_argument("--last", type=int, metavar="N", help="average the N newest checkpoints of the folder")
    parser.add_argument("--output", required=True, metavar="FILE", help="checkpoint to write")
    args = parser.parse_args(arguments)
    return _run(parser.prog, lambda: _average(args))


def main_export(arguments: list[str] | None = None) -> int:
    """Run ``wean-export``; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="wean-export",
        description="Write a model as safetensors, JSON and dictionaries, which fairseq-generate reads back: "
        f"--path FOLDER/{WEIGHTS}.",
    )
    parser.add_argument("checkpoint", help="file of fairseq-train")
    parser.add_argument("--output", required=True, metavar="FOLDER", help="folder to make")
    parser.add_argument("--data", metavar="FOLDER", help="folder of the dictionaries (default: that of the training)")
    args = parser.parse_args(arguments)
    return _run(parser.prog, lambda: _export(args))


def main_checksum(arguments: list[str] | None = None) -> int:
    """Run ``wean-checksum``; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="wean-checksum",
        description="Write the checksums of data that fairseq-preprocess made, or of a checkpoint put in the place of "
        "another: what is there now is what every later command expects.",
    )
    parser.add_argument("paths", nargs="+", help="folders of data, or checkpoints")
    args = parser.parse_args(arguments)
    return _run(parser.prog, lambda: [_checksum(Path(path)) for path in args.paths])


def _average(args: argparse.Namespace) -> list[str]:
    paths = [Path(path) for path in args.checkpoints]
    if args.last is not None:
        if len(paths) != 1 or not paths[0].is_dir():
            raise UserError("--last N averages the checkpoints of one folder: name the folder alone.")
        paths = newest(paths[0], args.last)
    average(paths, args.output)
    return [f"{args.output} is the average of {', '.join(str(path) for path in paths)}"]


def _export(args: argparse.Namespace) -> list[str]:
    export(args.checkpoint, args.output, args.data)
    return [f"{args.output} holds the model of {args.checkpoint}: --path {Path(args.output) / WEIGHTS}"]


def _checksum(path: Path) -> str:
    try:
        if path.is_dir():
            return f"{path}: checksums of {record(path)} files"
        if is_special(path):
            raise UserError(f"{path} is no file: name a folder of data or a checkpoint.")
        Manifest(path.parent).settle({path.name: sha256_of(path)})
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a folder of data or a checkpoint.") from error
    return f"{path}: checksum written"


def _run(program: str, work: Callable[[], list[str]]) -> int:
    try:
        lines = work()
    except UserError as error:
        sys.stderr.write(f"{program}: error: {error}\n")
        return 2
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0
