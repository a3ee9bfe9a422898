"""Reading what a model wrote: the log of fairseq-generate, or plain text."""

from pathlib import Path

from corpus.errors import InputError
from corpus.reading import read_lines


def read_outputs(generated: Path | None, text: Path | None) -> list[str]:
    """The outputs in the order of the test set.

    Raises:
        InputError: if they cannot be read.
    """
    if generated is None:
        return list(read_lines(text or Path()))
    try:
        from wean_fairseq.errors import UserError
        from wean_fairseq.evaluation.output_reader import read_generated
    except ImportError as error:
        raise InputError("--generated needs the wean_fairseq package: install it, or pass plain text.") from error
    try:
        return list(read_generated("", generated).hypotheses)
    except UserError as error:
        raise InputError(str(error)) from error
