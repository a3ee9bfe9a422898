"""FSET: rewrite a sentence in the way in which a similar sentence was rewritten (Kazemnejad et al., ACL 2020).

A source consists of a sentence x and a pair of paraphrases (p, q) that was retrieved for it. The equations follow the
authors' research code, see docs/equations.md.

Legend: ``B`` batch, ``N`` hypotheses, ``S`` source length, ``X`` length of x, ``P`` length of p and q, ``Q`` queries of
a sentence, ``D`` width of embeddings and encoder states, ``Z`` width of the edit vector, ``M`` width of a micro edit
vector.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .dropout import Dropout
from .transformer import NORM_EPS, EncoderLayer, Keyed, MultiHeadAttention, PositionedEmbedding, padding_bias
from .transformer_decoder import (
    Decoded,
    DecoderLayer,
    DecoderState,
    LayerState,
    SourceMemory,
    TransformerDecoder,
    remember,
    run_layers,
)
from .words_read import WordsRead


class PairedSource(NamedTuple):
    """The segments of a batch of sources, padded on the right.

    Attributes:
        sentence: the sentence x, (B, X).
        place: positions of the sentence's tokens in the source, (B, X). The separator that is read as its end symbol
            gets the position of the source's end symbol, if there is one.
        p: original sentence of the pair, (B, P). If there is no pair, it contains only the end symbol.
        q: paraphrase of the pair, (B, P). If there is no pair, it contains only the end symbol.
        unpaired: number of sources that do not have exactly two separators.
    """

    sentence: Tensor
    place: Tensor
    p: Tensor
    q: Tensor
    unpaired: int


def split_pairs(tokens: Tensor, padding_idx: int, end: int, separator: int) -> PairedSource:
    """Split sources of the form ``x <separator> p <separator> q``. Text after a further separator is ignored.

    Args:
        tokens: sources, padded on either side, (B, S).
        end: id of the end symbol. The separator after a sentence is read as this symbol.
        separator: id of the separator.
    """
    # A token belongs to the segment whose number is the count of separators before it. A separator ends its segment, so
    # it is read as an end symbol.
    separates = tokens.eq(separator)
    number = separates.cumsum(dim=1) - separates.long()  # index of the segment that a token belongs to, (B, S)
    member = torch.stack([tokens.ne(padding_idx) & number.eq(part) for part in range(3)])  # (3, B, S)
    count = member.sum(dim=2)  # (3, B)
    # Copy all values that the CPU needs in one transfer from the device.
    without = separates.sum(dim=1).ne(2).sum()
    longest, *of_pair, unpaired = torch.cat([count.amax(dim=1), without.unsqueeze(0)]).tolist()
    # A stable sort moves the tokens of each segment to the front. Then ``part`` only has to truncate them to a common
    # length and pad them. An empty segment becomes a single end symbol.
    order = member.byte().sort(dim=2, descending=True, stable=True).indices  # each segment's tokens first
    ended = tokens.masked_fill(separates, end)

    def part(which: int, length: int) -> Tensor:
        rows = ended.gather(1, order[which, :, :length])
        place = torch.arange(rows.size(1), device=rows.device)
        rows = rows.masked_fill(place >= count[which].unsqueeze(1), padding_idx)
        return rows.masked_fill((place == 0) & count[which].eq(0).unsqueeze(1), end)

    sentence, pair = part(0, longest), max(1, *of_pair)
    # The last token of the sentence was a separator, but attention to it must be shown at the end symbol of the source.
    place, ends = order[0, :, :longest], tokens.eq(end)
    behind = count[0].unsqueeze(1) - 1  # index of the sentence's last token, (B, 1)
    shown = torch.where(ends.any(dim=1, keepdim=True), ends.byte().argmax(dim=1, keepdim=True), place.gather(1, behind))
    return PairedSource(sentence, place.scatter(1, behind, shown), part(1, pair), part(2, pair), unpaired)


class Edits(NamedTuple):
    """Vectors that describe how p becomes q."""

    vector: Tensor  # z, (B, Z)
    micro: Tensor  # m_i, (B, P, M)
    keys: Tensor  # h^p_i, the keys of the attention to micro edits, (B, P, D)
    padding_mask: Tensor  # ``True`` at padding of p, (B, P)


class EditProvider(nn.Module):
    """Computes the micro edit vectors of a pair, and the vector of the whole edit.

    h^q = Encoder(q); [o_0; o] = Decoder([start; p], h^q), where every position attends to all of p; m_i = tanh(W_m o_i
    + b_m). The same weights are applied in the other direction, from q to p. Then z = W_z [tanh(W_0 o_0^{pq} + b_0);
    tanh(W_0 o_0^{qp} + b_0)], with dropout. ``start`` is a word before p. Its state summarises the edit.
    """

    def __init__(
        self,
        encoder_layers: Iterable[EncoderLayer],
        decoder_layers: Iterable[DecoderLayer],
        dim: int,
        edit_dim: int,
        micro_dim: int,
        dropout: float,
        start: int,
    ) -> None:
        super().__init__()
        self.encoder_layers = nn.ModuleList(encoder_layers)
        self.decoder_layers = nn.ModuleList(decoder_layers)
        self.pool = nn.Linear(dim, dim)  # W_0
        self.micro_proj = nn.Linear(dim, micro_dim)  # W_m
        self.edit_proj = nn.Linear(2 * dim, edit_dim, bias=False)  # W_z
        self.dropout = Dropout(dropout)
        self.start = start

    def forward(self, p: Tensor, q: Tensor, embedding: PositionedEmbedding) -> Edits:
        """Compute the edits of pairs p and q, both of shape (B, P) and padded on the right."""
        originals, rewrites = torch.cat([p, q]), torch.cat([q, p])  # both directions at once, (2B, P)
        # Encode the rewritten side. Then a decoder reads the original side with attention to it. The decoder has no
        # causal mask, because both sides are known.
        after_bias = padding_bias(rewrites.eq(embedding.padding_idx))
        encoded = embedding(rewrites)
        for layer in self.encoder_layers:
            encoded = layer(encoded, after_bias)
        originals = torch.cat([originals.new_full((len(originals), 1), self.start), originals], dim=1)  # (2B, 1 + P)
        padding_mask = originals.eq(embedding.padding_idx)
        decoded, _ = run_layers(
            self.decoder_layers,
            embedding(originals),
            remember(self.decoder_layers, encoded, after_bias),
            [LayerState() for _ in self.decoder_layers],
            WordsRead.empty(originals).append(~padding_mask, len(originals)),
            padding_bias(padding_mask),
        )
        # The state of the start word summarises the edit of each direction. Micro edits and keys are computed only from
        # p.
        both = torch.tanh(self.pool(decoded.states[:, 0])).chunk(2)
        vector = self.dropout(self.edit_proj(torch.cat(both, dim=-1)))
        micro = torch.tanh(self.micro_proj(decoded.states[: len(p), 1:]))
        return Edits(vector, micro, encoded[len(p) :], padding_mask[: len(p), 1:])


class EditedDecoderLayer(DecoderLayer):
    """A layer that, after the source, also attends to the micro edit vectors, with keys h^p and values m.

    It has the arguments of ``DecoderLayer``, whose states have width D + Z, followed by ``D`` and ``M``.
    """

    def __init__(self, *sizes: Any, source_dim: int, micro_dim: int) -> None:
        dim, heads, _, _, attention_dropout = sizes
        super().__init__(*sizes)
        attention = partial(MultiHeadAttention, dim, heads, attention_dropout)
        self.cross_attention = attention().with_source_widths(source_dim, source_dim)
        self.edit_attention = attention().with_source_widths(source_dim, micro_dim)
        self.edit_norm = nn.LayerNorm(dim, NORM_EPS)

    def remember_edits(self, edits: Edits, bias: Tensor) -> Keyed:
        """Prepare the edits for all steps, with the bias of the attention to them, (B, 1, 1, P)."""
        keyed = self.edit_attention.project(edits.keys, edits.micro) | {"bias": bias}
        return {f"edit_{name}": tensor for name, tensor in keyed.items()}

    def read_more(self, states: Tensor, source: Keyed) -> Tensor:
        keyed = {name: source[f"edit_{name}"] for name in ("keys", "values")}
        attended = self.edit_attention(states, keyed, source["edit_bias"])
        output: Tensor = self.edit_norm(states + self.dropout(attended.output))
        return output


@dataclass(frozen=True)
class EditedMemory(SourceMemory):
    """The source and the edits, prepared for the layers."""

    vector: Tensor  # z, (B, Z)


class EditedDecoder(TransformerDecoder):
    """A decoder that reads z together with each word. Its input is [e(y_t); z].

    Its output states have the width of the embeddings.
    """

    def __init__(self, embedding: PositionedEmbedding, layers: Iterable[DecoderLayer], edit_dim: int) -> None:
        super().__init__(embedding, layers)
        width = embedding.words.embedding_dim
        self.project_back = nn.Linear(width + edit_dim, width)

    def remember_edits(self, memory: SourceMemory, edits: Edits) -> EditedMemory:
        """Add the edits to the memory of the source."""
        bias = padding_bias(edits.padding_mask)
        edit_layers = [
            layer.remember_edits(edits, bias) for layer in self.layers if isinstance(layer, EditedDecoderLayer)
        ]
        both = tuple(of_source | of_edits for of_source, of_edits in zip(memory.layers, edit_layers, strict=True))
        return EditedMemory(both, memory.bias, edits.vector)

    def embed(self, tokens: Tensor, memory: SourceMemory, read: WordsRead) -> Tensor:
        assert isinstance(memory, EditedMemory)
        words = super().embed(tokens, memory, read)  # (B, Q, D)
        return torch.cat([words, memory.vector.unsqueeze(1).expand(-1, words.size(1), -1)], dim=-1)

    def forward(self, *reading: Any, **options: Any) -> tuple[Decoded, DecoderState]:
        """See ``TransformerDecoder``. The states have the width of the embeddings, but the context does not."""
        decoded, state = super().forward(*reading, **options)
        return decoded._replace(states=self.project_back(decoded.states)), state
