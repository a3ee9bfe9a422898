"""Compute the pointer-generator for one pair from its raw weights.

It handles one word and one source position at a time (eqs. 1 to 13).
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tests.reference import query_scores
from tests.reference.wean_lstm import run_lstm

PAD, BOS, EOS, UNK = 1, 0, 2, 3
SCORES = {"LinearScore": "linear", "GeneralScore": "general", "DotScore": "dot", "ConcatScore": "concat"}


class Reading(NamedTuple):
    probs: Tensor  # probability of every word at every step, (T, V + K)
    attention: Tensor  # (T, S)
    coverage_loss: Tensor  # loss of eq. 12 at every step, (T,)


def lstm_cell(cell: nn.LSTMCell, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    gates = cell.weight_ih @ x + cell.bias_ih + cell.weight_hh @ h + cell.bias_hh
    i, f, g, o = gates.chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer.weight @ x + layer.bias


def read(model: Any, source: Tensor, previous: Tensor) -> Reading:
    """Read source words (S,) and previous output words (T,) without padding. Both may contain slots."""
    encoder, decoder = model.encoder, model.decoder
    embed = encoder.embed_tokens.weight
    base, width = len(embed), encoder.lstm.hidden_size
    zero = torch.zeros(width)

    def embedded(words: Tensor) -> list[Tensor]:
        return [embed[word if word < base else UNK] for word in words.tolist()]

    outputs, finals = run_lstm(encoder.lstm, embedded(source), [(zero, zero)] * 2)
    h = torch.relu(linear(encoder.hidden_bridge, torch.cat([finals[0][0], finals[1][0]])))
    c = torch.relu(linear(encoder.cell_bridge, torch.cat([finals[0][1], finals[1][1]])))
    context, coverage = torch.zeros(2 * width), torch.zeros(len(source))
    probs, attention, losses = [], [], []
    for word in embedded(previous):
        x = linear(decoder.merge, torch.cat([word, context]))
        h, c = lstm_cell(decoder.cell, x, h, c)
        weights = attend(decoder.attention, torch.cat([c, h]), outputs, source, coverage)  # eq. 1, 2, 11
        context = sum((a * o for a, o in zip(weights, outputs, strict=True)), torch.zeros(2 * width))  # eq. 3
        losses.append(sum((min(a, b) for a, b in zip(weights, coverage, strict=True)), torch.zeros(())))  # eq. 12
        coverage = coverage + weights  # eq. 10
        query = linear(decoder.combine, torch.cat([h, context]))
        layer = decoder.output
        kind = SCORES[type(layer.score).__name__]
        logits = query_scores.scores(kind, query.unsqueeze(0), embed, dict(layer.named_parameters()))[0]
        p_vocab = torch.exp(logits) / torch.exp(logits).sum()  # eq. 4
        p_gen = torch.sigmoid(linear(decoder.gate, torch.cat([context, c, h, x])))  # eq. 8
        if not weights.any():  # there is nothing to copy
            p_gen = torch.ones(1)
        mixed = torch.cat([p_gen * p_vocab, torch.zeros(decoder.num_slots)])  # eq. 9
        for position, source_word in enumerate(source.tolist()):
            mixed[source_word] += (1 - p_gen[0]) * weights[position]
        probs.append(mixed)
        attention.append(weights)
    return Reading(torch.stack(probs), torch.stack(attention), torch.stack(losses))


def attend(layer: Any, query: Tensor, outputs: list[Tensor], source: Tensor, coverage: Tensor) -> Tensor:
    exps = torch.zeros(len(source))
    for position, (output, word) in enumerate(zip(outputs, source.tolist(), strict=True)):
        if word in (PAD, BOS, EOS):
            continue
        inner = layer.key_proj.weight @ output + linear(layer.query_proj, query)
        if layer.coverage_weight is not None:
            inner = inner + layer.coverage_weight * coverage[position]
        exps[position] = torch.exp((layer.vector * torch.tanh(inner)).sum())
    return exps / exps.sum() if exps.any() else exps
