"""How fine the words of each sentence are to a model, as JSON lines: the z of ``--granularity-dump FILE``."""

from typing import Any

import torch
from torch import Tensor

from ..data import SlotMap
from .output_writer import OutputWriter, read_words, words_of


class GranularityWriter(OutputWriter):
    """Writes one line an output: the words read by encoder and decoder, and their z in every layer that has one.

    A line is ``{"id": number of the sentence, "source": [word, ...], "source_granularity": {layer from 1: [z of each
    word, ...], ...}, "output": [word, ...], "output_granularity": {...}}``; of the n best outputs of a sentence the
    best one is described. ``output`` is what the decoder reads: the end symbol first, and not at the end.

    Args:
        path: file to write; must not exist.

    Raises:
        UserError: if it cannot be made.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, "--granularity-dump")

    @torch.no_grad()
    def write(
        self,
        model: torch.nn.Module,
        sample: dict[str, Any],
        slot_map: SlotMap,
        finalized: list[list[dict[str, Any]]],
    ) -> None:
        """Describe the best output of each sentence.

        Args:
            model: a model whose encoder and decoder return ``granularity`` (B, L, T).
            sample: the batch, with spelling ids.
            slot_map: of the batch.
            finalized: what the search found, with slots.
        """
        dictionary = slot_map.dictionary
        for row, hypotheses in enumerate(finalized):
            output = hypotheses[0]["tokens"]
            known = slot_map.src_tokens[row].ne(dictionary.pad())
            source = slot_map.src_tokens[row][known].unsqueeze(0)  # (1, S), without padding
            encoder_out = model.encoder(source, known.sum().view(1))
            _, extra = model.decoder(read_words(output).unsqueeze(0), encoder_out)
            entry = {
                "source": words_of(sample["net_input"]["src_tokens"][row], dictionary),
                "source_granularity": _by_layer(encoder_out["granularity"][0], len(model.encoder.network.layers)),
                "output": words_of(read_words(slot_map.spell(row, output)), dictionary),
                "output_granularity": _by_layer(extra["granularity"][0], len(model.decoder.network.layers)),
            }
            self.write_line(sample, row, entry)


def _by_layer(granularity: Tensor, layers: int) -> dict[str, list[float]]:
    """z (L, T) of the last L of ``layers`` layers, by their numbers from 1."""
    first = layers - len(granularity) + 1
    return {str(first + number): [round(z, 4) for z in row] for number, row in enumerate(granularity.tolist())}
