"""Restore untokenised text from the outputs of a model by undoing the steps of a script in this folder.

    python preprocess/undo_text.py --prepared data/quora --generated LOG --output outputs.txt

LOG is the output of fairseq-generate. ``--input`` takes plain text instead, with one output per line. The manifest in
``--prepared`` lists the steps: BPE, word pieces, true-casing, joiner marks, Moses tokens, characters, jieba words, and
escaped special symbols. Lower-casing and normalisation cannot be undone.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpus.outputs import outputs_parser, rewrite_outputs

from wean_fairseq.errors import UserError
from wean_fairseq.storage.data_files import MANIFEST
from wean_fairseq.text import Text, read_text_settings, without_manifest
from wean_fairseq.text.settings import BPE_CODES, MODEL_TEXT, TRUECASE_MODEL, WORDPIECES


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    parser = outputs_parser("undo_text", __doc__)
    parser.add_argument("--prepared", type=Path, required=True, metavar="DIR", help="output directory of a script")
    args = parser.parse_args(arguments)

    def restored(outputs: list[str]) -> Iterator[str]:
        settings = read_text_settings(args.prepared)
        if settings is None:
            raise UserError(f"{without_manifest(args.prepared)}.")
        return map(Text(settings, args.prepared).restore, outputs)

    reads = [args.prepared / name for name in (MANIFEST, MODEL_TEXT, BPE_CODES, TRUECASE_MODEL, WORDPIECES)]
    return rewrite_outputs("undo_text", args, restored, reads)


if __name__ == "__main__":
    sys.exit(main())
