"""Semantically conditioned LSTM (Wen et al., EMNLP 2015): the cell consumes a vector of keywords step by step.

d_0 is 1 for every keyword of the essay and 0 for all others. A reading gate keeps the share r_t of the keywords, d_t =
r_t * d_{t-1}, and tanh(W_d d_t) is added to the cell. d is 0 wherever d_0 is 0, so only the k keywords of the essay are
computed. The rows of the weights for these keywords are selected once per batch, which does not change the result.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` steps, ``k`` topic slots, ``V`` keywords of all essays (here the
dictionary), ``E`` embedding width, ``L`` layers, ``H`` hidden width.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .steps import Memory, fold_hypotheses, weighted_sum

HIDDEN_SCALE = 0.5  # alpha
STEP_WEIGHT = 1e-4  # eta
STEP_BASE = 100.0  # xi


@dataclass(frozen=True)
class KeywordRows(Memory):
    """The weights for the keywords of the essay."""

    word_read: Tensor  # rows of W_wr for the keywords, (B, k, E)
    hidden_read: Tensor  # rows of alpha W_hr for the keywords, all layers, (B, k, L * H)
    write: Tensor  # rows of W_d for the keywords, all layers, (B, k, L * H)


class KeywordGate(nn.Module):
    """Computes the gate r_t = sigmoid(W_wr w_t + alpha sum_l W_hr^l h^l_{t-1}) and the cells' input tanh(W_d d_t)."""

    def __init__(self, num_keywords: int, embed_dim: int, num_layers: int, hidden_size: int) -> None:
        super().__init__()
        width = num_layers * hidden_size
        self.word_read = nn.Embedding(num_keywords, embed_dim)  # W_wr, one row per keyword
        self.hidden_read = nn.Embedding(num_keywords, width)  # W_hr^1 ... W_hr^L, concatenated
        self.write = nn.Embedding(num_keywords, width)  # W_d of every layer, transposed and concatenated
        for rows, fan in ((self.word_read, embed_dim), (self.hidden_read, hidden_size), (self.write, hidden_size)):
            nn.init.uniform_(rows.weight, -(fan**-0.5), fan**-0.5)

    def pick(self, keywords: Tensor) -> KeywordRows:
        """Return the rows of the weights for the keywords (B, k), which every step needs."""
        return KeywordRows(self.word_read(keywords), HIDDEN_SCALE * self.hidden_read(keywords), self.write(keywords))

    @staticmethod
    def word_part(words: Tensor, rows: KeywordRows) -> Tensor:
        """Return W_wr w_t for all steps at once: embedded words (N, T, E) -> (N, T, k)."""
        projected = torch.bmm(fold_hypotheses(words, len(rows.word_read)), rows.word_read.transpose(1, 2))
        return projected.view(*words.shape[:2], -1)

    @staticmethod
    def step(keywords: Tensor, word_part: Tensor, outputs: Tensor, rows: KeywordRows) -> tuple[Tensor, Tensor]:
        """Return d_t (N, k) in float32, and the vector to add to the cells of all layers, (N, L * H).

        Args:
            keywords: d_{t-1}, float32, (N, k).
            word_part: result of ``word_part`` for this step, (N, k).
            outputs: h_{t-1} of all layers, (N, L * H).
            rows: result of ``pick``. N is a multiple of B.
        """
        reading = fold_hypotheses(outputs.unsqueeze(1), len(rows.write)).transpose(1, 2)  # (B, L * H, K)
        hidden_part = torch.bmm(rows.hidden_read, reading).transpose(1, 2).flatten(0, 1)  # (N, k)
        keywords = torch.sigmoid((word_part + hidden_part).float()) * keywords
        return keywords, torch.tanh(weighted_sum(keywords.to(rows.write.dtype), rows.write))


def first_keywords(keywords: Tensor, padding_mask: Tensor) -> Tensor:
    """Return d_0, which is 1 in each slot with a keyword, but 0 if an earlier slot contains the same keyword.

    Args:
        keywords: (B, k).
        padding_mask: ``True`` at slots without a keyword, (B, k).

    Returns:
        The vectors d_0, float32, (B, k).
    """
    # (B, k, k): True if a keyword equals an earlier one
    same = keywords.unsqueeze(2).eq(keywords.unsqueeze(1)).tril(diagonal=-1)
    return (~padding_mask & ~same.any(dim=2)).float()


def control_loss(keywords: Tensor, first: Tensor, step_padding_mask: Tensor) -> Tensor:
    """Return |d_T| + sum_t eta xi^|d_t - d_{t-1}|, summed over all essays.

    The loss penalises keywords that are left at the end, and steps that consume many keywords at once. The norms are
    Euclidean norms. Eta and xi are ``STEP_WEIGHT`` and ``STEP_BASE``.

    Args:
        keywords: d_1 ... d_T, (B, T, k).
        first: d_0, (B, k).
        step_padding_mask: ``True`` after the end of an essay, (B, T).

    Returns:
        A float32 scalar.
    """
    previous = torch.cat([first.unsqueeze(1), keywords[:, :-1]], dim=1)
    change = torch.linalg.vector_norm(keywords - previous, dim=-1)  # (B, T)
    growth = torch.exp(math.log(STEP_BASE) * change)
    steps = (STEP_WEIGHT * growth).masked_fill(step_padding_mask, 0.0).sum()
    last = (~step_padding_mask).sum(dim=1).clamp(min=1) - 1  # (B,)
    left = keywords[torch.arange(keywords.size(0), device=keywords.device), last]  # (B, k)
    loss: Tensor = torch.linalg.vector_norm(left, dim=-1).sum() + steps
    return loss
