"""The decoders and the aggregator of DNPG (Li et al., ACL 2019, sections 2.2 and 2.3).

Both levels read the words written so far; the aggregator reads what they found in the source and says which level the
next word belongs to. That label weighs the word for the sentence level from the next step on, so the sentence level and
the aggregator run step by step, in training as in generation; the phrase level needs no labels and runs over all steps
at once.

Legend: ``B`` batch, ``T`` target length, ``S`` source length, ``D_0``, ``D_1`` widths of the phrase and the sentence
level, ``H`` hidden width of the aggregator.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .fractional_positions import FractionalEmbedding
from .granularity_encoder import EncodedLevels
from .granularity_levels import DecoderLevel, label_bias, past_neighbour_bias, source_bias
from .soft_labels import LEVELS, PHRASE, SENTENCE, Labels, both_labels, even_labels
from .transformer import Cache, Decoded, causal_bias

HiddenCell = tuple[Tensor, Tensor]


class DecodedLevels(NamedTuple):
    """What both levels give at each step, and the labels of the words that the steps write, (B, T, 2)."""

    phrase: Decoded
    sentence: Decoded
    labels: Labels


class Source(NamedTuple):
    """The source as the decoders read it: ``encoded``, and for each level the bias of the attention to it."""

    encoded: EncodedLevels
    phrase_bias: Tensor
    sentence_bias: Tensor


class GranularityAggregator(nn.Module):
    """v_t = LSTM(W_c [c_0; c_1; e(y_{t-1})], v_{t-1}); P(z_t) = GumbelSoftmax(W_v v_t).

    Args:
        input_dim: width of [c_0; c_1; e].
        hidden_size: ``H``.
    """

    def __init__(self, input_dim: int, hidden_size: int) -> None:
        super().__init__()
        self.merge = nn.Linear(input_dim, hidden_size)  # W_c
        self.cell = nn.LSTMCell(hidden_size, hidden_size)
        self.label_proj = nn.Linear(hidden_size, LEVELS)  # W_v

    def forward(self, features: Tensor, state: HiddenCell) -> tuple[Tensor, HiddenCell]:
        """One step: features (B, input) and the state before -> logits (B, 2) and the state after."""
        state = self.cell(self.merge(features), state)
        return self.label_proj(state[0]), state


class GranularityDecoder(nn.Module):
    """Two decoders and the aggregator.

    Args:
        phrase_embedding: of the phrase level; the aggregator reads its words too.
        phrase: its layers.
        sentence_embedding: of the sentence level.
        sentence: its layers.
        aggregator: from [c_0; c_1; e].
        window: the phrase level reads words that are less than this apart.
    """

    def __init__(
        self,
        phrase_embedding: FractionalEmbedding,
        phrase: DecoderLevel,
        sentence_embedding: FractionalEmbedding,
        sentence: DecoderLevel,
        aggregator: GranularityAggregator,
        window: int,
    ) -> None:
        super().__init__()
        self.phrase_embedding = phrase_embedding
        self.phrase = phrase
        self.sentence_embedding = sentence_embedding
        self.sentence = sentence
        self.aggregator = aggregator
        self.window = window

    def forward(
        self,
        tokens: Tensor,
        encoded: EncodedLevels,
        source_padding_mask: Tensor,
        temperature: Tensor | float,
        *,
        noisy: bool,
        caches: dict[str, Cache] | None = None,
        given_labels: Tensor | None = None,
    ) -> DecodedLevels:
        """Read the words written so far.

        Args:
            tokens: the words before each step, shape (B, T), padding on the right only; with ``caches`` only the last
                step is computed.
            encoded: the source.
            source_padding_mask: ``True`` at source padding, shape (B, S).
            temperature: of the labels.
            noisy: draw labels instead of weighing them.
            caches: by the names of ``cache_names``, filled here step by step; batch first.
            given_labels: labels of the words that the steps write, 0, 1 or negative for none, shape (B, T): the
                sentence level reads these instead of the aggregator's, all steps at once.
        """
        source = Source(
            encoded,
            source_bias(encoded.labels.used[..., PHRASE], source_padding_mask),
            source_bias(encoded.labels.used[..., SENTENCE], source_padding_mask),
        )
        phrase = self._phrase_level(tokens, source, caches)
        if given_labels is not None:
            sentence, logits = self._given_labels(tokens, source, phrase, given_labels)
            return DecodedLevels(phrase, sentence, both_labels(logits, temperature, noisy=noisy))
        state = {} if caches is None else caches["labels"]
        if not state:
            state.update(self._start(tokens))
        level_caches = self._caches(caches, "sentence", self.sentence)
        steps = []
        words = torch.split(tokens[:, -phrase.states.size(1) :], 1, dim=1)  # (B, 1) each
        for word, context in zip(words, torch.split(phrase.context, 1, dim=1), strict=True):
            sentence = self._sentence_step(word, source, state, level_caches)
            features = self._features(context, sentence.context, word).squeeze(1)
            logits, (state["hidden"], state["cell"]) = self.aggregator(features, (state["hidden"], state["cell"]))
            labels = both_labels(logits, temperature, noisy=noisy)
            state["last"] = labels.used
            steps.append((sentence, labels))
        return _stack(phrase, steps)

    def cache_names(self) -> list[str]:
        """Names of what is kept between steps of generation."""
        levels = [("phrase", self.phrase), ("sentence", self.sentence)]
        return ["labels", *(f"{name}{number}" for name, level in levels for number in range(len(level.layers)))]

    def _caches(self, caches: dict[str, Cache] | None, name: str, level: DecoderLevel) -> list[Cache]:
        """One for each layer of a level; new ones where none are given."""
        return [{} if caches is None else caches[f"{name}{number}"] for number in range(len(level.layers))]

    def _phrase_level(self, tokens: Tensor, source: Source, caches: dict[str, Cache] | None) -> Decoded:
        positions = torch.arange(1, tokens.size(1) + 1, device=tokens.device).expand_as(tokens)
        bias = past_neighbour_bias(tokens.size(1), self.window, tokens.device)
        level_caches = None
        if caches is not None:
            tokens, positions, bias = tokens[:, -1:], positions[:, -1:], bias[-1:]
            level_caches = self._caches(caches, "phrase", self.phrase)
        decoded: Decoded = self.phrase(
            self.phrase_embedding(tokens, positions),
            source.encoded.phrase,
            bias,
            source.phrase_bias,
            level_caches,
            with_weights=True,
        )
        return decoded

    def _start(self, tokens: Tensor) -> Cache:
        """Before the first step: nothing was written, and the symbol that starts a sentence has the label z_0."""
        last = even_labels(len(tokens), tokens.device)
        hidden = self.aggregator.merge.weight.new_zeros(len(tokens), self.aggregator.cell.hidden_size)
        return {
            "last": last,
            "keys": last[:, :0],
            "position": torch.zeros_like(last[:, 0]),
            "hidden": hidden,
            "cell": hidden,
        }

    def _sentence_step(self, token: Tensor, source: Source, state: Cache, caches: list[Cache]) -> Decoded:
        """Read one more word, (B, 1), whose label is ``state["last"]``."""
        sentence_level = state["last"][:, SENTENCE]  # (B,)
        state["keys"] = torch.cat([state["keys"], sentence_level.unsqueeze(1)], dim=1)  # of all words so far
        state["position"] = state["position"] + sentence_level.exp()
        embedded = self.sentence_embedding(token, state["position"].unsqueeze(1))
        bias = label_bias(state["keys"])
        decoded: Decoded = self.sentence(embedded, source.encoded.sentence, bias, source.sentence_bias, caches)
        return decoded

    def _given_labels(self, tokens: Tensor, source: Source, phrase: Decoded, given: Tensor) -> tuple[Decoded, Tensor]:
        """The sentence level with given labels: its steps, and the aggregator's logits (B, T, 2)."""
        sentence_level = nn.functional.pad(given[:, :-1].ne(PHRASE).float(), (1, 0), value=1.0 / LEVELS)  # (B, T)
        bias = causal_bias(tokens.size(1), tokens) + label_bias(sentence_level.log())
        embedded = self.sentence_embedding(tokens, sentence_level.cumsum(dim=1))
        sentence = self.sentence(embedded, source.encoded.sentence, bias, source.sentence_bias)
        features = self._features(phrase.context, sentence.context, tokens)
        state = self._start(tokens)
        hidden_cell, logits = (state["hidden"], state["cell"]), []
        for step in features.unbind(dim=1):
            step_logits, hidden_cell = self.aggregator(step, hidden_cell)
            logits.append(step_logits)
        return sentence, torch.stack(logits, dim=1)

    def _features(self, phrase_context: Tensor, sentence_context: Tensor, tokens: Tensor) -> Tensor:
        """[c_0; c_1; e(y_{t-1})]."""
        return torch.cat([phrase_context, sentence_context, self.phrase_embedding.words(tokens)], dim=-1)


def _stack(phrase: Decoded, steps: list[tuple[Decoded, Labels]]) -> DecodedLevels:
    """Steps of one word each as one."""
    states = torch.cat([sentence.states for sentence, _ in steps], dim=1)  # (B, T, D_1)
    context = torch.cat([sentence.context for sentence, _ in steps], dim=1)
    used = torch.stack([labels.used for _, labels in steps], dim=1)  # (B, T, 2)
    expected = torch.stack([labels.expected for _, labels in steps], dim=1)
    return DecodedLevels(phrase, Decoded(states, context, None), Labels(used, expected))
