"""The decoders, the aggregator and the mixture of DNPG (Li et al., ACL 2019, sections 2.2 and 2.3).

Both levels read the words written so far. The aggregator reads their context vectors and predicts to which level the
next word belongs. From the next step on, the predicted label weights the word for the sentence level. Therefore the
sentence level and the aggregator run step by step, both in training and in generation. The phrase level needs no labels
and runs over all steps at once.

The words of both levels form one distribution, P(y_t) = P(z_t = 0) P_0(y_t) + P(z_t = 1) P_1(y_t). Only the phrase
level copies. Here P_0 is only its generating part g P_gen.

Legend: ``B`` batch, ``N`` hypotheses, ``W`` words stored per sentence, ``T`` target length, ``S`` source length,
``D_0``, ``D_1`` widths of the phrase and the sentence level, ``H`` hidden width of the aggregator, ``V`` base
vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .copying import log_add
from .dnpg_encoder import EncodedLevels
from .dnpg_levels import (
    LEVELS,
    PHRASE,
    SENTENCE,
    EmbeddedLevel,
    Labels,
    both_labels,
    even_labels,
    label_bias,
    past_neighbour_bias,
    source_bias,
    stack_labels,
)
from .query_embedding import OutputLayer
from .steps import Memory, State, fold_hypotheses
from .transformer import causal_bias
from .transformer_decoder import Decoded, LayerState, SourceMemory, remember, run_layers
from .words_read import SharedWords, WordsRead

HiddenCell = tuple[Tensor, Tensor]


class DecodedLevels(NamedTuple):
    """The results of both levels at each step, and the labels (B, T, 2) of the words to be written."""

    phrase: Decoded
    sentence: Decoded
    labels: Labels


@dataclass(frozen=True)
class LevelsMemory(Memory):
    """The source in the form that the layers of both levels read."""

    phrase: SourceMemory
    sentence: SourceMemory


@dataclass(frozen=True)
class LevelsState(State):
    """State after a step, which the next step reads."""

    read: WordsRead
    phrase: tuple[LayerState, ...]
    sentence: tuple[LayerState, ...]
    labels: SharedWords  # log P(z = 1) of the words that were read, under the name ``keys``, (B, W)
    last: Tensor  # log P(z) of the next word, (N, 2)
    position: Tensor  # current position in the sentence level, (N,)
    aggregator: HiddenCell  # tensors of shape (N, H)


class LevelAggregator(nn.Module):
    """v_t = LSTM(W_c [c_0; c_1; e(y_{t-1})], v_{t-1}); P(z_t) = GumbelSoftmax(W_v v_t)."""

    def __init__(self, input_dim: int, hidden_size: int) -> None:
        super().__init__()
        self.merge = nn.Linear(input_dim, hidden_size)  # W_c
        self.cell = nn.LSTMCell(hidden_size, hidden_size)
        self.label_proj = nn.Linear(hidden_size, LEVELS)  # W_v

    def forward(self, features: Tensor, state: HiddenCell) -> tuple[Tensor, HiddenCell]:
        """Run one step: features (B, input) and the previous state -> logits (B, 2) and the new state."""
        state = self.cell(self.merge(features), state)
        return self.label_proj(state[0]), state


class LevelsDecoder(nn.Module):
    """Two decoders, and the aggregator. The aggregator reads the embeddings of the phrase level.

    In the phrase level, a word attends to words whose distance is less than ``window``.
    """

    def __init__(
        self, phrase: EmbeddedLevel, sentence: EmbeddedLevel, aggregator: LevelAggregator, window: int
    ) -> None:
        super().__init__()
        self.phrase_embedding, self.phrase = phrase
        self.sentence_embedding, self.sentence = sentence
        self.aggregator = aggregator
        self.window = window

    def remember(self, encoded: EncodedLevels, padding_mask: Tensor) -> LevelsMemory:
        """Prepare the encoded source for all steps. ``padding_mask`` (B, S) is ``True`` at padding."""
        phrase, sentence = (source_bias(encoded.labels.used[..., level], padding_mask) for level in (PHRASE, SENTENCE))
        return LevelsMemory(
            remember(self.phrase.layers, encoded.phrase, phrase),
            remember(self.sentence.layers, encoded.sentence, sentence),
        )

    def begin(self, memory: LevelsMemory) -> LevelsState:
        """Return the state before the first step, with no words and the label z_0 of the start symbol."""
        bias = memory.phrase.bias
        last = even_labels(len(bias), bias.device)
        hidden = self.aggregator.merge.weight.new_zeros(len(bias), self.aggregator.cell.hidden_size)
        return LevelsState(
            WordsRead.empty(bias),
            tuple(LayerState() for _ in self.phrase.layers),
            tuple(LayerState() for _ in self.sentence.layers),
            SharedWords({}, axis=1),
            last,
            torch.zeros_like(last[:, 0]),
            (hidden, hidden),
        )

    def forward(
        self,
        tokens: Tensor,
        memory: LevelsMemory,
        state: LevelsState,
        temperature: Tensor | float,
        *,
        noisy: bool,
        given_labels: Tensor | None = None,
    ) -> tuple[DecodedLevels, LevelsState]:
        """Read more words, and return the results of both levels.

        Args:
            tokens: either one word, or all words from the first on, (N, T), with padding only on the right.
            memory: result of ``remember``.
            state: state after the previous words.
            temperature: temperature of the labels.
            noisy: sample labels instead of using their probabilities.
            given_labels: labels of the words to be written, (N, T): 0, 1, or a negative number for no label. If they
                are given, the sentence level reads them instead of the aggregator's labels and computes all steps at
                once. In that case, its state is not returned.

        Returns:
            The results of both levels, of shape (N, T, ...), and the state after these words.
        """
        read = state.read.append(torch.ones_like(tokens, dtype=torch.bool), len(memory.phrase.bias))
        state = replace(state, read=read)
        # Embed all words at once, because each embedding lookup has a gradient of the size of the embedding matrix.
        words = [embedding.words(tokens) for embedding in (self.phrase_embedding, self.sentence_embedding)]
        length = tokens.size(1)
        # The phrase level does not depend on labels, so it reads all words in one pass.
        positions = torch.arange(read.length - length + 1, read.length + 1, device=tokens.device).expand(tokens.shape)
        bias = past_neighbour_bias(read.place, length, self.window)  # (T, W)
        phrase, layers = self._read_words(PHRASE, words[PHRASE], positions, memory, state, bias)
        if given_labels is not None:
            sentence, logits = self._given_labels(words, memory, phrase, state, given_labels)
            return DecodedLevels(phrase, sentence, both_labels(logits, temperature, noisy=noisy)), state
        # The sentence level of a step needs the label that the aggregator predicted at the previous step. The
        # aggregator needs the sentence level's context of the current step. Therefore the two run alternately, one word
        # at a time.
        steps = []
        for phrase_word, word, context in zip(
            *(torch.split(tensor, 1, dim=1) for tensor in (*words, phrase.context)), strict=True
        ):
            sentence, state = self._sentence_step(word, memory, state)
            features = torch.cat([context, sentence.context, phrase_word], dim=-1).squeeze(1)
            logits, hidden_cell = self.aggregator(features, state.aggregator)
            labels = both_labels(logits, temperature, noisy=noisy)
            state = replace(state, last=labels.used, aggregator=hidden_cell)
            steps.append((sentence, labels))
        return _stack(phrase, steps), replace(state, phrase=layers)

    def _read_words(
        self, level: int, words: Tensor, positions: Tensor, memory: LevelsMemory, state: LevelsState, bias: Tensor
    ) -> tuple[Decoded, tuple[LayerState, ...]]:
        """Read the latest embedded words (N, T, D), at positions (N, T), with the layers of a level.

        The ``bias`` of the self-attention broadcasts to (B, A, K * T, W). The states and the context in the result have
        shape (N, T, ...). Only the phrase level returns weights, of shape (B, A, K * T, S).
        """
        embedding, layers, source, layer_states = (
            (self.phrase_embedding, self.phrase.layers, memory.phrase, state.phrase)
            if level == PHRASE
            else (self.sentence_embedding, self.sentence.layers, memory.sentence, state.sentence)
        )
        # Hypotheses of one sentence share its keys, so they are folded into the time dimension. A bias hides the words
        # of the other hypotheses.
        sentences = len(source.bias)
        hidden_words = state.read.bias(sentences)
        if hidden_words is not None:
            bias = bias + hidden_words
        states = fold_hypotheses(embedding.place(words, positions), sentences)
        decoded, new_layer_states = run_layers(
            layers, states, source, layer_states, state.read, bias, with_weights=level == PHRASE
        )
        states, context = (tensor.view(*words.shape[:2], -1) for tensor in (decoded.states, decoded.context))
        return Decoded(states, context, decoded.log_weights), new_layer_states

    def _sentence_step(self, word: Tensor, memory: LevelsMemory, state: LevelsState) -> tuple[Decoded, LevelsState]:
        """Read one more word, (N, 1, D_1), with the label ``state.last``.

        The position advances by the word's probability of belonging to the sentence level.
        """
        sentence_level = state.last[:, SENTENCE]  # (N,)
        labels = state.labels.append({"keys": sentence_level.view(len(memory.sentence.bias), -1)})
        position = state.position + sentence_level.exp()
        bias = label_bias(labels.kept["keys"])
        decoded, layers = self._read_words(SENTENCE, word, position.unsqueeze(1), memory, state, bias)
        return decoded, replace(state, sentence=layers, labels=labels, position=position)

    def _given_labels(
        self, words: list[Tensor], memory: LevelsMemory, phrase: Decoded, state: LevelsState, target_labels: Tensor
    ) -> tuple[Decoded, Tensor]:
        """Return the steps of the sentence level for given labels, and the logits (B, T, 2) of the aggregator."""
        # A known label is a probability of 0 or 1. The labels are shifted by one step, because a label weights the
        # input of the next step. If all labels are known, the sentence level runs over all steps at once.
        sentence_level = nn.functional.pad(
            target_labels[:, :-1].ne(PHRASE).float(), (1, 0), value=1.0 / LEVELS
        )  # (B, T)
        bias = causal_bias(target_labels.size(1), target_labels) + label_bias(sentence_level.log())
        positions = sentence_level.cumsum(dim=1)
        sentence, _ = self._read_words(SENTENCE, words[SENTENCE], positions, memory, state, bias)
        features = torch.cat([phrase.context, sentence.context, words[PHRASE]], dim=-1)
        hidden_cell, logits = state.aggregator, []
        for step_features in features.unbind(dim=1):
            step_logits, hidden_cell = self.aggregator(step_features, hidden_cell)
            logits.append(step_logits)
        return sentence, torch.stack(logits, dim=1)


def _stack(phrase: Decoded, steps: list[tuple[Decoded, Labels]]) -> DecodedLevels:
    states = torch.cat([sentence.states for sentence, _ in steps], dim=1)  # (B, T, D_1)
    context = torch.cat([sentence.context for sentence, _ in steps], dim=1)
    labels = stack_labels([labels for _, labels in steps])
    return DecodedLevels(phrase, Decoded(states, context, None), labels)


class LevelOutputs:
    """P(z = 0) g P_gen(y) + P(z = 1) P_1(y), computed from the output layers and embeddings, (V, D_0) and (V, D_1).

    Its features are the states of both levels and two log-weights, (N, D_0 + D_1 + 2). Its scores are
    log-probabilities.
    """

    def __init__(self, outputs: Sequence[OutputLayer], embeddings: Sequence[Tensor]) -> None:
        self.outputs = outputs
        self.embeddings = embeddings
        self.num_candidates = outputs[0].num_candidates
        # see ``OutputLayer``; true if it is true for both levels
        self.by_product = all(output.by_product for output in outputs)

    def scores(self, features: Tensor, _embeddings: Tensor) -> Tensor:
        """Return the log-probabilities of the words, (..., V), float32."""
        states, weights = self.split(features)
        log_probs = [
            torch.log_softmax(output.scores(state, words).float(), dim=-1)
            for output, state, words in zip(self.outputs, states, self.embeddings, strict=True)
        ]
        return mix_levels(log_probs, weights)

    def split(self, features: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the states of each level, (..., D_0) and (..., D_1), and the log-weights, (..., 2)."""
        *states, weights = torch.split(features, [*(words.size(1) for words in self.embeddings), 2], dim=-1)
        return [state.to(words.dtype) for state, words in zip(states, self.embeddings, strict=True)], weights

    def level_parts(self, features: Tensor) -> tuple[list[Any], Tensor]:
        """Return the factors of each level's scores, see ``OutputLayer.parts``, and the log-weights, (..., 2)."""
        states, weights = self.split(features)
        levels = zip(self.outputs, states, self.embeddings, strict=True)
        return [output.parts(state, words) for output, state, words in levels], weights


def mix_levels(log_probs: Sequence[Tensor], weights: Tensor) -> Tensor:
    """Return the log of the sum over both levels of probabilities (..., M) times exp(``weights``), (..., 2)."""
    return log_add(*(level_log_probs + weights[..., level, None] for level, level_log_probs in enumerate(log_probs)))
