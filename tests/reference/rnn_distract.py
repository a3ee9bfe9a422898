"""Compute RNN-distract for one pair from its raw weights.

It handles one word and one source position at a time (Chen et al., 2016).
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tests.reference import query_scores
from tests.reference.residual_lstm import SCORES
from wean_fairseq.modules import EarlyResetGru


class Reading(NamedTuple):
    logits: Tensor  # (T, V)
    attention: list[Tensor]  # (S,) at each step
    contents: list[Tensor]
    states: list[Tensor]


def gru_step(x: Tensor, h: Tensor, weights: dict[str, Tensor], suffix: str = "", early_reset: bool = False) -> Tensor:
    given = weights[f"weight_ih{suffix}"] @ x + weights[f"bias_ih{suffix}"]
    kept = weights[f"weight_hh{suffix}"] @ h + weights[f"bias_hh{suffix}"]
    (r_x, z_x, n_x), (r_h, z_h, n_h) = given.chunk(3), kept.chunk(3)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    if early_reset:  # Cho et al., 2014: the state is reset before the map
        n_h = weights[f"weight_hh{suffix}"].chunk(3)[2] @ (r * h) + weights[f"bias_hh{suffix}"].chunk(3)[2]
        return (1 - z) * torch.tanh(n_x + n_h) + z * h
    return (1 - z) * torch.tanh(n_x + r * n_h) + z * h


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer.weight @ x + layer.bias


def read_source(model: Any, source: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return h_1 ... h_n of the source words (S,), and the initial state of the decoder."""
    encoder = model.encoder
    embed, weights = encoder.embed_tokens.weight, dict(encoder.gru.named_parameters())
    directions = []
    for suffix, order in (("_l0", 1), ("_l0_reverse", -1)):
        h, outputs = torch.zeros(encoder.gru.hidden_size), []
        for word in source.tolist()[::order]:
            h = gru_step(embed[word], h, weights, suffix, isinstance(encoder.gru, EarlyResetGru))
            outputs.append(h)
        directions.append(outputs[::order])
    memory = [torch.cat(pair) for pair in zip(*directions, strict=True)]
    return memory, torch.tanh(linear(model.decoder.start, sum(memory) / len(memory)))


def read(model: Any, source: Tensor, previous: Tensor) -> Reading:
    """Read source words (S,) and previous output words (T,), both without padding."""
    decoder, attention, embed = model.decoder, model.decoder.attention, model.encoder.embed_tokens.weight
    memory, s = read_source(model, source)
    read_so_far, attended = torch.zeros(len(memory[0])), torch.zeros(len(memory))
    found = Reading(torch.empty(0), [], [], [])
    features = []
    for word in previous.tolist():
        s = gru_step(embed[word], s, dict(decoder.word_cell.named_parameters()))
        scores = [
            attention.vector
            @ torch.tanh(
                attention.key_proj.weight @ h + linear(attention.query_proj, s) + attention.coverage_weight * seen
            )
            for h, seen in zip(memory, attended, strict=True)
        ]
        alpha = torch.softmax(torch.stack(scores), dim=0)
        content = sum(a * h for a, h in zip(alpha, memory, strict=True))
        distraction = decoder.content_distraction
        content = torch.tanh(distraction.now * content + distraction.before * read_so_far)
        s = gru_step(content, s, dict(decoder.content_cell.named_parameters()))
        read_so_far, attended = read_so_far + content, attended + alpha
        features.append(torch.tanh(linear(decoder.readout, torch.cat([s, embed[word], content]))))
        for kept, value in zip(found[1:], (alpha, content, s), strict=True):
            kept.append(value)
    kind = SCORES[type(decoder.output.score).__name__]
    parameters = dict(decoder.output.named_parameters())
    return found._replace(logits=query_scores.scores(kind, torch.stack(features), embed, parameters))


def preference(reading: Reading, step: int, weights: tuple[float, float, float]) -> float:
    """Return the preference for a hypothesis.

    The preference depends on the distances between step ``step``, counted from 0, and all previous steps.
    """
    if step == 0:
        return 0.0
    alpha, content, state = (part[step] for part in reading[1:])
    divergence = min(float((old * (old / alpha).log()).sum()) for old in reading.attention[:step])
    likeness = [
        max(float(old @ now / (old.norm() * now.norm())) for old in part[:step])
        for part, now in ((reading.contents, content), (reading.states, state))
    ]
    return weights[0] * divergence - weights[1] * likeness[0] - weights[2] * likeness[1]
