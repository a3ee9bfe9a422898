"""``wean-plot``: the papers' figures, from a checkpoint and text or from the dumps of ``fairseq-generate``."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..checkpoints.export import is_export
from ..console import command_parser, configure_logging, exit_status, whole_number
from ..errors import UserError
from ..evaluation import granularity as granularities
from ..evaluation.layer_mixture import load_mixture
from ..evaluation.neighbours import EMBEDDING, load_embedding
from ..evaluation.text_files import decode_lines, read_lines
from . import figures, trace
from .dumps import kind_of_dump, read_provenance
from .style import write_figure

_EXAMPLES = """examples:
  wean-plot attention --checkpoint checkpoint_best.pt --data RUN/bin --text sentences.txt --output attention
  wean-plot granularity --dump z.jsonl --output z             (of fairseq-generate --granularity-dump z.jsonl)
  wean-plot provenance --dump copied.jsonl --lines 1 5 --output copied      (of --copy-provenance copied.jsonl)
  wean-plot coverage --checkpoint mta/checkpoint_best.pt --data RUN/bin --text topics.txt --output coverage
  wean-plot layers checkpoint_best.pt --output layers
  wean-plot neighbours quickly build --checkpoint checkpoint_best.pt --dict RUN/bin/dict.src.txt --output near

Every figure is written as OUTPUT.png and OUTPUT.svg. Text is what a checkpoint was trained on: tokenised, in its
pieces. For a folder of wean-export it is running text.
"""
_CHECKPOINT = "checkpoint of fairseq-train, or folder of wean-export"

#: Draws a matplotlib figure.
Drawing = Callable[[], Any]


def build_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    description = "Draw attention, granularities, copying, topic coverage, BERT's layers or neighbours of words."
    parser = command_parser("wean-plot", description, _EXAMPLES)
    commands = parser.add_subparsers(dest="figure", required=True, metavar="FIGURE")
    helps = {
        "attention": "what each output word attends to in the source",
        "granularity": "z of each word in every layer (C-DNPG)",
        "provenance": "which words were copied, and from where",
        "coverage": "what is left of each topic while an essay is written (MTA-LSTM, SC-LSTM)",
    }
    for name, text in helps.items():
        command = commands.add_parser(name, help=text, description=f"Draw {text}.")
        if name in ("granularity", "provenance"):
            command.add_argument("--dump", metavar="FILE", help="what fairseq-generate dumped, instead of a checkpoint")
        command.add_argument("--checkpoint", metavar="FILE", help=_CHECKPOINT)
        command.add_argument("--data", metavar="DIR", help="a checkpoint's data directory, with the dictionaries")
        command.add_argument("--text", metavar="FILE", help="sentences or topics, a line each; - = what is piped in")
        command.add_argument("--lines", nargs="+", type=whole_number(1), metavar="N", help="which ones, from 1")
        command.add_argument(
            "--number", type=whole_number(1), default=4, help="else so many, spread evenly (default: 4)"
        )
        command.add_argument("--beam", type=whole_number(1), help="width of the search (default: as the model says)")
        if name == "coverage":
            command.add_argument(
                "--essay-length", type=whole_number(1), help="words to plan for, for archs that need it"
            )
            command.add_argument("--bert", metavar="DIR", help="the BERT of the training, if it has moved")
    layers = commands.add_parser("layers", help="which layers of BERT each decoder layer reads (PC-SAN)")
    layers.add_argument("checkpoint", help=_CHECKPOINT)
    near = commands.add_parser("neighbours", help="nearest neighbours of words in the embedding (WEAN)")
    near.add_argument("words", nargs="+", metavar="WORD", help="words of the dictionary")
    near.add_argument("--checkpoint", required=True, metavar="FILE", help=_CHECKPOINT)
    near.add_argument("--dict", required=True, dest="dictionary", metavar="FILE", help="its dictionary, dict.src.txt")
    near.add_argument("--embedding", default=EMBEDDING, help="which matrix of the checkpoint (default: %(default)s)")
    near.add_argument("--number", type=whole_number(1), default=5, help="neighbours a word (default: %(default)s)")
    for command in commands.choices.values():
        command.add_argument("--output", required=True, metavar="STEM", help="writes STEM.png and STEM.svg")
    return parser


def drawing(args: argparse.Namespace) -> Drawing:
    """Read or compute what the command line asks for.

    Raises:
        UserError: if a file is missing or does not fit.
    """
    if args.figure == "layers":
        return partial(figures.layer_weights, load_mixture(args.checkpoint).tolist())
    if args.figure == "neighbours":
        near = load_embedding(args.checkpoint, args.dictionary, args.embedding)
        return partial(figures.neighbours, near.look_up(args.words, args.number))
    return _drawing_of_dump(args) if getattr(args, "dump", None) else _drawing_of_checkpoint(args)


def _drawing_of_dump(args: argparse.Namespace) -> Drawing:
    """Figures of sentences that fairseq-generate described."""
    if args.checkpoint or args.text:
        raise UserError("give either --dump, or --checkpoint with --data and --text, not both.")
    if kind_of_dump(args.dump) != args.figure:
        flag = "--granularity-dump" if args.figure == "granularity" else "--copy-provenance"
        raise UserError(f"{args.dump} is not what {flag} writes, so there is no {args.figure} to draw.")
    if args.figure == "granularity":
        return partial(figures.granularity, _select_lines(args, granularities.read_dump(args.dump)))
    return partial(figures.provenance, _select_lines(args, list(read_provenance(args.dump).values())))


def _drawing_of_checkpoint(args: argparse.Namespace) -> Drawing:
    """Figures of sentences that the checkpoint writes now."""
    if not (args.checkpoint and args.text and (args.data or is_export(args.checkpoint))):
        raise UserError(f"{args.figure} needs --checkpoint FILE, --data DIR and --text FILE.")
    lines = decode_lines(sys.stdin.buffer.read(), "standard input") if args.text == "-" else read_lines(args.text)
    numbered = _select_lines(args, list(enumerate(lines, start=1)))
    lines = [line for _, line in numbered]
    options = {name: getattr(args, name) for name in ("essay_length", "bert") if getattr(args, name, None)}
    length = options.pop("essay_length", None)
    model = trace.load(args.checkpoint, args.data, **options)
    if args.figure == "granularity":
        found = zip(numbered, trace.granularity(model, lines, args.beam), strict=True)
        return partial(figures.granularity, [sentence._replace(number=number) for (number, _), sentence in found])
    if args.figure == "provenance":
        return partial(figures.provenance, trace.provenance(model, lines, args.beam))
    if args.figure == "attention":
        return partial(figures.attention, trace.attention(model, lines, args.beam))
    return partial(figures.coverage, trace.coverage(model, lines, args.beam, length))


def _select_lines(args: argparse.Namespace, items: Sequence[Any]) -> list[Any]:
    """The items that ``--lines`` names, or some of all."""
    if not args.lines:
        return granularities.spread(items, args.number)
    beyond = [number for number in args.lines if number > len(items)]
    if beyond:
        raise UserError(f"--lines {beyond[0]}: there are only {len(items)} sentences; give a number up to that.")
    return [items[number - 1] for number in args.lines]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (0 fine, 2 a request that cannot be fulfilled)."""
    args = build_parser().parse_args(arguments)
    configure_logging("wean-plot")

    def work() -> str:
        return "".join(f"{path}\n" for path in write_figure(drawing(args), Path(args.output)))

    return exit_status("wean-plot", work)


if __name__ == "__main__":
    sys.exit(main())
