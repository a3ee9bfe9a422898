"""Files and lines that fairseq reads in its own way."""

from collections.abc import Iterator
from typing import Any, NoReturn

from ..data.typed_text import read_typed_lines
from ..errors import UserError
from ..storage.files import LARGEST_TEXT, read_regular
from .patches import Original


def alignment_words(original: Original, path: str | None) -> Any:
    """Read the file of ``--replace-unk [FILE]``. fairseq hands over "@@ " if no file is given.

    Raises:
        UserError: if the file cannot be read, or a line does not have two words.
    """
    if path in (None, "", "@@ "):
        return original("" if path == "@@ " else path)
    try:
        lines = read_regular(path, LARGEST_TEXT).decode("utf-8").removesuffix("\n").split("\n")
        return {line.split()[0]: line.split()[1] for line in lines}
    except IndexError:
        reason = "a line has fewer than two words"
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8: {error.reason}"
    except OSError as error:
        reason = str(error.strerror)
    raise UserError(f"--replace-unk {path} cannot be read ({reason}): give a word and its replacement in each line.")


def refuse_fasta(_original: Original, _dataset: Any, path: str) -> NoReturn:
    """Refuse a FASTA file, because fairseq puts its name into a shell command."""
    raise UserError(f"{path}.fasta cannot be read: fairseq would run its name in a shell; prepare the data as text.")


def read_buffers(_original: Original, file: str, buffer_size: int) -> Iterator[list[str]]:
    """Read the lines of fairseq-interactive as ``read_typed_lines`` does."""
    return read_typed_lines(file, buffer_size)
