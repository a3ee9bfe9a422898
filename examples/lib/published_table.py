"""Print a published table and our own scores of the same systems side by side, averaged over seeds, as Markdown.

    python examples/lib/published_table.py cdnpg-table2 --runs runs/granularity_transformer/table2 --output table2.md

reads RUNS/seed<N>/<data set>/test.json, which recipes leave there.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from wean_fairseq.evaluation import Evaluation
from wean_fairseq.evaluation.published import TABLES, PublishedTable
from wean_fairseq.evaluation.tables import Table
from wean_fairseq.evaluation.text_files import read_typed_json
from wean_fairseq.reporting.scores import merge_seeds


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    # Other tables would need more: their columns differ from the preset's, or a system of ours is in several rows.
    parser.add_argument("table", choices=["cdnpg-table2"])
    parser.add_argument("--runs", type=Path, required=True, metavar="DIR", help="directory of data sets and seeds")
    parser.add_argument("--output", type=Path, metavar="FILE", help="file to write the table to, in addition")
    args = parser.parse_args(arguments)
    published = TABLES[args.table]
    lines = [line for data in published.rows for line in data_set(published, data, read_seeds(args.runs, data))]
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


def read_seeds(folder: Path, data: str) -> list[Evaluation]:
    """Return the evaluations of all seeds of a data set."""
    return [read_typed_json(path, Evaluation) for path in sorted(folder.glob(f"seed*/{data}/test.json"))]


def data_set(published: PublishedTable, data: str, seeds: list[Evaluation]) -> Iterator[str]:
    """Yield the lines of one data set: published and our scores of each system, as mean and deviation over seeds."""
    if not seeds:
        return
    evaluation = merge_seeds(seeds)
    ours = [key for key, column in evaluation.columns.items() if column.preset == published.preset and not column.group]
    ours = ours[: len(published.columns)]
    heads = [
        head
        for column, key in zip(published.columns, ours, strict=True)
        for head in (column.label, f"our {evaluation.columns[key].label}")
    ]
    rows = {row.runs[0] if row.runs else name: row.scores for name, row in published.rows[data].items()}
    cells = []
    for system, numbers in {"copy-source": (None,) * len(ours), **rows}.items():
        scores = evaluation.scores.get(system, {})
        shown = {key: scores[key].format() if key in scores else "not run" for key in [*ours, "bleu"]}
        pairs = zip(published.columns, numbers, ours, strict=True)
        beside = [text for column, number, key in pairs for text in (column.shown(number, ""), shown[key])]
        cells.append([system, *beside, shown["bleu"]])
    yield f"## {data}, {len(seeds)} seed(s)"
    yield ""
    yield Table(["system", *heads, "our BLEU (standard)"], cells).as_markdown()
    yield ""


if __name__ == "__main__":
    sys.exit(main())
