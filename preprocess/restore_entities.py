"""Put names back into outputs on anonymised text (PERSON@1), as the papers on PWKP do before they score.

    python preprocess/restore_entities.py --entities data/pwkp/test.entities --generated LOG --output FILE

``test.entities`` is what pwkp.py wrote beside the text. LOG is the output of fairseq-generate; ``--input`` takes plain
text instead, an output a line.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from corpus.command import exit_status
from corpus.entities import restore
from corpus.errors import InputError
from corpus.output import write_atomically
from corpus.outputs import read_outputs
from corpus.reading import read_lines


def read_entities(path: Path) -> list[dict[str, str]]:
    """The entities of each line.

    Raises:
        InputError: naming the line that is something else.
    """
    found = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            names = json.loads(line)
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise InputError(f"line {number} of {path} is no table of entities: is it an .entities file of pwkp.py?")
        found.append(names)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entities", type=Path, required=True, metavar="FILE", help="<split>.entities of pwkp.py")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--generated", type=Path, metavar="LOG", help="output of fairseq-generate")
    given.add_argument("--input", type=Path, metavar="FILE", help="an output a line")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file to write, replaced if there")
    args = parser.parse_args(arguments)

    def work() -> None:
        entities, outputs = read_entities(args.entities), read_outputs(args.generated, args.input)
        if len(entities) != len(outputs):
            raise InputError(f"{args.entities} has {len(entities)} lines, but there are {len(outputs)} outputs.")
        lines = (restore(output, names) + "\n" for output, names in zip(outputs, entities, strict=True))
        write_atomically(args.output, lines)

    return exit_status("restore_entities", args.output, work)


if __name__ == "__main__":
    sys.exit(main())
