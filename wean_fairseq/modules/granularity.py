"""C-DNPG: attention between words of similar granularity (Gu et al., COLING 2022).

In every attention, each word has a granularity z between 0 (part of the sentence's template) and 1 (a detail). A mask M
computed from granularities multiplies the attention weights. Resonance R lets words of similar granularity attend to
each other. Scope S lets details attend only to neighbouring words, and templates to the whole sentence. As in the
authors' code, log M is added to the scores, so that the weights of a query still sum to 1. Eq. 9 of the paper
multiplies after the softmax.

Legend: ``B`` batch, ``T`` queries, ``S`` keys, ``D`` width, ``A`` heads, ``N`` length of the sentence. All heads share
the mask, (B, 1, T, S). Granularities of queries are (B, 1, T, 1), of keys (B, 1, 1, S).
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .transformer import INIT_STD, Attended, Keyed, MultiHeadAttention

EPSILON = 2.0  # number of words on either side to which a detail can attend
MASK_FLOOR = 1e-32  # minimum of the mask, because its logarithm must be finite
GRANULARITY_MASKS = ("resonance", "scope", "product", "mean")  # R, S, R * S and R + S of the paper


def resonance(query: Tensor, key: Tensor) -> Tensor:
    """Return the resonance of the granularities ``query`` (z_i) and ``key`` (z_j), broadcast against each other.

    It is not symmetric. For equal granularities, it is at least 1/2.
    """
    coarse = 1.0 - query
    return coarse * (coarse - key).clamp(min=0.0) + query * (coarse + key).clamp(max=1.0)  # eq. 6


def scope(query: Tensor, distance: Tensor, length: Tensor) -> Tensor:
    """Return 1 for keys within reach of the query, and 0 for keys beyond it.

    In a sentence of up to 3 words, it is 1 everywhere.

    Args:
        query: z_i, in [0, 1].
        distance: \\|i - j\\|, broadcast with ``query``.
        length: N, broadcast with ``query``. The paper's formula needs N > 2. Here, the reach is never below the reach
            of a word with z = 1.
    """
    reach = (length - EPSILON).clamp(min=1.0).pow(1.0 - query) + EPSILON
    return (reach - distance).clamp(0.0, 1.0)  # eq. 8


def granularity_mask(kind: str, query: Tensor, key: Tensor, distance: Tensor, length: Tensor) -> Tensor:
    """Return the mask M (B, 1, T, S) of a kind. In a sentence of up to 2 words, it is always the resonance.

    Args:
        kind: one of ``GRANULARITY_MASKS``.
        query: z_i, (B, 1, T, 1).
        key: z_j, (B, 1, 1, S).
        distance: (T, S).
        length: N, broadcast to (B, 1, T, 1).
    """
    # Both factors are in [0, 1], and broadcast (B, 1, T, 1) and (B, 1, 1, S) to (B, 1, T, S). Eq. 8 computes a power of
    # N - 2, so the scope is not defined for sentences of up to 2 words. For them, the mask is the resonance alone. This
    # is decided row by row, because N differs between the sentences of a batch and between the words of a decoder.
    resonant = resonance(query, key)
    if kind == "resonance":
        return resonant
    near = scope(query, distance, length)
    if kind == "product":
        return resonant * near  # for up to 3 words, the scope is 1
    mask = near if kind == "scope" else 0.5 * (resonant + near)
    return torch.where(length <= EPSILON, resonant, mask)


class GranularityHead(nn.Module):
    """The granularity of every state, z = sigmoid(H w_G + b_G) (eq. 4)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        # This is not a linear layer. Otherwise, with the same seed, the rest of the network would start from other
        # values.
        self.weight = nn.Parameter(torch.zeros(1, dim))  # w_G
        self.bias = nn.Parameter(torch.zeros(1))  # b_G

    def forward(self, states: Tensor) -> Tensor:
        """Return granularities, float32: (B, S, D) -> (B, S, 1)."""
        return functional.linear(states, self.weight, self.bias).float().sigmoid()


class GranularityAttention(MultiHeadAttention):
    """Attention whose weights are multiplied by a mask that depends on granularities. Subclasses define the mask.

    The memory (``Keyed``) contains granularities, (B, 1, S, 1), in addition to keys and values. With ``normalize``, the
    weights of a row sum to 1 (the authors' code). Without it, they do not (eq. 9 of the paper).
    """

    def __init__(self, dim: int, heads: int, dropout: float, *, normalize: bool = True) -> None:
        super().__init__(dim, heads, dropout)
        self.normalize = normalize
        self.granularity = GranularityHead(dim)

    def mask(self, states: Tensor, memory: Keyed, bias: Tensor | None) -> Tensor:
        """Return M, (B, 1, T, S), float32. The arguments are those of ``forward``."""
        raise NotImplementedError

    def project(self, states: Tensor, values: Tensor | None = None) -> Keyed:
        """Return keys, values and granularities of states (B, S, D)."""
        return super().project(states, values) | {"granularity": self.granularity(states).unsqueeze(1)}

    def forward(self, states: Tensor, memory: Keyed, bias: Tensor | None, *, with_weights: bool = False) -> Attended:
        """Attend like ``MultiHeadAttention``, but with the mask."""
        # Multiplying the weights by M before they are normalised is the same as adding log M to the scores: M_j
        # exp(s_j) / sum_k M_k exp(s_k). The floor keeps a finite gradient where M is 0.
        log_mask = self.mask(states, memory, bias).clamp(min=MASK_FLOOR).log()
        if self.normalize:
            bias = log_mask if bias is None else bias + log_mask
            return super().forward(states, memory, bias, with_weights=with_weights)
        log_weights = self.log_weights(states, memory, bias) + log_mask  # eq. 9
        return self.read(log_weights, memory["values"], with_weights=with_weights)


class GranularSelfAttention(GranularityAttention):
    """Self-attention with the mask of ``kind``.

    Args:
        sizes: arguments of ``MultiHeadAttention``.
        kind: one of ``GRANULARITY_MASKS``.
        length: N for every sentence. 0 = the number of words that a query can see. In an encoder, a query sees all
            words of the sentence. In a decoder, a query sees the words up to its own position. N then does not
            depend on words that are not written yet.
    """

    def __init__(self, *sizes: Any, kind: str, length: int = 0, normalize: bool = True) -> None:
        super().__init__(*sizes, normalize=normalize)
        self.kind = kind
        self.length = length

    def mask(self, states: Tensor, memory: Keyed, bias: Tensor | None) -> Tensor:
        """See ``GranularityAttention``. The states are the last T of the S words.

        In a search, ``place`` (S,) contains the position of each word in its hypothesis.
        """
        # The memory contains the granularities of all S words. In a search, T is 1 and the query is the last word
        # written so far, so its granularity is the last column of the keys.
        granularity = memory["granularity"]
        queries, keys = states.size(1), granularity.size(2)
        place = memory["place"] if "place" in memory else torch.arange(keys, device=states.device)
        distance = (place[-queries:, None] - place).abs()
        if self.length or bias is None:
            length = granularity.new_full((1,), self.length or keys)
        else:
            # The additive bias, (B or 1, 1, T or 1, S), is 0 at the words that a query can see and -inf elsewhere.
            # Counting the zeros yields N per sentence in an encoder, and N per word in a decoder.
            length = (bias > float("-inf")).sum(dim=-1, keepdim=True)
        return granularity_mask(self.kind, granularity[:, :, -queries:], granularity.transpose(2, 3), distance, length)


class GranularCrossAttention(GranularityAttention):
    """Attention to another sentence with resonance, as in the authors' code.

    There is no distance between two sentences.
    """

    def mask(self, states: Tensor, memory: Keyed, bias: Tensor | None) -> Tensor:
        query = self.granularity(states).unsqueeze(1)  # (B, 1, T, 1)
        return resonance(query, memory["granularity"].transpose(2, 3))


def init_granularity(network: nn.Module) -> None:
    """Initialise the heads like the network's other maps: w_G from N(0, 0.02). b_G is 0, so that z is about 1/2."""
    for module in network.modules():
        if isinstance(module, GranularityHead):
            nn.init.normal_(module.weight, std=INIT_STD)
