"""Write JSON Lines files from the traces of the search, with one line per sentence.

``--granularity-dump FILE`` contains the granularities of the words of each sentence. ``--copy-provenance FILE``
contains the origin of each word of an output.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..errors import UserError
from .traces import Trace

# function that maps the words and the trace of an output to fields of its JSON line
Description = Callable[[list[str], Trace], dict[str, Any]]


class OutputWriter:
    """Writes one line about the best output of each sentence. The file is created with the first line.

    A line is ``{"id": number of the sentence, "source": [word, ...], ...}``.

    Args:
        path: file to write. It must not exist.
        option: command-line option that names the file, for error messages.
        describe: returns the remaining fields of a line.

    Raises:
        UserError: if the file cannot be created.
    """

    def __init__(self, path: str, option: str, describe: Description) -> None:
        self._path = Path(path)
        self._file: IO[str] | None = None
        self._describe = describe
        if os.path.lexists(path):
            raise UserError(f"{path} exists already: give another file to {option}, or remove it.")
        if not self._path.parent.is_dir():
            raise UserError(f"{option} cannot write {path}: there is no directory {self._path.parent}; make it.")

    def write(
        self, sample: dict[str, Any], hypotheses: list[list[dict[str, Any]]], source: Dictionary, target: Dictionary
    ) -> None:
        """Describe the best output of each sentence.

        Args:
            sample: the batch, with ids of real words instead of slots.
            hypotheses: hypotheses of the search, with traces, and with ids of real words instead of slots.
            source: dictionary of the sources.
            target: dictionary of the outputs.
        """
        if self._file is None:
            self._file = self._path.open("x", encoding="utf-8")
        tokens = sample["net_input"]["src_tokens"].tolist()
        for number, line, (best, *_) in zip(sample["id"].tolist(), tokens, hypotheses, strict=True):
            entry = {"id": number, "source": [source[index] for index in line if index != source.pad()]}
            entry |= self._describe([target[index] for index in best["tokens"].tolist()], best["trace"])
            print(json.dumps(entry, ensure_ascii=False), file=self._file, flush=True)


def describe_granularity(words: list[str], trace: Trace) -> dict[str, Any]:
    """Return the words that encoder and decoder read, and their granularities z in every layer that has them.

    The line continues with ``"source_granularity": {layer from 1: [z of each word, ...], ...}, "output": [word, ...],
    "output_granularity": {...}``. ``output`` is the input of the decoder, which starts with the end symbol and does not
    end with it.
    """
    of_source, of_output = trace.granularities()
    return {
        "source_granularity": _rounded(of_source),
        "output": [words[-1], *words[:-1]],
        "output_granularity": _rounded(of_output),
    }


def _rounded(granularity: dict[int, Tensor]) -> dict[str, list[float]]:
    return {str(layer): [round(z, 4) for z in row.tolist()] for layer, row in granularity.items()}


SMALLEST_SHARE = 0.005  # smaller shares of a position are not written to the file


def describe_provenance(words: list[str], trace: Trace) -> dict[str, Any]:
    """Return the words of an output, the probability that each was copied, and the source positions of the copies.

    The line continues with ``"output": [{"word": ..., "copied": probability that the word was copied given that it was
    written, "positions": {source position from 0: share, ...}}, ...]``. If a model of a copying family was built
    without copying, no word counts as copied.
    """
    nothing = torch.zeros(len(words), 1)
    copied = trace.steps.get("copied", nothing[:, 0]).tolist()
    places = trace.steps.get("copied_from", nothing).tolist()
    steps = [
        {
            "word": word,
            "copied": round(share, 4),
            "positions": {
                str(place): round(position_share, 4)
                for place, position_share in enumerate(shares)
                if position_share >= SMALLEST_SHARE
            },
        }
        for word, share, shares in zip(words, copied, places, strict=True)
    ]
    return {"output": steps}
