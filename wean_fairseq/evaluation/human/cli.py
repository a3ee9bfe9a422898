"""The commands ``wean-evaluate sheet`` and ``wean-evaluate ratings``.

They write rating sheets for human judges, and analyse the completed sheets.
"""

import json
from pathlib import Path
from typing import Any

from ...console import SEED, OneLineParser, whole_number
from ..corpus import Corpus
from ..output_reader import read_plain
from ..plausibility import empty_warnings, find_oddities, plausibility_warnings
from ..system_arguments import add_system_arguments, read_systems
from ..text_files import check_outputs, read_lines, write_atomically
from .design import KINDS, LIKERT, Design, make_design, write_sheets
from .ratings import analyse, read_ratings


def sheet_command(argv: list[str]) -> str:
    """Write the rating sheets of a study."""
    description = "Write blinded, seeded rating sheets (CSV and HTML) and their key."
    parser = OneLineParser(prog="wean-evaluate sheet", description=description)
    add_system_arguments(parser)
    add = parser.add_argument
    add("--ref", metavar="FILE", help="rate the human reference as well, as system 'reference'")
    add("--src", metavar="FILE", help="source sentences, shown to the raters")
    kinds = "likert = ratings from 1 to 5, compare = win/tie/loss of the first system (default: likert)"
    add("--kind", choices=KINDS, default=LIKERT, help=kinds)
    criteria = "criteria that raters judge (default: fluency adequacy)"
    add("--criteria", nargs="+", default=["fluency", "adequacy"], metavar="C", help=criteria)
    add("--sentences", type=whole_number(1), default=100, help="sentences to sample (default: %(default)s)")
    add("--raters", type=whole_number(1, 1000), default=3, help="number of sheets (default: %(default)s)")
    add("--seed", type=SEED, default=1, help="same seed, same sheets (default: %(default)s)")
    add("--out", required=True, metavar="FOLDER", help="where the sheets and key.json go")
    args = parser.parse_args(argv)
    # check only the key here, because write_sheets checks the other files
    check_outputs({"--out": Path(args.out) / "key.json"}, [], overwrite=True)
    sources = read_lines(args.src) if args.src else None
    outputs = read_systems(args, sources)
    systems = [*outputs, *([read_plain("reference", args.ref)] if args.ref else [])]
    sizes = {"num_sentences": args.sentences, "num_raters": args.raters}
    design = make_design(systems, sources, args.criteria, kind=args.kind, seed=args.seed, **sizes)
    corpus = Corpus([system.hypotheses for system in systems[len(outputs) :]], sources)
    # raters see capitals, like scores that are not in lower case
    warnings = [*plausibility_warnings(find_oddities(outputs, corpus), ["case:mixed"])]
    warnings += empty_warnings(systems, Corpus([]), "which raters would see as empty texts")
    files = write_sheets(design, args.out)
    return (
        f"{len(design.items)} items for each of {len(design.raters)} raters; give every rater one CSV or HTML file:\n"
        + "".join(f"  {path}\n" for path in files[:-1])
        + f"keep to yourself (it names the systems): {files[-1]}\n"
        + "".join(f"warning: {text}\n" for text in warnings)
    )


def ratings_command(argv: list[str]) -> str:
    """Analyse the completed sheets of a study."""
    description = "Read filled-in sheets: means, intervals, agreement, tests."
    parser = OneLineParser(prog="wean-evaluate ratings", description=description)
    parser.add_argument("sheets", nargs="+", metavar="CSV", help="the sheet of every rater")
    parser.add_argument("--key", required=True, metavar="FILE", help="key.json of the study")
    parser.add_argument("--json", metavar="OUT", help="write the results")
    parser.add_argument("--overwrite", action="store_true", help="replace an older file")
    args = parser.parse_args(argv)
    check_outputs({"--json": args.json}, [args.key, *args.sheets], overwrite=args.overwrite)
    design = Design.from_file(args.key)
    result = analyse(design, read_ratings(design, args.sheets))
    if args.json:
        write_atomically(args.json, json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    return format_results(result)


def format_results(result: dict[str, Any]) -> str:
    """Format the results of a study as text."""
    lines = [f"{result['items']} items, {result['raters']} raters"]
    for system, criteria in result.get("systems", {}).items():
        lines.append(f"{system}: {', '.join(f'{name} {_mean(cell)}' for name, cell in criteria.items())}")
    for test in result.get("tests", []):
        pair = f"{test['system']} vs {test['baseline']}, {test['criterion']}"
        reason = "no test: the difference is the same for every sentence"
        tested = reason if test["p"] is None else f"paired t-test, p = {test['p']:.4f}"
        lines.append(f"{pair}: {test['difference']:+.2f} ({tested})")
    for row in result.get("comparisons", []):
        pair = f"{row['system']} vs {row['against']}, {row['criterion']}"
        shares = f"win {row['win']:.1f}% tie {row['tie']:.1f}% loss {row['loss']:.1f}%"
        sentences = " ".join(f"{name} {count}" for name, count in row["sentences"].items())
        lines.append(f"{pair}: {shares}, sentences: {sentences} (sign test, p = {row['p']:.4f})")
    for criterion, alpha in result["alpha"].items():
        measures = "not defined" if alpha is None else f"alpha {alpha:.3f}, kappa {result['kappa'][criterion]:.3f}"
        lines.append(f"agreement of the raters on {criterion}: {measures}")
    return "\n".join(lines) + "\n"


def _mean(cell: dict[str, Any]) -> str:
    if cell["ci"] is None:
        return f"{cell['mean']:.2f}"
    return f"{cell['mean']:.2f} [{cell['ci'][0]:.2f}, {cell['ci'][1]:.2f}]"
