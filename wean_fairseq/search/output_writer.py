"""A file of JSON lines about outputs, one line a sentence, written while they are searched for."""

import json
import os
from pathlib import Path
from typing import IO, Any

from torch import Tensor

from ..data import ExtendedDictionary
from ..errors import UserError


class OutputWriter:
    """Writes lines to a file that is made with the first of them.

    Args:
        path: file to write; must not exist.
        option: that named it, for the user.

    Raises:
        UserError: if it cannot be made.
    """

    def __init__(self, path: str, option: str) -> None:
        self._path = Path(path)
        self._file: IO[str] | None = None
        if os.path.lexists(path):
            raise UserError(f"{path} exists already: give another file to {option}, or remove it.")
        if not self._path.parent.is_dir():
            raise UserError(f"{option} cannot write {path}: there is no directory {self._path.parent}; make it.")

    def write_line(self, sample: dict[str, Any], row: int, entry: dict[str, Any]) -> None:
        """Write ``{"id": number of the sentence in row ``row`` of the batch, **entry}``."""
        if self._file is None:
            self._file = self._path.open("x", encoding="utf-8")
        print(json.dumps({"id": sample["id"][row].item(), **entry}, ensure_ascii=False), file=self._file, flush=True)


def words_of(tokens: Tensor, dictionary: ExtendedDictionary) -> list[str]:
    """The words of tokens (T,) that are not padding."""
    return [dictionary[index] for index in tokens.tolist() if index != dictionary.pad()]


def read_words(tokens: Tensor) -> Tensor:
    """The input of a decoder that writes tokens (..., T): fairseq starts from the end symbol, which comes last."""
    return tokens.roll(1, dims=-1)
