"""Print a published table in Markdown, with our rows (means over seeds) below the paper's rows.

    python examples/lib/published_table.py cdnpg-table2 --runs runs/granularity_transformer/table2 --output table2.md

The script reads the runs of recipes in the folder RUNS. ``wean-report`` shows the same table.
"""

import argparse
import sys
from pathlib import Path

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.published import PUBLISHED_TABLES
from wean_fairseq.reporting.comparison import published_tables
from wean_fairseq.reporting.report_cli import read_all
from wean_fairseq.reporting.scores import group_runs


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", choices=PUBLISHED_TABLES)
    parser.add_argument("--runs", required=True, metavar="DIR", help="directory of data sets and seeds")
    parser.add_argument("--output", type=Path, metavar="FILE", help="also write the table to this file")
    args = parser.parse_args(arguments)
    try:
        experiments = group_runs(read_all([args.runs]))
    except UserError as error:
        print(f"published_table: {error}", file=sys.stderr)
        return 2
    entries = [entry for experiment in experiments for entry in experiment.sets.values()]
    source = PUBLISHED_TABLES[args.table].source
    tables = [table for table in published_tables(entries) if table.caption.startswith(f"{source}:")]
    text = "\n".join(
        line for table in tables for line in (f"## {table.caption}", "", table.as_markdown(), "", *table.notes, "")
    )
    print(text)
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
