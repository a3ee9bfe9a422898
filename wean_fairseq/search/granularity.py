"""The granularities of the words of each sentence, as JSON lines: the z of ``--granularity-dump FILE``."""

from typing import Any

import torch
from torch import Tensor

from ..data import SlotMap
from .output_writer import OutputWriter, read_words, words_of


class GranularityWriter(OutputWriter):
    """Writes the words read by encoder and decoder, and their z in every layer that has one.

    A line goes on with ``"source_granularity": {layer from 1: [z of each word, ...], ...}, "output": [word, ...],
    "output_granularity": {...}``. ``output`` is what the decoder reads: the end symbol first, and not at the end. The
    model's encoder and decoder return ``granularity`` (B, L, T).
    """

    option = "--granularity-dump"

    def describe(self, model: Any, slot_map: SlotMap, row: int, output: Tensor) -> dict[str, Any]:
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
        slot_map: of the batch.
        row: of the sentence in it.
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
