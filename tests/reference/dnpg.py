"""DNPG for one sentence pair, computed from the raw weights for one word and one head at a time (Li et al., 2019)."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tests.reference import query_scores
from tests.reference.pointer_generator import SCORES, lstm_cell
from tests.reference.transformer import attend, feed_forward, layer_norm, linear
from tests.reference.wean_lstm import run_lstm

NEVER = float("-inf")


class Reading(NamedTuple):
    probs: Tensor  # probability of every word and slot at every step, (T, V + K)
    source_labels: Tensor  # P(z_l), (S, 2)
    target_labels: Tensor  # P(z_t), (T, 2)


def softmax(scores: Tensor) -> Tensor:
    return torch.exp(scores) / torch.exp(scores).sum()


def at_position(words: Tensor, word: int, position: float) -> Tensor:
    """Return sqrt(D) e(word) plus the sine and cosine of position / 10000^(2k / D)."""
    dim = words.size(1)
    out = words[word] * math.sqrt(dim)
    for k in range(dim // 2):
        angle = torch.as_tensor(position / 10000 ** (2 * k / dim))
        out = out + torch.sin(angle) * one_hot(dim, 2 * k) + torch.cos(angle) * one_hot(dim, 2 * k + 1)
    return out


def one_hot(size: int, place: int) -> Tensor:
    return torch.eye(size)[place]


def separate(separator: Any, source: list[int], temperature: float) -> Tensor:
    """Return P(z_l | X), (S, 2)."""
    hidden = separator.cell.hidden_size
    zero = torch.zeros(hidden // 2)
    read, _ = run_lstm(separator.reader, [separator.words.weight[word] for word in source], [(zero, zero)] * 2)
    h = c = torch.zeros(hidden)
    z, labels = torch.tensor([0.5, 0.5]), []
    for word in read:
        h, c = lstm_cell(separator.cell, torch.cat([word, z]), h, c)
        z = softmax(linear(separator.label_proj, h) / temperature)
        labels.append(z)
    return torch.stack(labels)


def near(i: int, j: int, window: int) -> float:
    return 0.0 if abs(i - j) < window else NEVER


def encode_level(layers: Any, states: list[Tensor], bias: list[list[float]]) -> list[Tensor]:
    for layer in layers:
        attended = [attend(layer.self_attention, x, states, bias[i])[0] for i, x in enumerate(states)]
        states = [layer_norm(layer.self_norm, x + a) for x, a in zip(states, attended, strict=True)]
        states = [layer_norm(layer.output_norm, x + feed_forward(layer.feed_forward, x)) for x in states]
    return states


def decode_level(
    layers: Any, embedded: list[Tensor], bias: list[Any], source: list[Tensor], cross: list[Any]
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the step for the last word of ``embedded`` from the whole prefix: o (D,), c (D,) and weights (A, S).

    ``bias`` has one row per word of the prefix.
    """
    states = embedded
    for layer in layers:
        steps = []
        for i, below in enumerate(states):
            attended, _ = attend(layer.self_attention, below, states[: i + 1], bias[i])
            asker = layer_norm(layer.self_norm, below + attended)
            context, weights = attend(layer.cross_attention, asker, source, cross)
            x = layer_norm(layer.cross_norm, asker + context)
            steps.append((layer_norm(layer.output_norm, x + feed_forward(layer.feed_forward, x)), context, weights))
        states = [step[0] for step in steps]
    return steps[-1]


def word_probabilities(layer: Any, state: Tensor, embeddings: Tensor) -> Tensor:
    kind = SCORES[type(layer.score).__name__]
    return softmax(query_scores.scores(kind, state.unsqueeze(0), embeddings, dict(layer.named_parameters()))[0])


def read(
    model: Any,
    source: list[int],
    previous: list[int],
    *,
    num_base: int,
    num_slots: int,
    unk: int,
    special: set[int],
    given: list[int] | None = None,
) -> Reading:
    """Read the source and the words before each step, which may be slots. ``given`` are labels of the words, if any."""

    def known(words: list[int]) -> list[int]:
        return [word if word < num_base else unk for word in words]

    encoder, decoder = model.encoder.network, model.decoder.network
    temperature, window = float(model.encoder.annealing.temperature), encoder.window
    z = separate(encoder.separator, known(source), temperature)
    words = list(enumerate(known(source)))
    window_bias = [[near(i, j, window) for j, _ in words] for i, _ in words]
    embedded = [at_position(encoder.phrase_embedding.words.weight, word, i + 1) for i, word in words]
    phrase_source = encode_level(encoder.phrase.layers, embedded, window_bias)
    sentence_words = encoder.sentence_embedding.words.weight
    embedded = [at_position(sentence_words, word, z[: i + 1, 1].sum()) for i, word in words]
    sentence_source = encode_level(encoder.sentence.layers, embedded, [list(z[:, 1].log())] * len(source))

    h = c = torch.zeros(decoder.aggregator.cell.hidden_size)
    labels, rows = [torch.tensor([0.5, 0.5])], []  # labels of the previous words
    written = known(previous)
    phrase_words, sentence_words = decoder.phrase_embedding.words.weight, decoder.sentence_embedding.words.weight
    for step in range(len(written)):
        seen = range(step + 1)
        read_labels = list(labels)
        if given is not None:
            read_labels = [labels[0], *(one_hot(2, label) for label in given[:step])]
        o0, c0, weights = decode_level(
            decoder.phrase.layers,
            [at_position(phrase_words, written[i], i + 1) for i in seen],
            [[near(i, j, window) for j in range(i + 1)] for i in seen],
            phrase_source,
            list(z[:, 0].log()),
        )
        positions = [sum(label[1] for label in read_labels[: i + 1]) for i in seen]
        o1, c1, _ = decode_level(
            decoder.sentence.layers,
            [at_position(sentence_words, written[i], positions[i]) for i in seen],
            [[label[1].log() for label in read_labels[: i + 1]] for i in seen],
            sentence_source,
            list(z[:, 1].log()),
        )
        features = torch.cat([c0, c1, phrase_words[written[step]]])
        h, c = lstm_cell(decoder.aggregator.cell, linear(decoder.aggregator.merge, features), h, c)
        labels.append(softmax(linear(decoder.aggregator.label_proj, h) / temperature))
        rows.append(
            mixture(model.decoder, labels[-1], (o0, c0, weights, written[step]), o1, source, special, num_slots)
        )
    return Reading(torch.stack(rows), z, torch.stack(labels[1:]))


def mixture(
    decoder: Any,
    label: Tensor,
    phrase: tuple[Tensor, Tensor, Tensor, int],
    sentence: Tensor,
    source: list[int],
    special: set[int],
    num_slots: int,
) -> Tensor:
    """Return sum_k P(z = k) P_k, where P_0 = (1 - rho) P_gen + rho P_copy."""
    phrase_words = decoder.network.phrase_embedding.words.weight
    sentence_words = decoder.network.sentence_embedding.words.weight
    state, context, weights, before = phrase
    rho = torch.sigmoid(linear(decoder.copy_gate, torch.cat([state, context, phrase_words[before]])))[0]
    copied = {place: weights[:, place].mean() for place, word in enumerate(source) if word not in special}
    if not copied:
        rho = torch.zeros(())
    generated = (1 - rho) * word_probabilities(decoder.phrase_output, state, phrase_words)
    row = label[0] * generated + label[1] * word_probabilities(decoder.sentence_output, sentence, sentence_words)
    row = torch.cat([row, torch.zeros(num_slots)])
    for place, weight in copied.items():
        row[source[place]] += label[0] * rho * weight / sum(copied.values())
    return row
