"""Where each word of an output came from, as JSON lines: the copy provenance of ``--copy-provenance FILE``."""

from typing import Any

import torch

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
            output = hypotheses[0]["tokens"].unsqueeze(0)  # (1, T)
            source = slot_map.src_tokens[row : row + 1]
            encoder_out = model.encoder(source, source.ne(dictionary.pad()).sum(dim=1))
            distribution = model.decoder.distribution(read_words(output), encoder_out)
            copied, positions = (part[0] for part in distribution.provenance(output))
            words = tokens[row].tolist()
            left = next(index for index, word in enumerate(words) if word != dictionary.pad())
            spelt = slot_map.spell(row, output[0]).tolist()
            steps = [
                {
                    "word": dictionary[word],
                    "copied": round(copied[step].item(), 4),
                    "positions": {
                        str(position - left): round(share, 4)
                        for position, share in enumerate(positions[step].tolist())
                        if share >= SMALLEST_SHARE
                    },
                }
                for step, word in enumerate(spelt)
            ]
            self.write_line(sample, row, {"source": words_of(tokens[row], dictionary), "output": steps})
