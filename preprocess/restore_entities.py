"""Restore names in outputs for anonymised text (PERSON@1), as the papers on PWKP do before scoring.

    python preprocess/restore_entities.py --entities data/pwkp/test.entities --generated LOG --output FILE

pwkp.py writes ``test.entities`` next to the text. LOG is the output of fairseq-generate. ``--input`` takes plain text
instead, with one output per line.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpus.entities import restore
from corpus.json_values import parse_json_line
from corpus.outputs import outputs_parser, rewrite_outputs
from corpus.reading import read_lines

from wean_fairseq.console import counted
from wean_fairseq.errors import UserError


def read_entities(path: Path) -> list[dict[str, str]]:
    """Return the entities of each line.

    Raises:
        UserError: if a line is invalid. The message names the first such line.
    """
    entities = []
    for number, line in enumerate(read_lines(path), start=1):
        _, names, problem = parse_json_line(line, number)
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            reason = f" ({problem})" if problem else ""
            raise UserError(
                f"line {number} of {path} is not a table of entities{reason}: is it an .entities file of pwkp.py?"
            )
        entities.append(names)
    return entities


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    parser = outputs_parser("restore_entities", __doc__)
    parser.add_argument("--entities", type=Path, required=True, metavar="FILE", help="<split>.entities of pwkp.py")
    args = parser.parse_args(arguments)

    def restored(outputs: list[str]) -> Iterator[str]:
        entities = read_entities(args.entities)
        if len(entities) != len(outputs):
            raise UserError(
                f"{args.entities} has {counted(len(entities), 'line')}, but there are {len(outputs)} outputs."
            )
        return map(restore, outputs, entities)

    return rewrite_outputs("restore_entities", args, restored, [args.entities])


if __name__ == "__main__":
    sys.exit(main())
