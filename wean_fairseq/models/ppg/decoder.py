"""The decoder of PPG (Wang et al., COLING 2016): each chunk is written from its topic and all chunks before it.

The decoder finds the chunk of a step by counting the chunk symbols that it has read. Chunk i starts from its topic
r_i, and attends to h_0 = r_i and h_1 ... h_m, the states of a bidirectional GRU over the text before the chunk. In
training all chunks are written side by side; in generation the text is encoded again whenever a chunk begins.

A chunk ends with the chunk symbol, the last one with the end symbol, but the decoder does not know which topic is the
last. So there is one way of ending a chunk for all of them: in the last chunk, and in what may follow it, the scores of
the chunk symbol and of the end symbol change places.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``k`` topic slots, ``R`` chunks of all essays, ``L``
length of the longest chunk, ``M`` longest text before a chunk, ``E`` embedding width, ``H`` hidden width, ``A``
attention width.
"""

from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from ...modules import (
    AdditiveAttention,
    LossSums,
    at_source_positions,
    find_chunks,
    gru_update,
    masked_softmax,
    run_over_words,
    text_before,
)
from ..base import State
from ..topics import TopicDecoder


class _Memory(NamedTuple):
    """What a chunk is written from."""

    states: Tensor  # h_0 ... h_m, (R, 1 + M, 2H)
    keys: Tensor  # their part of the attention, (R, 1 + M, A)
    padding_mask: Tensor  # (R, 1 + M)


class _Written(NamedTuple):
    """What was computed for the steps of each chunk."""

    readout: Tensor  # what words are scored from, (R, L, E)
    topic_weights: Tensor  # the attention that h_0 got, float32, (R, L)
    hidden: Tensor  # after the last step, (R, H)


class PpgDecoder(TopicDecoder):
    """s_t = GRU(s_{t-1}, [y_{t-1}; c_t]); words are scored from tanh of a linear map of [s_t; c_t; y_{t-1}].

    Args:
        dictionary: of source and target.
        embed_tokens: (V, E).
        hidden_size: ``H`` = ``A``.
        chunk_index: id of the chunk symbol.
        dropout: on the words read and on the readout.
    """

    def __init__(
        self, dictionary: Dictionary, embed_tokens: nn.Embedding, hidden_size: int, chunk_index: int, dropout: float
    ) -> None:
        width = embed_tokens.embedding_dim
        super().__init__(dictionary, embed_tokens, width)
        self.eos_idx = dictionary.eos()
        self.chunk_index = chunk_index
        self.text_gru = nn.GRU(width, hidden_size, batch_first=True, bidirectional=True)
        self.start_proj = nn.Linear(2 * hidden_size, hidden_size)
        self.attention = AdditiveAttention(hidden_size, 2 * hidden_size, hidden_size)
        self.cell = nn.GRUCell(width + 2 * hidden_size, hidden_size)
        self.readout = nn.Linear(hidden_size + 2 * hidden_size + width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: State | None = None,
        **_unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Scores of the next word at every step; see ``TopicDecoder``.

        ``attn`` is the weight of h_0, at the topic; the rest of the attention is on the text before.
        """
        logits, extra = super().forward(prev_output_tokens, encoder_out, incremental_state)
        ends = [self.chunk_index, self.eos_idx]
        swapped = torch.where(extra["last_chunk"].unsqueeze(-1), logits[..., ends[::-1]], logits[..., ends])
        return logits.index_copy(-1, torch.tensor(ends, device=logits.device), swapped), extra

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> LossSums:
        """Loss sums against ``target`` (B, T), without building the logits."""
        features, extra = self.extract_features(prev_output_tokens, encoder_out)
        last = extra["last_chunk"]
        ended, went_on = last & target.eq(self.eos_idx), last & target.eq(self.chunk_index)
        target = target.masked_fill(ended, self.chunk_index).masked_fill(went_on, self.eos_idx)
        return self.word_loss(features, target, label_smoothing)

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: State | None = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """What words are scored from, (B, T, E); arguments as ``forward``.

        Returns:
            The features, and ``{"attn": [weights (B, T, S)], "last_chunk": True from the last topic on, (B, T)}``.
        """
        if incremental_state is None:
            features, weights, number = self._all_chunks(prev_output_tokens, encoder_out)
        else:
            features, weights, number = self._next_step(prev_output_tokens, encoder_out, incremental_state)
        last = (encoder_out["num_topics"].unsqueeze(1) - 1).clamp(min=0)  # (B, 1)
        topic = torch.minimum(number, last).unsqueeze(2)  # (B, T, 1)
        of_topics = weights.new_zeros(*weights.shape, encoder_out["topics"].size(1)).scatter(
            2, topic, weights.unsqueeze(2)
        )
        attn = at_source_positions(of_topics, encoder_out["slot"])
        return features, {"attn": [attn], "last_chunk": number >= last}

    def _all_chunks(self, words: Tensor, encoder_out: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """All steps of words (B, T): features (B, T, E), weights of h_0 (B, T), numbers of the chunks (B, T)."""
        chunks = find_chunks(words, self.padding_idx, self.chunk_index)
        topic = self._topic(chunks.number, chunks.text, encoder_out)
        memory = self._remember(text_before(words, chunks, self.padding_idx), topic)
        written = self._write(chunks.split(self._embed(words)), memory, torch.tanh(self.start_proj(topic)))
        number = chunks.number[chunks.row]
        return chunks.join(written.readout), chunks.join(written.topic_weights), number

    def _next_step(
        self, words: Tensor, encoder_out: dict[str, Tensor], incremental_state: State
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The last step of words (B, T) alone, as ``_all_chunks``; what is needed of the others was kept."""
        kept = self.get_incremental_state(incremental_state, "state")
        begins = words[:, -1].eq(self.chunk_index)
        if kept is None:
            begins = torch.ones_like(begins)
            number, hidden, memory = begins.long() - 1, None, None
        else:
            number, hidden = kept["number"] + begins.long(), kept["hidden"]
            memory = _Memory(kept["states"], kept["keys"], kept["padding_mask"])
        if hidden is None or memory is None or bool(begins.any()):
            rows = begins.nonzero().squeeze(1)
            topic = self._topic(number[rows], rows, encoder_out)
            new = self._remember(words[rows, 1:], topic)
            start = torch.tanh(self.start_proj(topic))
            hidden = start if hidden is None else hidden.index_copy(0, rows, start)
            memory = new if memory is None else _replace(memory, rows, new)
        written = self._write(self._embed(words[:, -1:]), memory, hidden)
        state = memory._asdict() | {"number": number, "hidden": written.hidden}
        self.set_incremental_state(incremental_state, "state", state)
        padding = words[:, -1:].eq(self.padding_idx)  # has no features, as in training
        features = written.readout.masked_fill(padding.unsqueeze(2), 0.0)
        return features, written.topic_weights.masked_fill(padding, 0.0), number.unsqueeze(1)

    def _topic(self, number: Tensor, text: Tensor, encoder_out: dict[str, Tensor]) -> Tensor:
        """r of chunks ``number`` (R,) of essays ``text`` (R,), the last topic's where there are no more: (R, 2H)."""
        last = (encoder_out["num_topics"][text] - 1).clamp(min=0)
        return encoder_out["topics"][text, torch.minimum(number, last)]

    def _remember(self, before: Tensor, topic: Tensor) -> _Memory:
        """Encode the text before chunks, (R, M), padded on the right, beside their topics (R, 2H)."""
        padding_mask = before.eq(self.padding_idx)
        states = topic.unsqueeze(1)
        if before.size(1):
            encoded, _ = run_over_words(self.text_gru, self._embed(before), padding_mask)
            states = torch.cat([states, encoded.to(states.dtype)], dim=1)
        return _Memory(states, self.attention.project_keys(states), pad(padding_mask, (1, 0), value=False))

    def _write(self, words: Tensor, memory: _Memory, hidden: Tensor) -> _Written:
        """The steps of chunks, whose embedded words (R, L, E) are known, from the state ``hidden`` (R, H)."""
        width = words.size(-1)
        word_gates = linear(words, self.cell.weight_ih[:, :width], self.cell.bias_ih)  # (R, L, 3H)
        context_weight = self.cell.weight_ih[:, width:]
        states, contexts, weights = [], [], []
        for gates in word_gates.unbind(dim=1):
            scores = self.attention.scores(hidden, memory.keys).float()
            attended = masked_softmax(scores.unsqueeze(1), memory.padding_mask)  # (R, 1, 1 + M)
            context = torch.bmm(attended.to(words.dtype), memory.states).squeeze(1)  # c_t, (R, 2H)
            hidden_gates = linear(hidden, self.cell.weight_hh, self.cell.bias_hh)
            hidden = gru_update(gates + linear(context, context_weight), hidden_gates, hidden)
            states.append(hidden)
            contexts.append(context)
            weights.append(attended[:, 0, 0])
        given = torch.cat([torch.stack(states, dim=1), torch.stack(contexts, dim=1), words], dim=-1)
        readout = self.dropout(torch.tanh(self.readout(given)))
        return _Written(readout, torch.stack(weights, dim=1), hidden)

    def _embed(self, tokens: Tensor) -> Tensor:
        dropped: Tensor = self.dropout(self.embed_tokens(tokens))
        return dropped

    def reorder_incremental_state(self, incremental_state: State, new_order: Tensor) -> None:
        """Let the states follow the hypotheses ``new_order`` (B',) that beam search kept."""
        kept = self.get_incremental_state(incremental_state, "state")
        if kept is not None:
            moved = {name: value.index_select(0, new_order) for name, value in kept.items()}
            self.set_incremental_state(incremental_state, "state", moved)


def _replace(memory: _Memory, rows: Tensor, new: _Memory) -> _Memory:
    """Put what a chunk that begins is written from in the place of what the chunk before it was."""
    longer = new.states.size(1) - memory.states.size(1)
    states = pad(memory.states, (0, 0, 0, longer)).index_copy(0, rows, new.states)
    keys = pad(memory.keys, (0, 0, 0, longer)).index_copy(0, rows, new.keys)
    mask = pad(memory.padding_mask, (0, longer), value=True).index_copy(0, rows, new.padding_mask)
    return _Memory(states, keys, mask)
