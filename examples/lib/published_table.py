"""Print a published table and our own scores of the same systems side by side, averaged over seeds, as Markdown.

    python examples/lib/published_table.py cdnpg-table2 --runs runs/granularity_transformer/table2 --output table2.md

reads RUNS/seed<N>/<data set>/test.json, which recipes leave there.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wean_fairseq.evaluation.published import TABLES, Table


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    # Other tables would need more: their columns differ from the preset's, or a system of ours is in several rows.
    parser.add_argument("table", choices=["cdnpg-table2"])
    parser.add_argument("--runs", type=Path, required=True, metavar="DIR", help="directory of data sets and seeds")
    parser.add_argument("--output", type=Path, metavar="FILE", help="file to write the table to, in addition")
    args = parser.parse_args(arguments)
    published = TABLES[args.table]
    lines = [line for data in published.rows for line in data_set(published, data, scores_of(args.runs, data))]
    if not lines:
        print(
            f"published_table: no seed<N>/<data set>/test.json is below {args.runs}: run the recipe first.",
            file=sys.stderr,
        )
        return 2
    text = "\n".join([*lines, f"Published: {published.source}. {published.note}", ""])
    print(text)
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    return 0


def scores_of(folder: Path, data: str) -> list[dict[str, Any]]:
    """The evaluations of all seeds of a data set."""
    paths = sorted(folder.glob(f"seed*/{data}/test.json"))
    return [json.loads(path.read_text(encoding="utf-8"))["systems"] for path in paths]


def data_set(published: Table, data: str, seeds: list[dict[str, Any]]) -> Iterator[str]:
    """The lines of one data set: one row per system, each cell published | ours, mean and deviation over seeds."""
    if not seeds:
        return
    labels = [name for name in seeds[0]["copy-source"] if name.startswith(published.preset + "/") and "[" not in name]
    theirs = [column.label for column in published.columns]
    columns = labels[: len(theirs)]
    ours = [label.removeprefix(published.preset + "/") for label in columns]
    heads = [head for label, own in zip(theirs, ours, strict=True) for head in (label, f"our {own}")]
    yield f"## {data}, {len(seeds)} seed(s)"
    yield ""
    yield "| system | " + " | ".join(heads) + " | our BLEU (standard) |"
    yield "|---" + "|--:" * (len(heads) + 1) + "|"
    rows = {row.runs[0] if row.runs else name: row.scores for name, row in published.rows[data].items()}
    for system, numbers in {"copy-source": (None,) * len(columns), **rows}.items():
        cells = []
        for number, column in zip(numbers, columns, strict=True):
            cells += ["" if number is None else f"{number:.2f}", over_seeds(seeds, system, column)]
        yield f"| {system} | " + " | ".join(cells) + f" | {over_seeds(seeds, system, 'bleu')} |"
    yield ""


def over_seeds(seeds: list[dict[str, Any]], system: str, metric: str) -> str:
    """Mean and deviation of a score, or "not run"."""
    scores = [seed[system][metric]["score"] for seed in seeds if system in seed]
    if not scores:
        return "not run"
    deviation = f" ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    return f"{statistics.mean(scores):.2f}{deviation}"


if __name__ == "__main__":
    sys.exit(main())
