"""The commands ``wean-average`` and ``wean-export``."""

import argparse
from pathlib import Path
from typing import Any

from ..console import OneLineParser, command, configure_logging, whole_number
from ..errors import UserError, printable
from ..storage.search import add_search_options, check_stored
from .average import average, newest
from .export import export


@command("wean-average")
def main_average(arguments: list[str]) -> str:
    """Run ``wean-average``."""
    parser = OneLineParser(prog="wean-average", description="Average the parameters of several checkpoints.")
    parser.add_argument("checkpoints", nargs="+", help="files, or with --last the folder of a training")
    parser.add_argument(
        "--last", type=whole_number(1), metavar="N", help="average the N newest checkpoints of the folder"
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="checkpoint to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an older file")
    args = parser.parse_args(arguments)
    configure_logging("wean-average")
    return _average(args)


@command("wean-export")
def main_export(arguments: list[str]) -> str:
    """Run ``wean-export``."""
    parser = OneLineParser(
        prog="wean-export",
        description="Export a checkpoint to a self-contained model folder: safetensors, dictionaries and tokenisation. "
        "It is read by wean-generate, wean-inspect, wean_fairseq.load and fairseq-generate --path.",
    )
    parser.add_argument("checkpoint", help="file of fairseq-train")
    parser.add_argument("--output", dest="folder", required=True, metavar="FOLDER", help="folder to make")
    parser.add_argument("--data", metavar="FOLDER", help="folder of the dictionaries (default: that of the training)")
    parser.add_argument(
        "--text", metavar="FOLDER", help="output folder of a preprocess/ script (default: recorded in the data)"
    )
    parser.add_argument(
        "--ctranslate2",
        action="store_true",
        help="also write FOLDER/ctranslate2 for CTranslate2 (Transformers without copying only)",
    )
    parser.add_argument(
        "--no-example", dest="example", action="store_false", help="leave out example.txt, a sentence of your data"
    )
    parser.add_argument("--note", default="", metavar="TEXT", help="text for FOLDER/note.txt, for users of the model")
    parser.add_argument("--scores", metavar="FILE", help="output of wean-evaluate --json, for the model card README.md")
    parser.add_argument("--overwrite", action="store_true", help="replace an older exported model")
    add_search_options(parser)
    args = parser.parse_args(arguments)
    configure_logging("wean-export")
    return _export(**vars(args))


def _average(args: argparse.Namespace) -> str:
    paths = [Path(path) for path in args.checkpoints]
    if args.last is not None:
        if len(paths) != 1 or not paths[0].is_dir():
            raise UserError("--last N averages the checkpoints of one folder: name the folder alone.")
        paths = newest(paths[0], args.last)
    average(paths, args.output, overwrite=args.overwrite)
    return printable(f"{args.output} is the average of {', '.join(map(str, paths))}") + "\n"


def _export(checkpoint: str, folder: str, **options: Any) -> str:
    own = {
        name: options.pop(name) for name in ("data", "text", "ctranslate2", "example", "note", "scores", "overwrite")
    }
    check_stored(options)
    message = printable(f"{folder} holds the model of {checkpoint}: wean-generate --model {folder} --input FILE") + "\n"
    if not export(checkpoint, folder, search=options, verify=True, **own):
        message += (
            "it is not known how text becomes its tokens, so it reads words between spaces: if a script of preprocess/ "
            "wrote its training text, name the folder of that text with --text\n"
        )
    return message
