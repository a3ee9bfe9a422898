"""The encoder of DNPG (Li et al., ACL 2019, sections 2.1 and 2.2): the separator, and a source for each level.

Legend: ``B`` batch, ``S`` source length, ``D_0``, ``D_1`` widths of the phrase and the sentence level.
"""

from typing import NamedTuple

from torch import Tensor, nn

from .dnpg_levels import EncoderLevel, neighbour_bias, source_bias
from .dnpg_separator import LevelSeparator
from .fractional_positions import FractionalEmbedding
from .soft_labels import SENTENCE, Labels


class EncodedLevels(NamedTuple):
    """``phrase`` (B, S, D_0) and ``sentence`` (B, S, D_1) states, meaningless at padding, and the words' labels."""

    phrase: Tensor
    sentence: Tensor
    labels: Labels


class LevelsEncoder(nn.Module):
    """Labels the words, then encodes them twice.

    Args:
        separator: labels the words.
        phrase_embedding: of the phrase level.
        phrase: its layers.
        sentence_embedding: of the sentence level.
        sentence: its layers.
        window: the phrase level reads words that are less than this apart.
    """

    def __init__(
        self,
        separator: LevelSeparator,
        phrase_embedding: FractionalEmbedding,
        phrase: EncoderLevel,
        sentence_embedding: FractionalEmbedding,
        sentence: EncoderLevel,
        window: int,
    ) -> None:
        super().__init__()
        self.separator = separator
        self.phrase_embedding = phrase_embedding
        self.phrase = phrase
        self.sentence_embedding = sentence_embedding
        self.sentence = sentence
        self.window = window

    def forward(
        self, tokens: Tensor, padding_mask: Tensor, temperature: Tensor | float, *, noisy: bool
    ) -> EncodedLevels:
        """Encode a batch.

        Args:
            tokens: shape (B, S), padded on either side.
            padding_mask: ``True`` at padding, shape (B, S).
            temperature: of the labels.
            noisy: draw labels instead of weighing them.
        """
        labels = self.separator(tokens, padding_mask, temperature, noisy=noisy)
        words = padding_mask.logical_not()
        phrase = self.phrase(
            self.phrase_embedding(tokens, words.cumsum(dim=1)), neighbour_bias(padding_mask, self.window)
        )
        sentence_level = labels.used[..., SENTENCE]  # (B, S)
        positions = (sentence_level.exp() * words).cumsum(dim=1)  # p_l = sum of P(z_i = 1) up to l
        sentence = self.sentence(self.sentence_embedding(tokens, positions), source_bias(sentence_level, padding_mask))
        return EncodedLevels(phrase, sentence, labels)
