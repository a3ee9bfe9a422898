"""JSON lines files about outputs, one line per sentence, written during the search.

``--granularity-dump FILE`` contains the granularities of the words of each sentence, ``--copy-provenance FILE`` the
origin of each word of an output.

Legend: ``B`` batch, ``S`` source length, ``T`` output length, ``L`` layers with granularities.
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

# Returns the fields of an output's line from the model, the slots, the sentence's row in the batch, and the output (T,)
# with slots.
Description = Callable[[Any, SlotMap, int, Tensor], dict[str, Any]]


class OutputWriter:
    """Writes one line about the best output of each sentence. The file is created with the first line.

    A line is ``{"id": number of the sentence, "source": [word, ...], ...}``.

    Args:
        path: file to write; must not exist.
        option: command line option that names the file, for error messages.
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

    @torch.no_grad()
    def write(
        self, model: torch.nn.Module, sample: dict[str, Any], slot_map: SlotMap, finalized: list[list[dict[str, Any]]]
    ) -> None:
        """Describe the best output of each sentence.

        Args:
            sample: the batch, with the ids of real words.
            finalized: the hypotheses of the search, with slots.
        """
        if self._file is None:
            self._file = self._path.open("x", encoding="utf-8")
        tokens = sample["net_input"]["src_tokens"]
        for row, hypotheses in enumerate(finalized):
            entry = {"id": sample["id"][row].item(), "source": words_of(tokens[row], slot_map.dictionary)}
            entry |= self._describe(model, slot_map, row, hypotheses[0]["tokens"])
            print(json.dumps(entry, ensure_ascii=False), file=self._file, flush=True)


def words_of(tokens: Tensor, dictionary: ExtendedDictionary) -> list[str]:
    """The words of tokens (T,), without padding."""
    return [dictionary[index] for index in tokens.tolist() if index != dictionary.pad()]


def read_words(tokens: Tensor) -> Tensor:
    """The decoder input that produces tokens (..., T). fairseq starts from the end symbol, which is the last token."""
    return tokens.roll(1, dims=-1)


def describe_granularity(model: Any, slot_map: SlotMap, row: int, output: Tensor) -> dict[str, Any]:
    """The words read by encoder and decoder, and their z in every layer with granularities.

    The line continues with ``"source_granularity": {layer from 1: [z of each word, ...], ...}, "output": [word, ...],
    "output_granularity": {...}``. ``output`` is the decoder's input, which starts with the end symbol and does not end
    with it. The model's encoder and decoder return ``granularity`` (B, L, T).
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
        By layer from 1, the z of the source words, without padding, (S,), and of the words that the decoder reads,
        beginning with the end symbol, (T,).
    """
    is_word = slot_map.src_tokens[row].ne(slot_map.dictionary.pad())
    source = slot_map.src_tokens[row][is_word].unsqueeze(0)  # (1, S), without padding
    encoder_out = model.encoder(source, is_word.sum().view(1))
    _, extra = model.decoder(read_words(output).unsqueeze(0), encoder_out)
    return (
        _layer_dict(encoder_out["granularity"][0], len(model.encoder.network.layers)),
        _layer_dict(extra["granularity"][0], len(model.decoder.network.layers)),
    )


def _layer_dict(granularity: Tensor, layers: int) -> dict[int, Tensor]:
    """z (L, T) of the last L of ``layers`` layers, by layer number from 1."""
    first = layers - len(granularity) + 1
    return dict(enumerate(granularity, start=first))


def _rounded(granularity: dict[int, Tensor]) -> dict[str, list[float]]:
    return {str(layer): [round(z, 4) for z in row.tolist()] for layer, row in granularity.items()}


SMALLEST_SHARE = 0.005  # smallest share of a position that is written


def describe_provenance(model: Any, slot_map: SlotMap, row: int, output: Tensor) -> dict[str, Any]:
    """The words of an output, the probability that each was copied, and its source positions.

    The line continues with ``"output": [{"word": ..., "copied": probability that the word was copied given that it was
    written, "positions": {source position from 0: share, ...}}, ...]``. The model's decoder has ``distribution``.
    """
    copied, places = origins(model, slot_map, row, output)
    words = slot_map.spell(row, output).tolist()
    steps = [
        {
            "word": slot_map.dictionary[word],
            "copied": round(share, 4),
            "positions": {
                str(place): round(position_share, 4)
                for place, position_share in enumerate(shares)
                if position_share >= SMALLEST_SHARE
            },
        }
        for word, share, shares in zip(words, copied.tolist(), places.tolist(), strict=True)
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
        The probability that each word was copied, given that it was written, (T,), and its distribution over the source
        words, without padding, (T, S).
    """
    source = slot_map.src_tokens[row : row + 1]
    is_word = source.ne(slot_map.dictionary.pad())  # (1, S')
    encoder_out = model.encoder(source, is_word.sum(dim=1))
    distribution = model.decoder.distribution(read_words(output.unsqueeze(0)), encoder_out)
    copied, places = distribution.provenance(output.unsqueeze(0))
    return copied[0], places[0][:, is_word[0]]
