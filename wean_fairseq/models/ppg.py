"""``ppg``: planning-based generation (Wang et al., COLING 2016, arXiv 1610.09889). Each line is written from its topic.

The paper writes poems. This project adapts the method to essays: a chunk of clauses replaces a line. The default sizes
could not be checked against the paper. Each chunk is written from its topic and all previous chunks.

The decoder counts the chunk symbols that it has read to find the chunk of a step. Chunk i starts from its topic r_i,
and attends to h_0 = r_i and to h_1 ... h_m, the states of a bidirectional GRU over the text before the chunk. In
training, all chunks are written in parallel. In generation, the text is encoded again at the beginning of each chunk.

A chunk ends with the chunk symbol, and the last chunk ends with the end symbol. However, the decoder does not know
which topic is the last. Therefore it learns to end all chunks in the same way: in the last chunk, and in any text after
it, the scores of chunk symbol and end symbol are swapped.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``k`` topic slots, ``R`` chunks of all
essays, ``L`` length of the longest chunk, ``M`` longest text before a chunk, ``E`` embedding width, ``H`` hidden width,
``A`` attention width, ``V`` words.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from ..capabilities import Capabilities
from ..fields import option
from ..modules import (
    AdditiveAttention,
    LossSums,
    Memory,
    State,
    Step,
    find_chunks,
    gru_update,
    masked_softmax,
    repeat_for_hypotheses,
    run_over_words,
    scatter_to_source,
    text_before,
    topic_words,
)
from ..modules.looped_linear import LoopedLinear
from .base import LossModel, SourceEncoder, WordScores, register_family
from .topics import TopicConfig, TopicDecoder, initialise
from .word_layers import required_word, word_embedding


@dataclass
class PpgConfig(TopicConfig):
    """Options of the model. The defaults are the known sizes of PPG instead of MTA-LSTM's sizes."""

    embed_dim: int = option(512, "width of the word embeddings, including those of topics", least=1)
    hidden_size: int = option(
        512, "units of the decoder, of each direction of both encoders, and of the attention", least=1
    )
    dropout: float = option(0.0, "dropout on the input words and on the readout")
    init_range: float = option(0.0, "initialise weights uniformly in [-x, x]; 0 = PyTorch's defaults", least=0)
    chunk_symbol: str = option(
        "<chunk>",
        "word that separates the chunks of an essay in the output of preprocess/clause_chunks.py; "
        "the i-th chunk is written from the i-th topic",
    )


PRESETS = {"ppg_small": {"embed_dim": 128, "hidden_size": 256, "dropout": 0.3}}  # small enough to train on a CPU


@dataclass(frozen=True)
class PpgMemory(Memory):
    """The topics of each essay, encoded as vectors."""

    topics: Tensor  # vectors r of the topics, (B, k, 2H)
    last: Tensor  # number of the last topic, (B,)
    slot: Tensor  # slot of each source position, (B, S)


@dataclass(frozen=True)
class ChunkMemory(State):
    """The text before the chunk that is being written, encoded for the attention, with one row per chunk."""

    states: Tensor  # h_0 ... h_m, (R, 1 + M, 2H)
    keys: Tensor  # the term of the attention scores that depends on ``states``, (R, 1 + M, A)
    padding_mask: Tensor  # (R, 1 + M)


@dataclass(frozen=True)
class PpgState(State):
    """State after a step, which the next step reads."""

    words: Tensor  # all words read so far, (N, T)
    number: Tensor  # number of the chunk, from 0, (N,)
    hidden: Tensor  # s_t, (N, H)
    chunk: ChunkMemory | None  # None before the first step


class _Written(NamedTuple):
    readout: Tensor  # features from which words are scored, (R, L, E)
    topic_weights: Tensor  # attention weight of h_0, float32, (R, L)
    hidden: Tensor  # state after the last step, (R, H)


class PpgDecoder(TopicDecoder[PpgMemory, PpgState]):
    """The state is s_t = GRU(s_{t-1}, [y_{t-1}; c_t]).

    The features for scoring words are tanh of a linear map of [s_t; c_t; y_{t-1}].

    ``A`` equals ``H``. Dropout is applied to the input words and to the readout.
    """

    ends: Tensor  # the chunk symbol and the end symbol, (2,)

    def __init__(
        self, dictionary: Dictionary, embed_tokens: nn.Embedding, hidden_size: int, chunk_index: int, dropout: float
    ) -> None:
        width = embed_tokens.embedding_dim
        super().__init__(dictionary, embed_tokens, width)
        self.eos_idx = dictionary.eos()
        self.chunk_index = chunk_index
        self.register_buffer("ends", torch.tensor([chunk_index, dictionary.eos()]), persistent=False)
        self.text_gru = nn.GRU(width, hidden_size, batch_first=True, bidirectional=True)
        self.start_proj = nn.Linear(2 * hidden_size, hidden_size)
        self.attention = AdditiveAttention(hidden_size, 2 * hidden_size, hidden_size)
        self.cell = nn.GRUCell(width + 2 * hidden_size, hidden_size)
        self.readout = nn.Linear(hidden_size + 2 * hidden_size + width, width)
        self.dropout = nn.Dropout(dropout)

    def remember(self, encoder_out: dict[str, Tensor]) -> PpgMemory:
        return PpgMemory(encoder_out["topics"], (encoder_out["num_topics"] - 1).clamp(min=0), encoder_out["slot"])

    def begin(self, memory: PpgMemory) -> PpgState:
        no_words = memory.last.new_empty(len(memory.last), 0)
        hidden = memory.topics.new_zeros(len(memory.last), self.cell.hidden_size)
        return PpgState(no_words, torch.full_like(memory.last, -1), hidden, None)

    def steps(self, words: Tensor, memory: PpgMemory) -> Step:
        """Return all steps of the words (B, T). All chunks are computed in parallel.

        ``extra`` is described in ``step``.
        """
        chunks = find_chunks(words, self.padding_idx, self.chunk_index)
        topic = self._topic(chunks.number, chunks.text, memory)
        chunk = self._remember_chunks(text_before(words, chunks, self.padding_idx), topic)
        written = self._write(chunks.split(self._embed(words)), chunk, torch.tanh(self.start_proj(topic)))
        weights = chunks.join(written.topic_weights)
        return self._make_step(chunks.join(written.readout), weights, chunks.number[chunks.row], memory)

    def step(self, words: Tensor, memory: PpgMemory, state: PpgState) -> tuple[Step, PpgState]:
        """See ``StepDecoder``. This decoder reads one word at a time.

        ``attention`` contains the weight of h_0 at the position of the topic. The remaining weight is on the previous
        text. ``extra`` has ``last_chunk`` (N, T), which is ``True`` from the last topic on.
        """
        # A chunk begins at a chunk symbol. For these hypotheses, the previous text is encoded and the state restarts
        # from the topic. The others continue with the memory of their chunk.
        begins = words[:, 0].eq(self.chunk_index) | state.number.lt(0)  # the first word also begins a chunk
        all_words = torch.cat([state.words, words], dim=1)
        number, hidden, chunk = state.number + begins.long(), state.hidden, state.chunk
        # Here the CPU waits for the GPU, which costs less than encoding the text at every word.
        rows = begins.nonzero().squeeze(1)
        if chunk is None or len(rows):
            topic = self._topic(number[rows], rows // (len(words) // len(memory.last)), memory)
            new_chunk = self._remember_chunks(all_words[rows, 1:], topic)
            hidden = hidden.index_copy(0, rows, torch.tanh(self.start_proj(topic)))
            chunk = new_chunk if chunk is None else _replace(chunk, rows, new_chunk)
        written = self._write(self._embed(words), chunk, hidden)
        padding = words.eq(self.padding_idx)  # padding has no features, as in ``steps``
        features = written.readout.masked_fill(padding.unsqueeze(2), 0.0)
        weights = written.topic_weights.masked_fill(padding, 0.0)
        step = self._make_step(features, weights, number.unsqueeze(1), memory)
        return step, PpgState(all_words, number, written.hidden, chunk)

    def scores(self, step: Step, memory: PpgMemory) -> Tensor:
        """See ``StepDecoder``. In the last chunk, the scores of chunk symbol and end symbol are swapped."""
        scores = super().scores(step, memory)
        return scores.index_copy(-1, self.ends, _swap_end_scores(step, scores[..., self.ends]))

    def finish(self, step: Step, memory: PpgMemory, scores: WordScores, log_sum: Tensor) -> Tensor:
        ends = self.ends.expand(len(log_sum), 2)
        scores.put(ends, _swap_end_scores(step, scores.get(ends).unsqueeze(1)).squeeze(1))
        return log_sum

    def step_loss(self, step: Step, memory: PpgMemory, target: Tensor, label_smoothing: float) -> LossSums:
        last = step.extra["last_chunk"]
        ended, continued = last & target.eq(self.eos_idx), last & target.eq(self.chunk_index)
        target = target.masked_fill(ended, self.chunk_index).masked_fill(continued, self.eos_idx)
        return super().step_loss(step, memory, target, label_smoothing)

    def _make_step(self, features: Tensor, weights: Tensor, number: Tensor, memory: PpgMemory) -> Step:
        """Build a step from its features, the weights of h_0 (N, T), and the indices of the chunks (N, T)."""
        last = repeat_for_hypotheses(memory.last, len(number)).unsqueeze(1)  # (N, 1)
        topic = torch.minimum(number, last).unsqueeze(2)  # (N, T, 1)
        topic_weights = weights.new_zeros(*weights.shape, memory.topics.size(1)).scatter(2, topic, weights.unsqueeze(2))
        attention = scatter_to_source(topic_weights, repeat_for_hypotheses(memory.slot, len(number)))
        return Step(features, attention, extra={"last_chunk": number >= last})

    def _topic(self, number: Tensor, text: Tensor, memory: PpgMemory) -> Tensor:
        """Return r (R, 2H) of the chunks ``number`` (R,) of the essays ``text`` (R,).

        Later chunks get the last topic.
        """
        return memory.topics[text, torch.minimum(number, memory.last[text])]

    def _remember_chunks(self, previous_text: Tensor, topic: Tensor) -> ChunkMemory:
        """Encode the texts before some chunks (R, M), padded on the right, and prepend the chunks' topics (R, 2H)."""
        padding_mask = previous_text.eq(self.padding_idx)
        states = topic.unsqueeze(1)
        if previous_text.size(1):
            encoded, _ = run_over_words(self.text_gru, self._embed(previous_text), padding_mask)
            states = torch.cat([states, encoded.to(states.dtype)], dim=1)
        return ChunkMemory(states, self.attention.project_keys(states), pad(padding_mask, (1, 0), value=False))

    def _write(self, words: Tensor, memory: ChunkMemory, hidden: Tensor) -> _Written:
        """Run the decoder over the embedded words (R, L, E) of chunks, starting from the state ``hidden`` (R, H)."""
        width = words.size(-1)
        word_gates = linear(words, self.cell.weight_ih[:, :width], self.cell.bias_ih)  # (R, L, 3H)
        context_map = LoopedLinear(self.cell.weight_ih[:, width:])
        hidden_map = LoopedLinear(self.cell.weight_hh, self.cell.bias_hh)
        query_map = self.attention.query_map()
        states, contexts, weights = [], [], []
        for gates in word_gates.unbind(dim=1):
            scores = self.attention.scores(hidden, memory.keys, query_map=query_map).float()
            attended = masked_softmax(scores.unsqueeze(1), memory.padding_mask)  # (R, 1, 1 + M)
            context = torch.bmm(attended.to(words.dtype), memory.states).squeeze(1)  # c_t, (R, 2H)
            hidden = gru_update(gates + context_map(context), hidden_map(hidden), hidden)
            states.append(hidden)
            contexts.append(context)
            weights.append(attended[:, 0, 0])
        readout_input = torch.cat([torch.stack(states, dim=1), torch.stack(contexts, dim=1), words], dim=-1)
        readout = self.dropout(torch.tanh(self.readout(readout_input)))
        return _Written(readout, torch.stack(weights, dim=1), hidden)

    def _embed(self, tokens: Tensor) -> Tensor:
        dropped: Tensor = self.dropout(self.embed_tokens(tokens))
        return dropped


def _swap_end_scores(step: Step, scores: Tensor) -> Tensor:
    """Swap the scores (N, T, 2) of the chunk symbol and the end symbol in the last chunk."""
    return torch.where(step.extra["last_chunk"].unsqueeze(-1), scores.flip(-1), scores)


def _replace(memory: ChunkMemory, rows: Tensor, new: ChunkMemory) -> ChunkMemory:
    """Replace the rows of ``memory`` in which a new chunk begins with the rows of ``new``."""
    longer = new.states.size(1) - memory.states.size(1)
    states = pad(memory.states, (0, 0, 0, longer)).index_copy(0, rows, new.states)
    keys = pad(memory.keys, (0, 0, 0, longer)).index_copy(0, rows, new.keys)
    mask = pad(memory.padding_mask, (0, longer), value=True).index_copy(0, rows, new.padding_mask)
    return ChunkMemory(states, keys, mask)


class PpgEncoder(SourceEncoder):
    """Compute r_i = [forward; backward] over topic i, which is a single word."""

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, hidden_size: int) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.gru = nn.GRU(embed_tokens.embedding_dim, hidden_size, batch_first=True, bidirectional=True)
        for name, weight in self.gru.named_parameters():
            if name.startswith("weight_hh"):
                # These weights multiply the initial state, which is 0. A topic of one word uses no other state, in
                # either direction.
                weight.requires_grad_(False)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode the topics.

        Return ``topics`` r (B, k, 2H), zero in unused topic slots, ``num_topics`` (B,), and ``slot`` (B, S): the topic
        slot of each source position, or -1 at positions without a topic.
        """
        words = topic_words(src_tokens, self.padding_idx, self.eos_idx)
        embedded = self.embed_tokens(words.tokens)  # (B, k, E)
        encoded, _ = self.gru(embedded.flatten(0, 1).unsqueeze(1))  # (B * k, 1, 2H)
        topics = encoded.view(*words.tokens.shape, -1).masked_fill(words.padding_mask.unsqueeze(-1), 0.0)
        return {
            "topics": topics,
            "num_topics": (~words.padding_mask).sum(dim=1),
            "slot": words.slot,
        }


@register_family("ppg", PpgConfig, PRESETS)
class PpgModel(LossModel):
    """Encode each topic and the text so far. Write one chunk from each topic."""

    capabilities = Capabilities(adds_losses=True)

    @classmethod
    def build(cls, cfg: PpgConfig, task: FairseqTask) -> "PpgModel":
        dictionary = task.source_dictionary
        chunk_index = required_word(
            dictionary,
            cfg.chunk_symbol,
            "ppg needs the chunk symbol",
            "write the essays with preprocess/clause_chunks.py, or name another word with --chunk-symbol.",
        )
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        encoder = PpgEncoder(dictionary, embed_tokens, cfg.hidden_size)
        decoder = PpgDecoder(dictionary, embed_tokens, cfg.hidden_size, chunk_index, cfg.dropout)
        model = cls(encoder, decoder)
        initialise(model, cfg)
        return model
