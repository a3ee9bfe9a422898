"""Re-rank n-best lists with a tuning set, as NTS does (Nisioi et al., ACL 2017, section 2).

A system generates its outputs several times with different search options, for example with beams of 5 and 12. Each of
these searches returns the few best hypotheses of every sentence (``fairseq-generate --nbest``). The re-ranking chooses
one search and one rank for the whole data set, namely the pair with the highest score on the *tuning* set. On the test
set, the same pair selects the hypotheses. The command accepts no reference of the test set, and never reads the T-
lines (targets) of a log.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from msgspec import Struct, to_builtins

from ..console import command_parser, counted, split_names, whole_number
from ..errors import UserError
from .alignment import first_difference
from .corpus import Corpus, check_systems, describe_file, read_corpus
from .metrics.base import EvaluationMetric
from .metrics.registry import MetricSettings, build_metric
from .output_reader import SystemOutput
from .plausibility import CHECKS, check_equal_outputs, empty_warnings, find_oddities, plausibility_warnings
from .score_file import format_score
from .system_arguments import SEVERAL, add_reading_arguments, paths_of, read_output_log
from .tables import Table
from .text_files import check_outputs, read_lines, sha256_as_read, write_atomically
from .tokenizers import TEXT_TOKENIZERS, guess_tokenization

_EXAMPLE = """example, after fairseq-generate with --nbest 2 on the tuning and the test set, with two beams each:
  wean-evaluate rerank --tune 5=tune.5.log 12=tune.12.log --test 5=test.5.log 12=test.12.log \\
      --ref tune.turk.* --src tune.norm --metric sari --output test.sari.txt

The order of --tune is the order of preference between equal scores: give the default search first.
"""


class Candidate(Struct, frozen=True):
    """A candidate of the re-ranking: one search, and one rank of its hypotheses.

    Attributes:
        search: name of the search, for example its beam size.
        rank: rank of the hypothesis that is used for every sentence, from 1.
        score: score on the tuning set.
        short: number of sentences with fewer hypotheses than ``rank``. For these sentences, the last hypothesis is
            used.
    """

    search: str
    rank: int
    score: float
    short: int


def hypotheses_at_rank(system: SystemOutput, rank: int) -> list[str]:
    """Return hypothesis number ``rank`` (from 1) of every sentence, or the last hypothesis if there are fewer."""
    return [entries[min(rank, len(entries)) - 1] for entries in system.nbest]


def score_candidates(
    searches: Sequence[SystemOutput], ranks: int, corpus: Corpus, metric: EvaluationMetric
) -> list[Candidate]:
    """Score every rank of every search on the tuning set. The candidates are sorted by search, then by rank.

    Raises:
        UserError: if a search does not match the references, or its n-best lists are too short.
    """
    check_systems(searches, corpus)
    for search in searches:
        check_depth(search, ranks)
    metric.sources = corpus.sources
    metric.prepare(corpus.references)
    candidates = []
    for search, rank in product(searches, range(1, ranks + 1)):
        score = metric.score_of(metric.rows(hypotheses_at_rank(search, rank)).sum(axis=0))
        short = sum(len(entries) < rank for entries in search.nbest)
        candidates.append(Candidate(search.name, rank, score, short))
    return candidates


def check_depth(search: SystemOutput, ranks: int) -> None:
    """Raise UserError if all n-best lists of a log have fewer than ``ranks`` hypotheses."""
    deepest = max(len(entries) for entries in search.nbest)
    if deepest < ranks:
        raise UserError(
            f"{search.path} has at most {deepest} hypotheses of a sentence but --ranks is {ranks}; "
            f"run fairseq-generate again with --nbest {ranks}, or lower --ranks."
        )


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of ``wean-evaluate rerank``."""
    description = "Choose on a tuning set which search, and which entry of its n-best lists, to take on a test set."
    parser = command_parser("wean-evaluate rerank", description, _EXAMPLE)
    files = parser.add_argument_group("files")
    add = files.add_argument
    tune = "outputs of fairseq-generate on the tuning set, one log per search"
    add("--tune", help=tune, metavar="NAME=LOG", **SEVERAL)
    test = "outputs of the same searches on the test set, by the same names"
    add("--test", help=test, metavar="NAME=LOG", **SEVERAL)
    add("--ref", metavar="FILE", help="tuning references", **SEVERAL)
    add("--src", metavar="FILE", help="source of the tuning set (needed by sari and others)")
    add("--oov-source", metavar="FILE", help="tokenised tuning source, to put <oov-k> words back")
    add("--test-oov-source", metavar="FILE", help="tokenised test source, to put <oov-k> words back")
    add_reading_arguments(files)
    add = parser.add_argument_group("choice").add_argument
    add("--metric", default="bleu", metavar="M", help="bleu, sari, ... (default: %(default)s)")
    add("--ranks", type=whole_number(1), default=2, metavar="K", help="hypotheses to look at (default: %(default)s)")
    add("--tokenize", choices=TEXT_TOKENIZERS, help="tokenisation (default: 13a, or by the script)")
    add("--lowercase", action="store_true", help="ignore case in BLEU")
    add = parser.add_argument_group("output").add_argument
    add("--output", metavar="OUT", help="write the chosen hypotheses of the test set, one per line")
    add("--json", metavar="OUT", help="write all scores, the choice and data hashes")
    add("--overwrite", action="store_true", help="replace older files")
    return parser


def rerank_command(argv: list[str]) -> str:
    """Run ``wean-evaluate rerank``."""
    args = build_parser().parse_args(argv)
    if not args.tune:
        raise UserError("no search to choose from; give the logs of the tuning set with --tune NAME=LOG.")
    if bool(args.test) != bool(args.output):
        option, other = ("--test", "--output") if args.test else ("--output", "--test")
        raise UserError(f"{option} without {other}; give both, or neither to see the scores alone.")
    inputs = [*paths_of([*args.tune, *args.test]), *args.ref, args.src, args.oov_source, args.test_oov_source]
    check_outputs({"--output": args.output, "--json": args.json}, inputs, overwrite=args.overwrite)
    corpus = read_corpus(args.ref, args.src)
    tokenize = args.tokenize or guess_tokenization(corpus.references[0])
    metric = build_quality_metric(args.metric, MetricSettings(tokenize, args.lowercase), corpus)
    tuning = read_searches(args, "--tune", args.tune, args.oov_source or args.src)
    test = read_searches(args, "--test", args.test, args.test_oov_source)
    check_same_searches(tuning, test, args.ranks)
    candidates = score_candidates(tuning, args.ranks, corpus, metric)
    # if several scores are equal, max() returns the first candidate
    choice = max(candidates, key=lambda candidate: candidate.score)
    signature = metric.get_signature().format()
    lines = [f"tuning set: {counted(len(corpus), 'sentence')}, {counted(len(corpus.references), 'reference')}", ""]
    lines += [candidate_table(candidates, choice, metric.label).as_text(), "", f"{args.metric}: {signature}"]
    for option, searches, texts in (("--tune", tuning, corpus), ("--test", test, Corpus([]))):
        lines += [f"warning: {option} {text}" for text in check_searches(option, searches, texts, signature)]
    tuned_on = {Path(system.path).resolve() for system in tuning}
    for path in (system.path for system in test if Path(system.path).resolve() in tuned_on):
        lines.append(f"warning: {path} is a log of --tune and of --test; give logs of two sets.")
    for system in (system for system in test if system.name == choice.search):
        write_atomically(args.output, "".join(f"{text}\n" for text in hypotheses_at_rank(system, choice.rank)))
        lines.append(f"{args.output}: {len(system.nbest)} lines, hypothesis {choice.rank} of {system.path}")
        if short := sum(len(hypotheses) < choice.rank for hypotheses in system.nbest):
            lines.append(
                f"warning: {system.path} has fewer than {choice.rank} hypotheses for {counted(short, 'sentence')}: the "
                "last one is written."
            )
    if args.json:
        logs = [{"search": system.name, **describe_file(system.path, len(system.nbest))} for system in [*tuning, *test]]
        content = {
            "metric": args.metric,
            "signature": signature,
            "candidates": to_builtins(candidates),
            "chosen": {"search": choice.search, "rank": choice.rank},
            "data": {"sentences": len(corpus), "references": len(corpus.references), **corpus.files, "logs": logs},
        }
        write_atomically(args.json, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return "\n".join(lines) + "\n"


def build_quality_metric(name: str, settings: MetricSettings, corpus: Corpus) -> EvaluationMetric:
    """Build the metric that decides which candidate is the best.

    It must score one hypothesis per sentence, and higher scores must be better.
    """
    metric = build_metric(name, settings)
    if metric.direction != "higher" or metric.wants_nbest > 1:
        raise UserError(
            f"--metric {name} cannot choose a search; give a metric of one hypothesis whose higher scores are better, "
            "such as bleu or sari."
        )
    if metric.needs_source and corpus.sources is None:
        raise UserError(f"--metric {name} compares with the source; give that of the tuning set with --src.")
    return metric


def read_searches(
    args: argparse.Namespace, option: str, logs: Sequence[str], oov_source: str | None
) -> list[SystemOutput]:
    """Read the logs that are the arguments of the option ``option``."""
    sources = read_lines(oov_source) if oov_source else None
    oov_option = "--test-oov-source" if option == "--test" else "--oov-source"
    return [read_output_log(args, name, path, sources, oov_option) for name, path in split_names(logs, option)]


def check_same_searches(tuning: Sequence[SystemOutput], test: Sequence[SystemOutput], ranks: int) -> None:
    """Raise UserError if only one set has logs of a search, or if the logs of the test set do not match each other."""
    tuned, tested = [system.name for system in tuning], [system.name for system in test]
    if test and sorted(tuned) != sorted(tested):
        raise UserError(
            f"--tune has the searches {', '.join(tuned)} but --test has {', '.join(tested)}; "
            "give the same searches for both sets, by the same names."
        )
    for system in test:
        check_depth(system, ranks)
        if len(system.nbest) != len(test[0].nbest):
            raise UserError(
                f"{system.path} has {len(system.nbest)} sentences but {test[0].path} has {len(test[0].nbest)}; "
                "give logs of one test set."
            )
        # An S- line is the source in the words of the model's dictionary.
        number = first_difference(test[0].logged.get("S", ()), system.logged.get("S", ()))
        if number is not None:
            raise UserError(f"S-{number} of {system.path} and of {test[0].path} differ; give logs of one test set.")


def check_searches(option: str, searches: Sequence[SystemOutput], corpus: Corpus, signature: str) -> list[str]:
    """Return warnings about unusual outputs. Raise UserError if they cannot be the outputs of a system."""
    # two beams may find the same outputs, so only equal logs are reported
    checks = {check: entry for check, entry in CHECKS.items() if check is not check_equal_outputs}
    try:
        oddities = find_oddities(searches, corpus, checks=checks)
    except UserError as error:
        raise UserError(f"{option} {error}") from error
    names: dict[str, list[str]] = {}
    for search in searches:
        names.setdefault(sha256_as_read(search.path), []).append(search.name)
    same = [
        f"{' and '.join(some)} are the same log; give each search once." for some in names.values() if len(some) > 1
    ]
    return [*same, *plausibility_warnings(oddities, [signature]), *empty_warnings(searches, corpus)]


def candidate_table(candidates: Sequence[Candidate], choice: Candidate, label: str) -> Table:
    """Return a table of the candidates. The chosen candidate is marked."""
    rows = []
    for candidate in candidates:
        short = f"({candidate.short} sentences have fewer and keep their last)" if candidate.short else ""
        notes = ["<- chosen"] * (candidate is choice) + [short] * bool(short)
        name = f"{candidate.search}, hypothesis {candidate.rank}"
        rows.append([name, format_score(candidate.score), "  ".join(notes)])
    return Table(["search", f"{label:>7}", ""], rows, align="lrl")
