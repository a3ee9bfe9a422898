"""A file of JSON lines about outputs, one line a sentence, written while they are searched for."""

import json
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from ..data import ExtendedDictionary, SlotMap
from ..errors import UserError


class OutputWriter(ABC):
    """Writes a line about the best output of each sentence, to a file that is made with the first of them.

    A line is ``{"id": number of the sentence, "source": [word, ...], ...}``.

    Args:
        path: file to write; must not exist.

    Raises:
        UserError: if it cannot be made.
    """

    option: str  # that names the file, for the user

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._file: IO[str] | None = None
        if os.path.lexists(path):
            raise UserError(f"{path} exists already: give another file to {self.option}, or remove it.")
        if not self._path.parent.is_dir():
            raise UserError(f"{self.option} cannot write {path}: there is no directory {self._path.parent}; make it.")

    @torch.no_grad()
    def write(
        self, model: torch.nn.Module, sample: dict[str, Any], slot_map: SlotMap, finalized: list[list[dict[str, Any]]]
    ) -> None:
        """Describe the best output of each sentence.

        Args:
            model: that searched.
            sample: the batch, with spelling ids.
            slot_map: of the batch.
            finalized: what the search found, with slots.
        """
        if self._file is None:
            self._file = self._path.open("x", encoding="utf-8")
        tokens = sample["net_input"]["src_tokens"]
        for row, hypotheses in enumerate(finalized):
            entry = {"id": sample["id"][row].item(), "source": words_of(tokens[row], slot_map.dictionary)}
            entry |= self.describe(model, slot_map, row, hypotheses[0]["tokens"])
            print(json.dumps(entry, ensure_ascii=False), file=self._file, flush=True)

    @abstractmethod
    def describe(self, model: Any, slot_map: SlotMap, row: int, output: Tensor) -> dict[str, Any]:
        """The rest of the line about an output (T,), with slots, of the sentence in row ``row`` of the batch."""


def words_of(tokens: Tensor, dictionary: ExtendedDictionary) -> list[str]:
    """The words of tokens (T,) that are not padding."""
    return [dictionary[index] for index in tokens.tolist() if index != dictionary.pad()]


def read_words(tokens: Tensor) -> Tensor:
    """The input of a decoder that writes tokens (..., T): fairseq starts from the end symbol, which comes last."""
    return tokens.roll(1, dims=-1)
