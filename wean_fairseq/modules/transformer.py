"""The Transformer in C-DNPG's table of results: post-norm layers as in BERT, learned positions, tied output layer.

It follows Vaswani et al. (NeurIPS 2017, "AIAYN") and Devlin et al. (NAACL 2019). Attention accepts an additive bias,
for masks and for terms that a paper adds to the scores. To add such a term, a layer overrides ``forward`` and changes
the ``bias``, or it uses an ``attention`` that reads additional tensors (see ``Keyed``). Attention weights are returned
as float32 logarithms, so that positions with very small weights still get a gradient.

Legend: ``B`` batch, ``T`` queries (target length), ``S`` keys (source length), ``D`` width, ``A`` heads, ``d`` = D / A,
``F`` inner width of the feed-forward part, ``V`` words.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from .dropout import Dropout, dropout
from .query_embedding import OutputLayer, Product
from .sinusoidal_positions import check_length
from .words_read import WordsRead

NORM_EPS = 1e-12
INIT_STD = 0.02

# The form in which attention reads states (B, S, D): ``keys`` and ``values`` of shape (B, A, S, d), and additional
# tensors of some papers, which also have their words in dimension 2.
Keyed = dict[str, Tensor]


class Attended(NamedTuple):
    """The result of attention: ``output`` (B, T, D) and, if requested, ``log_weights`` (B, A, T, S), float32."""

    output: Tensor
    log_weights: Tensor | None


class MultiHeadAttention(nn.Module):
    """Attention softmax(Q K^T / sqrt(d) + bias) V with A heads (AIAYN, section 3.2) and dropout on the weights.

    Raises:
        ValueError: if the width is not divisible by the number of heads.
    """

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(
                f"attention heads must divide the width of the states, but there are {heads} heads and {dim} units."
            )
        self.heads = heads
        self.dropout = dropout
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)

    def with_source_widths(self, key_dim: int, value_dim: int) -> Self:
        """Make this module compute keys and values from states of the given widths, and return the module."""
        self.key_proj = nn.Linear(key_dim, self.key_proj.out_features)
        self.value_proj = nn.Linear(value_dim, self.value_proj.out_features)
        return self

    def project(self, states: Tensor, values: Tensor | None = None) -> Keyed:
        """Return the keys of states (B, S, D), and the values of the same or of other states (B, S, value_dim)."""
        values = states if values is None else values
        return {"keys": self._split_heads(self.key_proj(states)), "values": self._split_heads(self.value_proj(values))}

    def forward(self, states: Tensor, memory: Keyed, bias: Tensor | None, *, with_weights: bool = False) -> Attended:
        """Attend from every state to the memory.

        Args:
            states: inputs of the queries, shape (B, T, D).
            memory: result of ``project`` for the states (B, S, D) to attend to.
            bias: term that is added to the scores, broadcast to (B, A, T, S). It is -inf at positions that must not be
                read. Every row needs a finite entry.
            with_weights: also return the weights before dropout. In that case, the fused kernel cannot be used.
        """
        # On a CPU, the fused kernel is not used, because it has no dropout and multiplies the small matrices of the
        # heads one by one.
        if with_weights or states.device.type == "cpu":
            return self.read(self.log_weights(states, memory, bias), memory["values"], with_weights=with_weights)
        query = self._split_heads(self.query_proj(states))  # (B, A, T, d)
        if bias is not None:
            bias = bias.to(query.dtype)
        heads = functional.scaled_dot_product_attention(
            query,
            memory["keys"],
            memory["values"],
            attn_mask=bias,
            dropout_p=self.dropout if self.training else 0.0,
        )
        return Attended(self._output(heads), None)

    def log_weights(self, states: Tensor, memory: Keyed, bias: Tensor | None) -> Tensor:
        """Return the logarithms of the attention weights, (B, A, T, S), float32.

        The arguments are those of ``forward``.
        """
        return attention_log_weights(self._split_heads(self.query_proj(states)), memory["keys"], bias)

    def read(self, log_weights: Tensor, values: Tensor, *, with_weights: bool) -> Attended:
        """Apply dropout to the weights (B, A, T, S), and return the weighted sum of the values (B, A, S, d).

        Unless ``with_weights`` is set, ``log_weights`` may be overwritten.
        """
        kept = with_weights or torch.is_grad_enabled()
        weights = dropout(log_weights.exp() if kept else log_weights.exp_(), self.dropout, self.training)
        return Attended(self._output(weights.to(values.dtype) @ values), log_weights if with_weights else None)

    def _output(self, heads: Tensor) -> Tensor:
        output: Tensor = self.out_proj(heads.transpose(1, 2).flatten(2))  # (B, A, T, d) -> (B, T, D)
        return output

    def _split_heads(self, states: Tensor) -> Tensor:
        return states.view(*states.shape[:2], self.heads, -1).transpose(1, 2)  # (B, T, D) -> (B, A, T, d)


AttentionMaker = Callable[[int, int, float], MultiHeadAttention]


class FeedForward(nn.Sequential):
    """A linear map D -> F, a GELU and a linear map F -> D (AIAYN, eq. 2, with the activation of BERT)."""

    def __init__(self, dim: int, inner_dim: int) -> None:
        super().__init__(nn.Linear(dim, inner_dim), nn.GELU(), nn.Linear(inner_dim, dim))


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward part, each followed by dropout, residual connection and layer normalisation.

    Args:
        dim: ``D``.
        heads: ``A``.
        inner_dim: ``F``.
        dropout: dropout on the output of each sublayer.
        attention_dropout: dropout on the attention weights.
        attention: creates the self-attention from the arguments of ``MultiHeadAttention``.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        inner_dim: int,
        dropout: float,
        attention_dropout: float,
        attention: AttentionMaker = MultiHeadAttention,
    ) -> None:
        super().__init__()
        self.self_attention = attention(dim, heads, attention_dropout)
        self.self_norm = nn.LayerNorm(dim, NORM_EPS)
        self.feed_forward = FeedForward(dim, inner_dim)
        self.output_norm = nn.LayerNorm(dim, NORM_EPS)
        self.dropout = Dropout(dropout)

    def forward(self, states: Tensor, bias: Tensor | None) -> Tensor:
        """Map states (B, S, D) -> (B, S, D). The bias of the self-attention broadcasts to (B, A, S, S)."""
        attended = self.self_attention(states, self.self_attention.project(states), bias)
        states = self.self_norm(states + self.dropout(attended.output))
        output: Tensor = self.output_norm(states + self.dropout(self.feed_forward(states)))
        return output


class PositionedEmbedding(nn.Module):
    """The input of BERT with one segment: LayerNorm(word + position + segment), followed by dropout.

    Positions are counted from the first token that is not padding, so padding on either side changes nothing.
    """

    def __init__(self, words: nn.Embedding, max_positions: int, dropout: float) -> None:
        super().__init__()
        self.words = words
        self.padding_idx = -1 if words.padding_idx is None else words.padding_idx
        self.max_positions = max_positions
        self.positions = nn.Embedding(max_positions, words.embedding_dim)
        self.segment = nn.Parameter(torch.zeros(words.embedding_dim))
        self.norm = nn.LayerNorm(words.embedding_dim, NORM_EPS)
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, read: WordsRead | None = None, added: Tensor | None = None) -> Tensor:
        """Embed the tokens (N, T) of N hypotheses, which follow the words of ``read``: (N, T, D).

        ``added`` (N, T, D) is added to the embeddings.

        Raises:
            ValueError: if there are more tokens than positions.
        """
        place = tokens.ne(self.padding_idx).long().cumsum(dim=1) - 1  # (N, T)
        length = tokens.size(1)
        if read is not None and read.length:
            place, length = place + read.count.unsqueeze(1), length + read.length
        position = place.clamp(min=0)
        if length > self.max_positions:  # check the lengths again, now without padding
            check_length(int(position.max()) + 1, self.max_positions)
        summed = self.words(tokens) + self.positions(position) + self.segment
        embedded: Tensor = self.dropout(self.norm(summed if added is None else summed + added))
        return embedded


class TransformerEncoder(nn.Module):
    """An embedding, followed by ``EncoderLayer`` modules from bottom to top."""

    def __init__(self, embedding: PositionedEmbedding, layers: Iterable[EncoderLayer]) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)

    def forward(self, tokens: Tensor, padding_mask: Tensor, added: Tensor | None = None) -> list[Tensor]:
        """Encode a batch.

        Args:
            tokens: shape (B, S), padded on either side.
            padding_mask: ``True`` at padding, shape (B, S).
            added: added to the embeddings of the tokens, shape (B, S, D).

        Returns:
            The states (B, S, D) that each layer reads, from bottom to top, and finally the output of the last layer.
            They are undefined at padding.
        """
        states: list[Tensor] = [self.embedding(tokens, added=added)]
        bias = padding_bias(padding_mask)
        for layer in self.layers:
            states.append(layer(states[-1], bias))
        return states


class TiedOutput(OutputLayer):
    """Scores of words as in BERT: E LayerNorm(GELU(W h + b)) + b_V, where E is the embedding of the decoder."""

    def __init__(self, dim: int, num_embeddings: int, unk_index: int) -> None:
        super().__init__(num_embeddings, unk_index=unk_index)
        self.transform = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.LayerNorm(dim, NORM_EPS))
        self.bias = nn.Parameter(torch.zeros(num_embeddings))

    def parts(self, query: Tensor, embeddings: Tensor) -> Product:
        return Product(self.transform(query), embeddings, self.bias)


def attention_log_weights(query: Tensor, keys: Tensor, bias: Tensor | None) -> Tensor:
    """Return log softmax(Q K^T / sqrt(d) + bias), float32: query (B, A, T, d), keys (B, A, S, d) -> (B, A, T, S)."""
    scores = (query / math.sqrt(query.size(-1))) @ keys.transpose(2, 3)  # (B, A, T, S)
    scores = scores.float() if bias is None else scores.float() + bias.float()
    return torch.log_softmax(scores, dim=-1)


def padding_bias(padding_mask: Tensor) -> Tensor:
    """Return a bias (B, 1, 1, S) that is -inf at padding and 0 elsewhere. Rows that contain only padding are 0."""
    hidden = padding_mask & ~padding_mask.all(dim=1, keepdim=True)
    bias = torch.zeros(hidden.shape, device=hidden.device).masked_fill(hidden, float("-inf"))
    return bias[:, None, None, :]


def causal_bias(length: int, like: Tensor) -> Tensor:
    """Return a bias (T, T), float32, on the device of ``like``: -inf where the key follows the query, otherwise 0."""
    return torch.full((length, length), float("-inf"), device=like.device).triu(diagonal=1)


def init_transformer(network: nn.Module) -> None:
    """Initialise linear maps, embeddings and segments from N(0, 0.02), as in BERT.

    Biases and the embedding of the padding word start at 0.
    """
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=INIT_STD)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx].detach())
        if isinstance(module, PositionedEmbedding):
            nn.init.normal_(module.segment, std=INIT_STD)
