"""The origin of each word of an output, as JSON lines: the copy provenance of ``--copy-provenance FILE``."""

from typing import Any

import torch
from torch import Tensor

from ..data import SlotMap
from .output_writer import OutputWriter, read_words, words_of

SMALLEST_SHARE = 0.005  # of a position, to be written


class ProvenanceWriter(OutputWriter):
    """Writes one line an output: its words, how probably each was copied, and from which source positions.

    A line is ``{"id": number of the sentence, "source": [word, ...], "output": [{"word": ..., "copied": probability
    that the word was copied given that it was written, "positions": {source position from 0: share, ...}}, ...]}``; of
    the n best outputs of a sentence the best one is described.

    Args:
        path: file to write; must not exist.

    Raises:
        UserError: if it cannot be made.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, "--copy-provenance")

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
            model: a model whose decoder has ``distribution``.
            sample: the batch, with spelling ids.
            slot_map: of the batch.
            finalized: what the search found, with slots.
        """
        dictionary = slot_map.dictionary
        tokens = sample["net_input"]["src_tokens"]
        for row, hypotheses in enumerate(finalized):
            output = hypotheses[0]["tokens"]
            copied, places = origins(model, slot_map, row, output)
            words = slot_map.spell(row, output).tolist()
            steps = [
                {
                    "word": dictionary[word],
                    "copied": round(share, 4),
                    "positions": {
                        str(place): round(part, 4) for place, part in enumerate(parts) if part >= SMALLEST_SHARE
                    },
                }
                for word, share, parts in zip(words, copied.tolist(), places.tolist(), strict=True)
            ]
            self.write_line(sample, row, {"source": words_of(tokens[row], dictionary), "output": steps})


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
