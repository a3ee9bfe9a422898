"""The encoder of ``dnpg``: slots are read as ``<unk>``, everything else is in ``modules/dnpg_encoder.py``.

Legend: ``B`` batch, ``S`` source length, ``D_0``, ``D_1`` widths of the phrase and the sentence level.
"""

from typing import Any

from fairseq.data import Dictionary
from torch import Tensor

from ...modules import EncodedLevels, Labels, LevelsEncoder, base_ids
from ..base import SourceEncoder
from ..word_layers import num_base_words
from .annealing import Annealing


class DnpgEncoder(SourceEncoder):
    """Labels every word, and encodes the source for both levels.

    Args:
        dictionary: with its slots.
        network: over the base words.
        annealing: the temperature of the labels.
        noisy_inference: draw labels outside of training too.
    """

    def __init__(
        self, dictionary: Dictionary, network: LevelsEncoder, annealing: Annealing, noisy_inference: bool
    ) -> None:
        super().__init__(dictionary)
        self.network = network
        self.annealing = annealing
        self.noisy_inference = noisy_inference
        self.num_base = num_base_words(dictionary)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        source_labels: Tensor | None = None,
        target_labels: Tensor | None = None,
        **_unused: Any,
    ) -> dict[str, Tensor]:
        """Encode a batch, see ``SourceEncoder``.

        Args:
            source_labels: weak labels for the loss: levels of the source words, 0, 1, negative at padding, (B, S).
            target_labels: the same of the target, (B, T).

        Returns:
            ``phrase_states`` (B, S, D_0), ``sentence_states`` (B, S, D_1), ``labels`` and ``expected_labels``
            (B, S, 2), see ``Labels``; ``encoder_padding_mask`` (B, S); ``src_tokens`` and both weak labels as given.
        """
        padding_mask = src_tokens.eq(self.dictionary.pad())
        encoded = self.network(
            base_ids(src_tokens, self.num_base, self.dictionary.unk()),
            padding_mask,
            self.annealing.temperature,
            noisy=self.training or self.noisy_inference,
        )
        weak = {"source_labels": source_labels, "target_labels": target_labels}
        return {
            **{name: labels for name, labels in weak.items() if labels is not None},
            "phrase_states": encoded.phrase,
            "sentence_states": encoded.sentence,
            "labels": encoded.labels.used,
            "expected_labels": encoded.labels.expected,
            "encoder_padding_mask": padding_mask,
            "src_tokens": src_tokens,
        }


def encoded_levels(encoder_out: dict[str, Tensor]) -> EncodedLevels:
    """The part of ``encoder_out`` that the decoder's network reads."""
    labels = Labels(encoder_out["labels"], encoder_out["expected_labels"])
    return EncodedLevels(encoder_out["phrase_states"], encoder_out["sentence_states"], labels)
