"""The origin of each word of an output, as JSON lines: the copy provenance of ``--copy-provenance FILE``."""

from typing import Any

import torch
from torch import Tensor

from ..data import SlotMap
from .output_writer import OutputWriter, read_words

SMALLEST_SHARE = 0.005  # of a position, to be written


class ProvenanceWriter(OutputWriter):
    """Writes the words of an output, how probably each was copied, and from which source positions.

    A line goes on with ``"output": [{"word": ..., "copied": probability that the word was copied given that it was
    written, "positions": {source position from 0: share, ...}}, ...]``. The model's decoder has ``distribution``.
    """

    option = "--copy-provenance"

    def describe(self, model: Any, slot_map: SlotMap, row: int, output: Tensor) -> dict[str, Any]:
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
        slot_map: of the batch.
        row: of the sentence in it.
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
