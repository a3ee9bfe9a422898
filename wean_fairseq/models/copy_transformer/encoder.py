"""The encoder of ``copy_transformer``: reads slots as ``<unk>``, and keeps them for the decoder to copy.

Legend: ``B`` batch, ``S`` source length, ``D`` width.
"""

from typing import Any

from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder
from torch import Tensor

from ...errors import user_errors
from ...modules import TransformerEncoder, base_ids
from ..copying import follow_sentences, num_base_words, sentence_numbers


class CopyTransformerEncoder(FairseqEncoder):
    """A Transformer encoder.

    Args:
        dictionary: of the source, with or without slots.
        network: over the base words.
        max_positions: longest source.
    """

    def __init__(self, dictionary: Dictionary, network: TransformerEncoder, max_positions: int) -> None:
        super().__init__(dictionary)
        self.network = network
        self.num_base = num_base_words(dictionary)
        self._max_positions = max_positions

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch.

        Args:
            src_tokens: shape (B, S), slots included, padded on either side.
            src_lengths: ignored; the lengths are read off the padding.

        Returns:
            ``encoder_out`` (B, S, D); ``encoder_padding_mask`` (B, S), ``True`` at padding; ``src_tokens`` as given;
            ``sentence`` (B,), see ``follow_sentences``.

        Raises:
            UserError: if a sentence is longer than the model was made for.
        """
        padding_mask = src_tokens.eq(self.dictionary.pad())
        with user_errors():
            states = self.network(base_ids(src_tokens, self.num_base, self.dictionary.unk()), padding_mask)
        return {
            "encoder_out": states,
            "encoder_padding_mask": padding_mask,
            "src_tokens": src_tokens,
            "sentence": sentence_numbers(src_tokens),
        }

    def reorder_encoder_out(self, encoder_out: dict[str, Tensor], new_order: Tensor) -> dict[str, Tensor]:
        """Pick sentences ``new_order`` (B',) of the batch, for beam search."""
        return follow_sentences(encoder_out, new_order)

    def max_positions(self) -> int:
        """Tokens of the longest source."""
        return self._max_positions
