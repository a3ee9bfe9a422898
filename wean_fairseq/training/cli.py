"""``wean-train``: train a model on your sentence pairs, from a table to a scored model folder."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

from ..console import command, command_parser, configure_logging, number, number_or_file, whole_number
from ..ranges import MOST_PROCESSES
from .defaults import ARCHS_OF, BERT_ARCHS
from .settings import PROGRAM, Case, Unit, build_settings, read_file, read_settings

_EPILOG = """examples:
  wean-train pairs.csv --output model
  wean-train pairs.csv --columns original,simple --arch copynet --epochs 30 --output model
  wean-train mine.src mine.tgt --test test.src test.tgt --unit words --output model
  wean-train --config model/run.toml --output again          the same training again
  wean-train new.csv --from model --output tuned             continue a training on other pairs

A repeated command continues an interrupted training. OUTPUT.work has all files but the model: text, log, checkpoints,
outputs and scores. The settings of a file that --config names are replaced by options.
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    description = "Train a model on sentence pairs, score it on a test set, and export it."
    parser = command_parser(PROGRAM, description, _EPILOG)
    add = parser.add_argument
    add(
        "data",
        nargs="*",
        metavar="FILE",
        help="table with both sides (CSV, TSV, JSON, Parquet, a folder saved by datasets), or two text files",
    )
    add("--output", metavar="DIR", help="folder of the model")
    add("--task", choices=tuple(ARCHS_OF), help="pairs of sentences, or topic words and an essay (default: pairs)")
    add("--work", metavar="DIR", help="folder of all other files (default: OUTPUT.work)")
    add("--from", dest="from_", metavar="MODEL", help="model folder or checkpoint, from which the training continues")
    add(
        "--old-test",
        nargs=2,
        metavar=("SRC", "TGT"),
        help="test set of --from, as two text files (default: found next to it)",
    )
    add("--config", type=Path, metavar="TOML", help="file of settings, such as the run.toml of a model")
    text = parser.add_argument_group("text")
    add = text.add_argument
    add("--columns", metavar="A,B[,C]", help="source and target column, and further references (default: the only two)")
    add("--header", choices=("yes", "no"), help="whether the first row has the names of the columns (default: a guess)")
    for name in ("valid", "test"):
        add(
            f"--{name}",
            nargs="+",
            type=number_or_file,
            metavar="N|FILE",
            help=f"number of {name} pairs, or files (default: 5%%, at most 1000)",
        )
    add("--split-seed", type=whole_number(0), metavar="N", help="seed of the draw of the splits (default: 1)")
    add("--unit", choices=get_args(Unit), help="kind of tokens (default: joiner)")
    add("--case", choices=get_args(Case), help="treatment of upper case (default: truecase, for essays keep)")
    add("--bpe", type=whole_number(0), metavar="N", help="merges of byte pair encoding (default: 0 = whole words)")
    add("--language", metavar="XX", help="two letters, for --unit moses (default: en)")
    add("--limit", type=whole_number(0), metavar="N", help="largest number of pairs per split (default: 0 = all)")
    model = parser.add_argument_group("training", "the defaults depend on the number of pairs")
    add = model.add_argument
    add("--arch", metavar="ARCH", help="; ".join(f"{k}: {', '.join(v)}" for k, v in ARCHS_OF.items()))
    add("--bert", metavar="DIR", help=f"BERT whose states the model reads ({', '.join(BERT_ARCHS)}; default: none)")
    add("--embedding-file", metavar="FILE", help="word vectors of the model's width, from which its embeddings start")
    add("--width", type=whole_number(1), metavar="N", help="size of embeddings and layers")
    add("--epochs", type=whole_number(1), metavar="N", help="largest number of passes over the data")
    add("--rate", type=number, metavar="X", help="learning rate")
    add(
        "--patience", type=whole_number(1), metavar="N", help="validations without improvement that end it (default: 4)"
    )
    add("--search", metavar="OPTIONS", help="search options of fairseq-generate, such as '--beam 8 --lenpen 1.2'")
    add("--seed", type=whole_number(0), metavar="N", help="seed of the training (default: 1)")
    add("--processes", type=whole_number(1, MOST_PROCESSES), metavar="N", help="processes (default: one per GPU)")
    add("--device", choices=("cpu", "cuda"), help="where to train (default: a GPU, if there is one)")
    return parser


def _train(args: argparse.Namespace) -> None:
    given = vars(args)
    config, given["from"] = given.pop("config"), given.pop("from_")
    given["data"] = args.data if len(args.data) > 1 else (args.data or [None])[0]
    for name in ("valid", "test"):
        if given[name]:
            (*more, value) = given[name]
            given[name] = value if isinstance(value, int) and not more else list(map(str, given[name]))
    chosen = read_file(config) if config is not None else {}
    settings = build_settings(chosen | read_settings(given))
    try:
        resolve_name(f"{__package__}.run:run")(settings)  # imported only now, because it imports PyTorch and fairseq
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command continues from here") from None


@command(PROGRAM)
def main(arguments: Sequence[str]) -> None:
    """Run the command line."""
    args = build_parser().parse_args(arguments)
    configure_logging(PROGRAM)
    _train(args)


if __name__ == "__main__":
    sys.exit(main())
