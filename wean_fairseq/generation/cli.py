"""``wean-generate``: rewrite plain text, one output line per input line."""

import argparse
import hashlib
import json
import math
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..checkpoints.export import check_unused
from ..checkpoints.loading import StoredModel
from ..console import SEED, command, command_parser, configure_logging, counted, print_message, whole_number
from ..data.bert_features import model_files
from ..data.typed_text import read_typed_lines
from ..errors import UserError
from ..storage.files import count_lines, sha256_of
from ..storage.search import GENERATION, SEARCH_PRESETS, add_generation_options
from .growing import GrowingFile
from .loading import COMPUTE_TYPE, ENGINES, load
from .model import TextModel
from .outputs import Float32Array, Generated, Output, rounded

_BUFFER = 2000  # number of input lines that are sorted by length together
_EPILOG = """examples:
  wean-generate --model model/ --input sentences.txt --output rewritten.txt
  echo "What's the best way to learn Python?" | wean-generate --model model/ --n-best 3 --scores
  wean-generate --model checkpoints/checkpoint_best.pt --data data-bin --input sentences.txt --jsonl > outputs.jsonl

One output line per input line, in the same order; an empty line stays empty. With --n-best the outputs of a line are
separated by tabs, with --scores each follows its score (base 2, as fairseq prints it). After an interruption, the same
command without --overwrite continues the file.
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    description = "Rewrite plain text with a trained model, or write essays about topics."
    parser = command_parser("wean-generate", description, _EPILOG)
    add = parser.add_argument
    add("--model", required=True, metavar="PATH", help="folder of wean-export, or checkpoint of fairseq-train")
    add("--data", metavar="DIR", help="data directory of a checkpoint's training (default: where it was)")
    add("--text", metavar="DIR", help="output folder of a preprocess/ script (default: recorded in the data)")
    text = "text file, one sentence or topic list per line; - = standard input (default)"
    add("--input", default="-", metavar="FILE", help=text)
    add("--output", default="-", metavar="FILE", help="file to write; - = standard output (default)")
    add("--overwrite", action="store_true", help="replace an older output")
    n_best = whole_number(1)
    add("--n-best", dest="nbest", type=n_best, default=1, metavar="N", help="outputs of each line (default: 1)")
    # fairseq's name of the option, which is also accepted
    add("--nbest", type=n_best, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    add("--scores", action="store_true", help="print a score before each output")
    add("--jsonl", action="store_true", help="JSON lines with scores, tokens, attention, copies and granularities")
    add("--beam", type=whole_number(1), metavar="N", help="beam size, at least --n-best (default: the model's)")
    add("--search-preset", choices=SEARCH_PRESETS, help="search preset (default: saved with the model)")
    add("--seed", type=SEED, default=1, metavar="N", help="random seed of --sampling (default: %(default)s)")
    group = parser.add_argument_group(
        "search", "settings saved with the model, unless given here", argument_default=argparse.SUPPRESS
    )
    add_generation_options(group)
    phrases = "the input has words and phrases that an output must contain, after each line, separated by tabs"
    add("--constraints", nargs="?", const="unordered", choices=("ordered", "unordered"), help=phrases)
    length = "target length in words, for archs that plan an essay by length (default: saved with the model)"
    add("--essay-length", type=whole_number(1), metavar="N", help=length)
    add("--bert", metavar="DIR", help="new path of the BERT model used in training")
    sentences = "sentences at a time (default: %(default)s)"
    add("--batch-size", type=whole_number(1), default=64, metavar="N", help=sentences)
    lines = f"lines to read ahead (default: {_BUFFER}, 1 from a terminal)"
    add("--buffer-size", type=whole_number(1), metavar="N", help=lines)
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--engine", choices=ENGINES, default=ENGINES[0], help="library that searches (default: %(default)s)")
    numbers = "of CTranslate2, such as int8 (default: %(default)s)"
    add("--compute-type", default=COMPUTE_TYPE, metavar="TYPE", help=numbers)
    return parser


def rewrite(args: argparse.Namespace) -> None:
    """Run ``wean-generate`` with the parsed options. Raise ``UserError`` if it cannot be run with these options."""
    if args.input != "-" and not Path(args.input).exists():
        raise UserError(f"there is no file {args.input}: give --input a file of text.")
    check_unused(args.model, data=args.data, text=args.text)
    output = GrowingFile(args.output, _output_options(args), overwrite=args.overwrite, reads=[Path(args.input)])
    try:
        with output:
            _rewrite(args, output)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped{output.prospect}") from None


def _rewrite(args: argparse.Namespace, output: GrowingFile) -> None:
    options = {name: getattr(args, name) for name in ("text", "search_preset", "bert", "engine", "compute_type")}
    _check_output(output, args.model)
    model = load(args.model, args.data, device="cpu" if args.cpu else None, **options)
    task = model.task.cfg
    _check_output(output, *str(task.data).split(":"), model.text.folder, getattr(task, "bert", None))
    generation = _generation_options(args)
    # the sentences of a batch and the batches of a buffer share random numbers
    is_random = (model.search_options | generation).get("sampling") or str(task.search_preset) == "cdnpg-sampling"
    draws = ("--seed", "--buffer-size", "--batch-size") if is_random else ()
    drawn = {name: getattr(args, name.removeprefix("--").replace("-", "_")) for name in draws}
    if output.path is not None:
        output.record_loaded({**_contents(model), **drawn})
    typed = args.input == "-" and sys.stdin is not None and sys.stdin.isatty()
    buffer_size = args.buffer_size or (1 if typed else _BUFFER)
    already_done = output.done
    started = time.monotonic()
    cut: list[int] = []
    with tqdm(total=_count(args.input), desc="wean-generate", unit=" lines", disable=None, initial=already_done) as bar:
        for lines in output.remaining(read_typed_lines(args.input, buffer_size)):
            first = output.done + 1
            sources, *forced = zip(*(_split(line) for line in lines), strict=True) if args.constraints else (lines,)
            results = model.explain(
                sources,
                args.nbest,
                constraints=forced[0] if forced else None,
                ordered=args.constraints == "ordered",
                beam=args.beam,
                seed=args.seed,
                essay_length=args.essay_length,
                batch_size=args.batch_size,
                details=args.jsonl,
                cut=True,
                first=first,
                **generation,
            )
            output.write(lines, [_line(args, number, item) for number, item in enumerate(results, first)])
            cut += [number for number, item in enumerate(results, first) if item.cut]
            bar.update(len(lines))
    number, seconds = output.done - already_done, time.monotonic() - started
    rate = f" ({number / seconds:,.1f} a second)" if seconds > 0 else ""
    if args.constraints:
        generation["constraints"] = args.constraints
    searched = model.describe_search(args.nbest, args.beam, **generation)
    lines_done = counted(number, "line")
    print_message("wean-generate", f"{lines_done} in {seconds:,.1f} s{rate}; search: {searched}")
    if cut:
        print_message(
            "wean-generate",
            f"lines cut to the {model.longest:,} words that the model reads: {len(cut):,}, first line {cut[0]:,}",
        )


def _check_output(output: GrowingFile, *places: str | Path | None) -> None:
    """Refuse an output path that is one of the input files or is inside one of the input folders."""
    for place in (Path(place) for place in places if place):
        # If standard output is a file, either the shell has just created it, or the user appends to it.
        if output.path is not None:
            output.check_reads(sorted(place.iterdir()) if place.is_dir() else [place])


def _generation_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the generation options given on the command line."""
    return {name: value for name, value in vars(args).items() if name in GENERATION}


def _output_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return all options that affect the outputs, in JSON types."""
    names = ["nbest", "scores", "jsonl", "beam", "search_preset", "essay_length", "bert", "data", "text"]
    names += ["engine", "compute_type", *["constraints"] * bool(args.constraints)]
    stored = StoredModel(args.model)
    options = {name: getattr(args, name) for name in names}
    generation = _generation_options(args)
    # JSON cannot represent infinity or NaN.
    exact = {name: value if -math.inf < value < math.inf else str(value) for name, value in generation.items()}
    return {"model": stored.identity, "search": stored.search, **options, **exact}


def _contents(model: TextModel) -> dict[str, str]:
    """Return hashes of the text steps, BERT, the dictionaries and the search, all of which the outputs depend on."""
    task = model.task
    bert = getattr(task.cfg, "bert", None)
    files = {
        "the text steps": model.text.files,
        "--bert": model_files(Path(bert), "--bert", any_tokenizer=True) if bert else [],
    }
    words = [*task.source_dictionary.symbols, *task.target_dictionary.symbols]
    contents = {name: [sha256_of(path) for path in paths] for name, paths in files.items()}
    contents["the text steps"].append(str(model.text.settings))
    contents |= {"the dictionaries": words, "the search": [str(sorted(model.search_options.items()))]}
    return {name: hashlib.sha256("\n".join(parts).encode()).hexdigest() for name, parts in contents.items()}


def _split(line: str) -> tuple[str, list[str]]:
    """Split a line of the input into the text and its constraints."""
    source, *constraints = line.split("\t")
    return source, constraints


def _count(given: str) -> int | None:
    """Return the number of lines of a file, or ``None`` for a stream or a file that cannot be counted."""
    with suppress(OSError):
        return count_lines(given)
    return None


def _line(args: argparse.Namespace, number: int, generated: Generated) -> str:
    if args.jsonl:
        entry = {"line": number, "source": generated.source, "known": generated.known, **_granularity(generated)}
        entry["outputs"] = [_output(output) for output in generated.outputs]
        return json.dumps(entry, ensure_ascii=False, allow_nan=False)
    cells = [[f"{output.score:.4f}"] * args.scores + [output.text] for output in generated.outputs]
    return "\t".join(text for cell in cells for text in cell)


def _output(output: Output) -> dict[str, Any]:
    arrays = {name: getattr(output, name) for name in ("probabilities", "attention", "copied", "copied_from")}
    entry = {"text": output.text, "score": round(output.score, 4), "tokens": output.tokens}
    entry |= {name: _to_list(values) for name, values in arrays.items() if values is not None}
    return entry | _granularity(output)


def _granularity(described: Generated | Output) -> dict[str, Any]:
    layers = {layer: _to_list(z) for layer, z in described.granularity.items()}
    return {"granularity": layers} if layers else {}


def _to_list(values: Float32Array) -> list[Any]:
    if values.ndim > 1:
        return [_to_list(row) for row in values]
    return [rounded(value) for value in values.tolist()]


@command("wean-generate")
def main(arguments: Sequence[str]) -> None:
    """Run the command line."""
    args = build_parser().parse_args(arguments)
    configure_logging("wean-generate")
    rewrite(args)
