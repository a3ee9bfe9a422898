"""``wean-evaluate``: score the output files of any system."""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pkgutil import resolve_name
from typing import Any

from .. import __version__
from ..console import LARGEST_SEED, check_name, command, command_parser, number, whole_number
from ..errors import UserError
from ..ranges import flag
from .corpus import lead_rows, read_corpus
from .evaluate import Resampling, evaluate
from .metrics.bleu import IBleu
from .metrics.embeddings import BertScore, Similarity
from .metrics.method7 import Method7IBleu
from .metrics.registry import METRICS, MetricSettings
from .presets import METRIC_PRESETS, STANDARD, MetricColumn, columns_for
from .report import render_all
from .score_file import Evaluation
from .system_arguments import SEVERAL, add_system_arguments, paths_of, read_systems
from .text_files import check_outputs, write_atomically
from .tokenizers import TEXT_TOKENIZERS, guess_tokenization

OUTPUT_FORMATS = ("text", "markdown", "csv", "latex", "json")

_EXAMPLES = """examples:
  wean-evaluate --hyp WEAN=out.txt --ref test.tgt --src test.src
  wean-evaluate --generated WEAN=gen.log --ref test.tgt --src test.src --preset paper:wean-pwkp --json scores.json
  wean-evaluate --hyp A=a.txt B=b.txt --ref turk.0 turk.1 turk.2 --src norm --metric sari bleu
  wean-evaluate --hyp A=a.1 A=a.2 A=a.3 B=b.1 B=b.2 B=b.3 --ref test.tgt         several runs of each system
  wean-evaluate --json all.json --set pwkp --hyp A=p.txt --ref p.tgt --set turk --hyp A=t.txt --ref t.tgt

other commands (each with --help):
  wean-evaluate sheet      blinded rating sheets for human raters
  wean-evaluate ratings    analyse the filled-in sheets
  wean-evaluate record     keep a measured evaluation in results/
  wean-evaluate tables     write the tables in documents from results/
  wean-evaluate rerank     choose search and entry of n-best lists on a tuning set
  wean-evaluate paper-tables   the papers' tables, published numbers next to ours
  wean-evaluate parameters     parameters of the output layer, counted: WEAN's Table 5
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of ``wean-evaluate`` without a subcommand, which scores outputs."""
    description = "Score system outputs against raw reference text, with signatures, intervals and paired tests."
    metrics = "".join(f"  {name:20} {entry.help}\n" for name, entry in METRICS.items())
    parser = command_parser("wean-evaluate", description, f"{_EXAMPLES}\nmetrics:\n{metrics}")
    parser.add_argument("--version", action="version", version=f"wean-evaluate {__version__}")
    files = parser.add_argument_group("files")
    add = files.add_argument
    add("--set", metavar="NAME", help="start test set NAME; options before the first --set apply to all sets")
    add_system_arguments(files)
    add("--ref", metavar="FILE", help="raw reference text", **SEVERAL)
    add("--src", metavar="FILE", help="raw source text: adds the copy-the-source row and source metrics")
    add("--topics", metavar="FILE", help="topic words instead of --src, without the copy-the-source row")
    add("--groups", metavar="FILE", help="file with one group name per line: also score each group by itself")
    _add_metric_options(parser)
    add = parser.add_argument_group("resampling").add_argument
    counts = whole_number(0, 1_000_000)
    resamples = "bootstrap resamples, 0 = neither intervals nor tests (default: %(default)s)"
    add("--resamples", type=counts, default=Resampling.resamples, help=resamples)
    trials = "randomisation trials, 0 = no tests (default: %(default)s)"
    add("--trials", type=counts, default=Resampling.trials, help=trials)
    seed = "seed of resamples and trials (default: %(default)s)"
    add("--seed", type=whole_number(0, LARGEST_SEED), default=Resampling.seed, help=seed)
    add("--all-pairs", action="store_true", help="compare all pairs of systems, not only with the first")
    correction = "correct p-values for the number of systems compared with the same one"
    add("--correction", choices=["holm"], help=correction)
    add = parser.add_argument_group("output").add_argument
    add("--format", choices=OUTPUT_FORMATS, default="text", help="output format: %(choices)s (default: %(default)s)")
    add("--intervals", action="store_true", help="print 95%% intervals in the table")
    add("--json", metavar="OUT", help="write scores, tests and data hashes")
    add("--markdown", metavar="OUT", help="write the table for a document")
    add("--overwrite", action="store_true", help="replace older files of --json and --markdown")
    add("--sentences", action="store_true", help="put one score per sentence into the JSON")
    add("--quiet", action="store_true", help="no progress bar")
    add("--decoded", action="store_true", help=argparse.SUPPRESS)  # by wean-train or a recipe, which ends with scores
    return parser


def _add_metric_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose and configure metrics to the parser."""
    add = parser.add_argument_group("what to compute").add_argument
    add("--preset", metavar="P", help=f"{STANDARD} (default), {', '.join(METRIC_PRESETS)}", **SEVERAL)
    add("--metric", metavar="M", help="single metrics, see below", **SEVERAL)
    tokenize = "tokenisation of standard metrics (default: 13a, or by the script)"
    add("--tokenize", choices=TEXT_TOKENIZERS, help=tokenize)
    add("--lowercase", action="store_true", help="ignore case in standard BLEU")
    add("--alpha", type=_share, default=0.9, help="weight of the reference in iBLEU (default: %(default)s)")
    add("--bert-model", metavar="FOLDER", help="folder of a local transformers model, for bertscore")
    layer = "layer of --bert-model for bertscore, 0 = embeddings (default: last)"
    add("--bert-layer", metavar="N", type=whole_number(-1000, 1000), default=-1, help=layer)
    encoder = "folder of a local sentence encoder with mean pooling, for similarity"
    add("--sentence-model", metavar="FOLDER", help=encoder)
    lead = "adds a row lead-N for each N: the first N words of the source (text in Chinese: characters)"
    add("--lead", metavar="N", type=whole_number(1), help=lead, **SEVERAL)


def _share(text: str) -> float:
    if not 0.0 <= number(text) <= 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return number(text)


def score(args: argparse.Namespace) -> Evaluation:
    """Score the systems of one test set, as the parsed options request."""
    if args.src and args.topics:
        raise UserError("--topics are the sources of essays, and --src of other texts: give one of them.")
    corpus = read_corpus(args.ref, args.src or args.topics, args.groups, copyable=args.topics is None)
    systems = read_systems(args, corpus.sources)
    tokenize = args.tokenize or guess_tokenization(corpus.references[0])
    models = {"bert_model": args.bert_model, "bert_layer": args.bert_layer, "sentence_model": args.sentence_model}
    settings = MetricSettings(tokenize, args.lowercase, args.alpha, **models)
    presets = args.preset or ([] if args.metric else [STANDARD])
    columns = columns_for(presets, args.metric, settings)
    _check_used(settings, columns, args.common)
    for column in columns:
        if column.key in args.metric and column.metric.needs_source and corpus.sources is None:
            raise UserError(f"--metric {column.key} compares with the source; give it with --src.")
    resampling = Resampling(args.resamples, args.trials, args.seed, args.all_pairs, args.correction)
    leads = lead_rows(corpus.sources, args.lead, by_characters=tokenize in ("zh", "char"))
    evaluation = evaluate(systems, corpus, columns, resampling, quiet=args.quiet, leads=leads, are_outputs=args.decoded)
    if args.tokenize is None and tokenize != "13a":
        evaluation.data.warnings.append(
            f"the references are Chinese: standard metrics use --tokenize {tokenize}; choose another if it is wrong."
        )
    return evaluation


def _check_used(settings: MetricSettings, columns: Sequence[MetricColumn], common: Mapping[str, Any]) -> None:
    """Refuse an option of single metrics if none of them is computed.

    ``common`` has the options of all test sets, which another set may use.
    """
    of_bert = [column for column in columns if isinstance(column.metric, BertScore)]
    uses = {
        "alpha": any(
            isinstance(column.metric, IBleu | Method7IBleu) and column.metric.alpha == settings.alpha
            for column in columns
        ),
        "bert_model": of_bert,
        "bert_layer": of_bert,
        "sentence_model": any(isinstance(column.metric, Similarity) for column in columns),
    }
    for name, used in uses.items():
        if not used and getattr(settings, name) not in (getattr(MetricSettings(), name), common.get(name)):
            raise UserError(f"{flag(name)} has no effect on the chosen metrics: leave it out, or add --metric.")


def split_sets(arguments: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Split a command line at each ``--set NAME`` into the common arguments and the arguments of each test set."""
    common: list[str] = []
    sets: dict[str, list[str]] = {}
    own, rest = common, iter(arguments)
    for argument in rest:
        if argument != "--set":
            own.append(argument)
            continue
        name = next(rest, "")
        if not name or name.startswith("-") or name in sets:
            raise UserError(f"--set {name}: give every test set its own name, as in --set turk.")
        check_name(name, "--set")
        own = sets[name] = []
    return common, sets


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, dict[str, argparse.Namespace]]:
    """Return the output options, and the options of each test set by its name."""
    parser = build_parser()
    common, sets = split_sets(arguments)
    shared = parser.parse_args(common)
    shared.common = {}
    if not sets:
        return shared, {"": shared}
    # The options of a set replace or extend the options of all sets.
    parser.set_defaults(**vars(shared))
    parsed = {name: parser.parse_args(own) for name, own in sets.items()}
    for name, args in parsed.items():
        args.common = vars(shared)
        for option in ("json", "markdown", "overwrite", "format", "sentences", "intervals"):
            if getattr(args, option) != getattr(shared, option):
                raise UserError(f"--{option} is for all test sets; give it before --set {name}.")
    return shared, parsed


def score_command(arguments: list[str]) -> str:
    """Score all test sets, write the requested files, and return the text to print."""
    shared, sets = parse(arguments)
    inputs = []
    for args in sets.values():
        inputs += [*args.ref, *paths_of([*args.hyp, *args.generated])]
        inputs += [args.src, args.topics, args.groups, args.oov_source]
    if shared.intervals and not any(args.resamples for args in sets.values()):
        raise UserError("--intervals needs resamples: leave out --intervals or --resamples 0.")
    compared = [args for args in sets.values() if args.all_pairs or args.correction]
    if compared and not any(args.resamples and args.trials for args in compared):
        raise UserError("--all-pairs and --correction need tests: leave out these or --resamples 0 and --trials 0.")
    if shared.sentences and not shared.json and shared.format != "json":
        raise UserError("--sentences is for JSON: add --json OUT or --format json, or leave it out.")
    check_outputs({"--json": shared.json, "--markdown": shared.markdown}, inputs, overwrite=shared.overwrite)
    evaluations = {}
    for name, args in sets.items():
        try:
            evaluations[name] = score(args)
        except UserError as error:
            raise UserError(f"--set {name}: {error}" if name else str(error)) from None
    write = partial(render_all, evaluations=evaluations, intervals=shared.intervals, sentences=shared.sentences)
    for form, path in (("json", shared.json), ("markdown", shared.markdown)):
        if path:
            write_atomically(path, write(form))
    return write(shared.format)


#: Names of the subcommands, and the functions that run them. A function is imported only when its subcommand is called.
#: If the command line names no subcommand, ``score`` is used.
COMMANDS = {
    "score": "cli:score_command",
    "sheet": "human.cli:sheet_command",
    "ratings": "human.cli:ratings_command",
    "record": "results:record_command",
    "tables": "result_tables:tables_command",
    "rerank": "rerank:rerank_command",
    "paper-tables": "paper_tables:paper_tables_command",
    "parameters": "parameters:parameters_command",
}


@command("wean-evaluate")
def main(arguments: list[str]) -> str | int | None:
    """Run ``wean-evaluate`` with the subcommand that the first argument names, or score."""
    name = arguments.pop(0) if arguments and arguments[0] in COMMANDS else "score"
    result: str | int | None = resolve_name(f"{__package__}.{COMMANDS[name]}")(arguments)
    return result
