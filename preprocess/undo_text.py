"""Turn a model's outputs back into running text: undo what a script of this folder did to the training text.

    python preprocess/undo_text.py --prepared data/quora --generated LOG --output outputs.txt

LOG is the output of fairseq-generate; ``--input`` takes plain text instead, an output a line. The manifest in
``--prepared`` says what was done: BPE, word pieces, true-casing, Moses tokens, characters, words by jieba, and special
symbols that were escaped. Lower-casing and normalisation cannot be undone.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from corpus.command import exit_status
from corpus.errors import InputError
from corpus.output import write_atomically
from corpus.outputs import read_outputs

from wean_fairseq.text import Text, read_text_settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--prepared", type=Path, required=True, metavar="DIR", help="output directory of a script")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--generated", type=Path, metavar="LOG", help="output of fairseq-generate")
    given.add_argument("--input", type=Path, metavar="FILE", help="an output a line")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file to write, replaced if there")
    args = parser.parse_args(arguments)

    def work() -> None:
        settings = read_text_settings(args.prepared)
        if settings is None:
            raise InputError(f"{args.prepared} has no manifest.json of a script of this folder.")
        text = Text(settings, args.prepared)
        write_atomically(args.output, (text.restore(line) + "\n" for line in read_outputs(args.generated, args.input)))

    return exit_status("undo_text", args.output, work)


if __name__ == "__main__":
    sys.exit(main())
