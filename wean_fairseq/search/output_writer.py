"""Files of JSON lines about outputs, a line a sentence, written while they are searched for.

``--granularity-dump FILE`` has the granularities of the words of each sentence, ``--copy-provenance FILE`` the origin
of each word of an output.

Legend: ``B`` batch, ``S`` source length, ``T`` output length, ``L`` layers that have granularities.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from ..data.extended_vocabulary import ExtendedDictionary, SlotMap
from ..errors import UserError

# The rest of a line about an output (T,), with slots: from the model, the slots, and the sentence's row of the batch.
Description = Callable[[Any, SlotMap, int, Tensor], dict[str, Any]]


class OutputWriter:
    """Writes a line about the best output of each sentence, to a file that is made with the first of them.

    A line is ``{"id": number of the sentence, "source": [word, ...], ...}``.

    Args:
        path: file to write; must not exist.
        option: that names the file, for the user.
        describe: makes the rest of the line.

    Raises:
        UserError: if it cannot be made.
    """

    def __init__(self, path: str, option: str, describe: Description) -> None:
        self._path = Path(path)
        self._file: IO[str] | None = None
        self._describe = describe
        if os.path.lexists(path):
            raise UserError(f"{path} exists already: give another file to {option}, or remove it.")
        if not self._path.parent.is_dir():
            raise UserError(f"{option} cannot write {path}: there is no directory {self._path.parent}; make it.")

    @torch.no_grad()
    def write(
        self, model: torch.nn.Module, sample: dict[str, Any], slot_map: SlotMap, finalized: list[list[dict[str, Any]]]
    ) -> None:
        """Describe the best output of each sentence.

        Args:
            sample: the batch, with spelling ids.
            finalized: what the search found, with slots.
        """
        if self._file is None:
            self._file = self._path.open("x", encoding="utf-8")
        tokens = sample["net_input"]["src_tokens"]
        for row, hypotheses in enumerate(finalized):
            entry = {"id": sample["id"][row].item(), "source": words_of(tokens[row], slot_map.dictionary)}
            entry |= self._describe(model, slot_map, row, hypotheses[0]["tokens"])
            print(json.dumps(entry, ensure_ascii=False), file=self._file, flush=True)


def words_of(tokens: Tensor, dictionary: ExtendedDictionary) -> list[str]:
    """The words of tokens (T,) that are not padding."""
    return [dictionary[index] for index in tokens.tolist() if index != dictionary.pad()]


def read_words(tokens: Tensor) -> Tensor:
    """The input of a decoder that writes tokens (..., T): fairseq starts from the end symbol, which comes last."""
    return tokens.roll(1, dims=-1)


def describe_granularity(model: Any, slot_map: SlotMap, row: int, output: Tensor) -> dict[str, Any]:
    """The words read by encoder and decoder, and their z in every layer that has one.

    A line goes on with ``"source_granularity": {layer from 1: [z of each word, ...], ...}, "output": [word, ...],
    "output_granularity": {...}``. ``output`` is what the decoder reads: the end symbol first, and not at the end. The
    model's encoder and decoder return ``granularity`` (B, L, T).
    """
    source, written = granularities(model, slot_map, row, output)
    return {
        "source_granularity": _rounded(source),
        "output": words_of(read_words(slot_map.spell(row, output)), slot_map.dictionary),
        "output_granularity": _rounded(written),
    }


@torch.no_grad()
def granularities(
    model: Any, slot_map: SlotMap, row: int, output: Tensor
) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """The granularities of the words of a sentence and of an output.

    Args:
        model: a model whose encoder and decoder return ``granularity`` (B, L, T).
        row: of the sentence in the batch.
        output: with slots, (T,).

    Returns:
        By layer from 1, the z of the source words, without padding, (S,), and of the words that the decoder reads, the
        end symbol first, (T,).
    """
    known = slot_map.src_tokens[row].ne(slot_map.dictionary.pad())
    source = slot_map.src_tokens[row][known].unsqueeze(0)  # (1, S), without padding
    encoder_out = model.encoder(source, known.sum().view(1))
    _, extra = model.decoder(read_words(output).unsqueeze(0), encoder_out)
    return (
        _layer_dict(encoder_out["granularity"][0], len(model.encoder.network.layers)),
        _layer_dict(extra["granularity"][0], len(model.decoder.network.layers)),
    )


def _layer_dict(granularity: Tensor, layers: int) -> dict[int, Tensor]:
    """z (L, T) of the last L of ``layers`` layers, by their numbers from 1."""
    first = layers - len(granularity) + 1
    return dict(enumerate(granularity, start=first))


def _rounded(granularity: dict[int, Tensor]) -> dict[str, list[float]]:
    return {str(layer): [round(z, 4) for z in row.tolist()] for layer, row in granularity.items()}


SMALLEST_SHARE = 0.005  # of a position, to be written


def describe_provenance(model: Any, slot_map: SlotMap, row: int, output: Tensor) -> dict[str, Any]:
    """The words of an output, how probably each was copied, and from which source positions.

    A line goes on with ``"output": [{"word": ..., "copied": probability that the word was copied given that it was
    written, "positions": {source position from 0: share, ...}}, ...]``. The model's decoder has ``distribution``.
    """
    copied, places = origins(model, slot_map, row, output)
    words = slot_map.spell(row, output).tolist()
    steps = [
        {
            "word": slot_map.dictionary[word],
            "copied": round(share, 4),
            "positions": {str(place): round(part, 4) for place, part in enumerate(parts) if part >= SMALLEST_SHARE},
        }
        for word, share, parts in zip(words, copied.tolist(), places.tolist(), strict=True)
    ]
    return {"output": steps}


@torch.no_grad()
def origins(model: Any, slot_map: SlotMap, row: int, output: Tensor) -> tuple[Tensor, Tensor]:
    """The origin of the words of an output.

    Args:
        model: a model whose decoder has ``distribution``.
        row: of the sentence in the batch.
        output: with slots, (T,).

    Returns:
        How probably each word was copied, given that it was written, (T,), and from which source words, without
        padding, (T, S).
    """
    source = slot_map.src_tokens[row : row + 1]
    is_word = source.ne(slot_map.dictionary.pad())  # (1, S')
    encoder_out = model.encoder(source, is_word.sum(dim=1))
    distribution = model.decoder.distribution(read_words(output.unsqueeze(0)), encoder_out)
    copied, places = distribution.provenance(output.unsqueeze(0))
    return copied[0], places[0][:, is_word[0]]
