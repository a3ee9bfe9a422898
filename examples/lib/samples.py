"""Print the source, the reference and the outputs of all systems for test sentences spread evenly over the set."""

import argparse
import sys
from pathlib import Path

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.output_reader import read_generated, read_plain
from wean_fairseq.evaluation.text_files import read_lines


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--generated", action="append", default=[], metavar="NAME=LOG", help="output of fairseq-generate"
    )
    parser.add_argument("--hyp", action="append", default=[], metavar="NAME=FILE", help="output as plain text")
    parser.add_argument("--src", type=Path, required=True, help="sources, one sentence per line")
    parser.add_argument("--ref", type=Path, required=True, help="references, one sentence per line")
    parser.add_argument("--number", type=int, default=10, help="how many sentences")
    args = parser.parse_args(arguments)
    try:
        systems = [read_generated(*argument.split("=", 1)) for argument in args.generated]
        systems += [read_plain(*argument.split("=", 1)) for argument in args.hyp]
        columns = {"source": read_lines(args.src), "reference": read_lines(args.ref)}
        columns |= {system.name: system.hypotheses for system in systems}
        sizes = {name: len(column) for name, column in columns.items()}
        if len(set(sizes.values())) > 1:
            raise UserError(f"the files have different numbers of lines ({sizes}): give the files of one test set.")
    except UserError as error:
        print(f"samples: {error}", file=sys.stderr)
        return 2
    size = len(columns["source"])
    number = min(args.number, size)
    width = max(len(name) for name in columns)
    for index in range(number):
        line = index * size // number
        for name, column in columns.items():
            print(f"{name:<{width}}  {column[line]}")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
