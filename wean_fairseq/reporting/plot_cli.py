"""``wean-plot``: draw the papers' figures from a checkpoint and text, dumps of ``fairseq-generate`` or logs."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..console import command, command_parser, configure_logging, split_names, whole_number
from ..errors import UserError, printable
from ..evaluation import granularity as granularities
from ..evaluation.system_arguments import paths_of
from ..evaluation.tables import Table
from ..evaluation.text_files import check_outputs, read_lines, write_atomically
from ..evaluation.training_log import TrainingLog, read_log
from . import figures
from .dumps import kind_of_dump, read_provenance
from .style import write_figure

_EXAMPLES = """examples:
  wean-plot curves WEAN=wean/train.log Seq2seq=seq2seq/train.log --output curves
  wean-plot attention --checkpoint checkpoint_best.pt --data RUN/bin --text sentences.txt --output attention
  wean-plot granularity --dump z.jsonl --output z             (of fairseq-generate --granularity-dump z.jsonl)
  wean-plot provenance --dump copied.jsonl --lines 1 5 --output copied      (of --copy-provenance copied.jsonl)
  wean-plot coverage --checkpoint mta/checkpoint_best.pt --data RUN/bin --text topics.txt --output coverage
  wean-plot layers checkpoint_best.pt --output layers
  wean-plot neighbours quickly build --checkpoint checkpoint_best.pt --dict RUN/bin/dict.src.txt --output near

Every figure is written as OUTPUT.png and OUTPUT.svg, and the numbers of curves, granularity (means of function and
content words, over the whole dump or the sentences drawn), layers and neighbours as OUTPUT.tsv. Text is what a
checkpoint was trained on: tokenised, in its pieces. For a folder of wean-export it is plain text.
"""
#: Maps each figure that is drawn from a dump of fairseq-generate to the option that writes the dump.
_DUMPS = {"granularity": "--granularity-dump", "provenance": "--copy-provenance"}
_WITH_TABLE = ("curves", "granularity", "layers", "neighbours")
_CHECKPOINT = "checkpoint of fairseq-train, or folder of wean-export"


class Drawing(NamedTuple):
    """A figure, the numbers that it shows, and notes on it.

    Attributes:
        draw: function that returns a matplotlib figure.
        table: numbers that are written to a file, or None.
        notes: lines to print.
    """

    draw: Callable[[], Any]
    table: Table | None = None
    notes: Sequence[str] = ()


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    description = (
        "Draw curves, attention, granularities, copying, topic coverage, BERT's layers or neighbours of words."
    )
    parser = command_parser("wean-plot", description, _EXAMPLES)
    commands = parser.add_subparsers(dest="figure", required=True, metavar="FIGURE")
    logged = commands.add_parser("curves", help="validation curves of trainings")
    logged.set_defaults(read=_curves)
    logged.add_argument("logs", nargs="+", metavar="NAME=LOG", help="fairseq-train's --log-file of each system")
    logged.add_argument("--metric", nargs="+", default=["bleu"], help="logged values to draw (default: bleu)")
    logged.add_argument("--subset", default="valid", help="validation subset (default: valid)")
    logged.add_argument("--training", action="store_true", help="draw the training's own values as a thin line, too")
    _add_sentence_figures(commands)
    layers = commands.add_parser("layers", help="which layers of BERT each decoder layer reads (PC-SAN)")
    layers.set_defaults(read=_layers)
    layers.add_argument("checkpoint", help=_CHECKPOINT)
    near = commands.add_parser("neighbours", help="nearest neighbours of words in the embedding (WEAN)")
    near.set_defaults(read=_neighbours)
    add = near.add_argument
    add("words", nargs="+", metavar="WORD", help="words of the dictionary")
    add("--checkpoint", required=True, metavar="FILE", help=_CHECKPOINT)
    dictionary = "dictionary of the checkpoint, dict.src.txt"
    add("--dict", required=True, dest="dictionary", metavar="FILE", help=dictionary)
    add("--embedding", metavar="NAME", help="which matrix of the checkpoint (default: the encoder's)")
    add("--number", type=whole_number(1), default=5, help="neighbours per word (default: %(default)s)")
    add("--synonyms", metavar="FILE", help="file with one set of synonyms per line: count those that are neighbours")
    for name, figure in commands.choices.items():
        files = "STEM.png, STEM.svg and STEM.tsv" if name in _WITH_TABLE else "STEM.png and STEM.svg"
        figure.add_argument("--output", required=True, metavar="STEM", help=f"writes {files}")
        figure.add_argument("--overwrite", action="store_true", help="replace older files")
    return parser


def _add_sentence_figures(commands: Any) -> None:
    """Add the commands for figures about single sentences."""
    helps = {
        "attention": "attention of each output word to the source",
        "granularity": "z of each word in every layer (C-DNPG)",
        "provenance": "which words were copied, and from where",
        "coverage": "remaining coverage of each topic during generation (MTA-LSTM, SC-LSTM)",
    }
    spread = "number of sentences to draw if --lines is not given, spread evenly (default: 4)"
    for name, text in helps.items():
        command = commands.add_parser(name, help=text, description=f"Draw {text}.")
        command.set_defaults(read=_sentences, dump=None, bert=None, essay_length=None)
        add = command.add_argument
        if name in _DUMPS:
            add("--dump", metavar="FILE", help="dump of fairseq-generate, instead of a checkpoint")
        add("--checkpoint", metavar="FILE", help=_CHECKPOINT)
        add("--data", metavar="DIR", help="a checkpoint's data directory, with the dictionaries")
        add("--text", metavar="FILE", help="file with one sentence or topic list per line; - = standard input")
        add("--lines", nargs="+", type=whole_number(1), metavar="N", help="numbers of the sentences to draw, from 1")
        add("--number", type=whole_number(1), default=4, help=spread)
        add("--beam", type=whole_number(1), help="beam size (default: saved with the model)")
        if name == "coverage":
            add("--essay-length", type=whole_number(1), help="words to plan for, for archs that need it")
            add("--bert", metavar="DIR", help="new path of the BERT model used in training")


def _curves(args: argparse.Namespace) -> Drawing:
    histories = [read_history(name, path, args.subset) for name, path in split_names(args.logs, "", "LOG")]
    check_metrics(histories, args.metric)
    notes = [figures.summarise(history, metric) for metric in args.metric for history in histories]
    draw = partial(figures.draw_curves, histories, args.metric, training=args.training)
    return Drawing(draw, figures.validation_table(histories, args.metric), notes)


def read_history(name: str, path: str, subset: str = "valid") -> TrainingLog:
    """Read a log of fairseq-train that contains a validation.

    Raises:
        UserError: if there is no such file, or it contains no validation of ``subset``.
    """
    history = read_log(path, name, subset)
    if not history.valid:
        raise UserError(
            f"{path} holds no validation of the subset {subset!r}; wait for the first one, "
            "or give the --log-file of fairseq-train."
        )
    return history


def check_metrics(histories: list[TrainingLog], metrics: Sequence[str]) -> None:
    """Check that every log contains the metrics.

    Raises:
        UserError: if a log lacks a metric. The message names the log and its metrics.
    """
    for history in histories:
        logged = sorted({key for point in history.valid for key in point.values})
        for metric in metrics:
            if metric not in logged:
                raise UserError(f"{history.path} logs no {metric!r} at validation; it has {', '.join(logged)}.")


def _layers(args: argparse.Namespace) -> Drawing:
    from ..evaluation import layer_mixture  # noqa: PLC0415 - needs torch

    weights = layer_mixture.load_mixture(args.checkpoint)
    return Drawing(partial(figures.layer_weights, weights.tolist()), layer_mixture.mixture_table(weights))


def _neighbours(args: argparse.Namespace) -> Drawing:
    from ..evaluation import neighbours  # noqa: PLC0415 - needs torch

    near = neighbours.load_embedding(args.checkpoint, args.dictionary, args.embedding or neighbours.EMBEDDING)
    nearest = near.look_up(args.words, args.number)
    rows = [[word, other, f"{cosine:.4f}"] for word, others in nearest for other, cosine in others]
    table = Table(["word", "neighbour", "cosine"], rows)
    width = max(map(len, args.words))
    notes = [
        "  ".join([f"{word:<{width}}", *(f"{n} {cosine:.2f}" for n, cosine in others)]) for word, others in nearest
    ]
    if args.synonyms:
        sets = [set(line.split()) for line in read_lines(args.synonyms)]
        hits, asked = near.synonyms_found(sets, args.number)
        chance, _ = neighbours.chance_baseline(near.words, sets, args.number)
        notes.append(
            f"{hits} of {asked} words with synonyms have one of them among their {args.number} nearest neighbours "
            f"({chance} in a random embedding)"
        )
    return Drawing(partial(figures.neighbours, nearest), table, notes)


def _sentences(args: argparse.Namespace) -> Drawing:
    """Draw sentences from a dump of fairseq-generate, or sentences decoded by a checkpoint."""
    dumped = _read_dump(args) if args.dump else {}
    sentences = [*dumped.values()] if args.dump else _trace(args)
    shown = _select_lines(args, dumped) if args.dump else sentences
    table = granularities.layer_table(sentences) if args.figure == "granularity" else None
    return Drawing(partial(getattr(figures, args.figure), shown), table)


def _read_dump(args: argparse.Namespace) -> dict[int, Any]:
    """Return the sentences of a dump by their numbers, from 1."""
    if any(vars(args).get(name) for name in ("checkpoint", "data", "text", "beam", "essay_length", "bert")):
        raise UserError("give either --dump, or --checkpoint with its options and --text, not both.")
    if kind_of_dump(args.dump) not in (args.figure, ""):  # the reader says why a file is no dump at all
        raise UserError(f"{args.dump} is not what {_DUMPS[args.figure]} writes, so there is no {args.figure} to draw.")
    if args.figure == "granularity":
        return {sentence.number: sentence for sentence in granularities.read_dump(args.dump)}
    return {place + 1: sentence for place, sentence in read_provenance(args.dump).items()}


def _trace(args: argparse.Namespace) -> list[Any]:
    """Call the function of the module ``trace`` for the figure, with the checkpoint and the chosen lines.

    Raises:
        UserError: if an option is missing, a line cannot be read, or the model does not support the figure.
    """
    from ..data.typed_text import read_typed_lines  # noqa: PLC0415 - needs torch
    from . import trace  # noqa: PLC0415 - needs torch

    if not (args.checkpoint and args.text and (args.data or trace.is_export(args.checkpoint))):
        raise UserError(f"{args.figure} needs --checkpoint FILE, --data DIR and --text FILE.")
    lines = next(read_typed_lines("-", sys.maxsize), []) if args.text == "-" else read_lines(args.text)
    numbered = _select_lines(args, {number: (number, line) for number, line in enumerate(lines, start=1)})
    lines = [line for _, line in numbered]
    model = trace.open_model(args.checkpoint, args.data, bert=args.bert or None)
    trace_figure = getattr(trace, f"trace_{args.figure}")
    sentences: list[Any] = trace_figure(model, lines, beam=args.beam, essay_length=args.essay_length)
    if args.figure == "granularity":
        return [sentence._replace(number=number) for (number, _), sentence in zip(numbered, sentences, strict=True)]
    return sentences


def _select_lines(args: argparse.Namespace, items: Mapping[int, Any]) -> list[Any]:
    """Return the items whose numbers are in ``--lines`` or, without this option, evenly spread items."""
    if not args.lines:
        return granularities.spread([*items.values()], args.number)
    absent = [number for number in args.lines if number not in items]
    if absent:
        known = f"there are only {len(items)} sentences, with numbers up to {max(items, default=0)}"
        raise UserError(f"--lines {absent[0]}: {known}; give one of these.")
    return [items[number] for number in args.lines]


def plot(args: argparse.Namespace) -> str:
    """Draw a figure, and return its notes and the written files, one per line.

    Raises:
        UserError: if a file cannot be read or written, or the figure cannot be drawn.
    """
    stem = Path(re.sub(r"\.(png|svg|tsv)$", "", args.output))
    is_device = stem.exists() and not (stem.is_file() or stem.is_dir())
    if is_device or args.output.endswith("/") or not stem.name.strip("."):
        raise UserError(f"--output {args.output} is not the beginning of a file name: give one such as curves.")
    inputs = [getattr(args, name, None) for name in ("checkpoint", "dictionary", "dump", "synonyms", "text")]
    inputs += paths_of(getattr(args, "logs", ()))
    kinds = ("png", "svg", *(["tsv"] if args.figure in _WITH_TABLE else []))
    outputs = {f"the {kind} of --output:": f"{stem}.{kind}" for kind in kinds}
    check_outputs(outputs, inputs, overwrite=args.overwrite)
    figure: Drawing = args.read(args)
    paths = write_figure(figure.draw, stem)
    if figure.table:
        paths.append(Path(f"{stem}.tsv"))
        write_atomically(paths[-1], figure.table.as_tsv())
    return "".join(f"{printable(str(line))}\n" for line in [*figure.notes, *paths])


@command("wean-plot")
def main(arguments: Sequence[str]) -> str:
    """Run the command line."""
    args = build_parser().parse_args(arguments)
    configure_logging("wean-plot")
    return plot(args)


if __name__ == "__main__":
    sys.exit(main())
