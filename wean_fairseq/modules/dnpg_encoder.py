"""The encoder of DNPG (Li et al., ACL 2019, sections 2.1 and 2.2): a separator, and one encoder for each level.

Legend: ``B`` batch, ``S`` source length, ``V`` words, ``E`` embedding width and ``H`` hidden width of the separator,
``D_0``, ``D_1`` widths of the phrase and the sentence level.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from .dnpg_levels import (
    LEVELS,
    SENTENCE,
    EmbeddedLevel,
    Labels,
    both_labels,
    even_labels,
    neighbour_bias,
    source_bias,
    stack_labels,
)
from .recurrent import run_over_words


class LevelSeparator(nn.Module):
    """h = BiLSTM(x); g_l = LSTM([h_l; z_{l-1}], g_{l-1}); P(z_l | X) = GumbelSoftmax(W_g g_l).

    Args:
        hidden_size: ``H``: the width of both directions together, and the width of the second LSTM.

    Raises:
        ValueError: if ``hidden_size`` is odd.
    """

    def __init__(self, words: nn.Embedding, hidden_size: int) -> None:
        super().__init__()
        if hidden_size % 2:
            raise ValueError(f"the separator's width must be even, for its two directions, but is {hidden_size}.")
        self.words = words
        self.reader = nn.LSTM(words.embedding_dim, hidden_size // 2, batch_first=True, bidirectional=True)
        self.cell = nn.LSTMCell(hidden_size + LEVELS, hidden_size)
        self.label_proj = nn.Linear(hidden_size, LEVELS)  # W_g

    def forward(self, tokens: Tensor, padding_mask: Tensor, temperature: Tensor | float, *, noisy: bool) -> Labels:
        """Label every word.

        Args:
            tokens: (B, S), padded on either side.
            padding_mask: ``True`` at padding, (B, S).
            temperature: temperature of the softmax.
            noisy: sample labels instead of using their probabilities.

        Returns:
            The labels. Their values are undefined at padding.
        """
        word_states, _ = run_over_words(self.reader, self.words(tokens), padding_mask)  # (B, S, H)
        hidden = cell = torch.zeros_like(word_states[:, 0])
        last = even_labels(len(tokens), tokens.device)
        step_labels = []
        for word, padding in zip(word_states.unbind(dim=1), padding_mask.unbind(dim=1), strict=True):
            cell_input = torch.cat([word, last.exp().to(word.dtype)], dim=-1)
            new_hidden, new_cell = self.cell(cell_input, (hidden, cell))
            logits = self.label_proj(new_hidden)  # (B, 2)
            labels = both_labels(logits, temperature, noisy=noisy)
            step_labels.append(labels)
            # Padding on the left must not change the state.
            skip = padding.unsqueeze(1)
            hidden, cell = torch.where(skip, hidden, new_hidden), torch.where(skip, cell, new_cell)
            last = torch.where(skip, last, labels.used)
        return stack_labels(step_labels)


def label_loss(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Return -log P(z*), summed over the words that have a label (DN-P, eq. 10).

    Log-probabilities have shape (B, S, 2). Labels (B, S) are 0, 1, or -1 for no label.
    """
    return functional.nll_loss(log_probs.flatten(0, 1), labels.flatten(), ignore_index=-1, reduction="sum")


class EncodedLevels(NamedTuple):
    """The states ``phrase`` (B, S, D_0) and ``sentence`` (B, S, D_1), undefined at padding, and the words' labels."""

    phrase: Tensor
    sentence: Tensor
    labels: Labels


class LevelsEncoder(nn.Module):
    """Label the words, then encode them once for each level.

    In the phrase level, a word attends to words whose distance is less than ``window``.
    """

    def __init__(self, separator: LevelSeparator, phrase: EmbeddedLevel, sentence: EmbeddedLevel, window: int) -> None:
        super().__init__()
        self.separator = separator
        self.phrase_embedding, self.phrase = phrase
        self.sentence_embedding, self.sentence = sentence
        self.window = window

    def forward(
        self, tokens: Tensor, padding_mask: Tensor, temperature: Tensor | float, *, noisy: bool
    ) -> EncodedLevels:
        """Encode a batch, with the same arguments as ``LevelSeparator``."""
        labels = self.separator(tokens, padding_mask, temperature, noisy=noisy)
        words = padding_mask.logical_not()
        phrase = self.phrase(
            self.phrase_embedding(tokens, words.cumsum(dim=1)), neighbour_bias(padding_mask, self.window)
        )
        sentence_level = labels.used[..., SENTENCE]  # (B, S)
        positions = (sentence_level.exp() * words).cumsum(dim=1)  # p_l = sum of P(z_i = 1) for i up to l
        sentence = self.sentence(self.sentence_embedding(tokens, positions), source_bias(sentence_level, padding_mask))
        return EncodedLevels(phrase, sentence, labels)
