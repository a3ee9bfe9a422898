"""DRESS-LS for one sentence pair, computed from the raw weights for one word at a time, as in the released code."""

from typing import Any

import torch
from torch import Tensor

from tests.reference import nts
from tests.reference.wean_lstm import run_lstm


def log_softmax(scores: Tensor) -> Tensor:
    """Return log(exp s_i / sum_j exp s_j)."""
    return scores - torch.log(sum(torch.exp(score) for score in scores))


def lexical_log_probs(model: Any, source: Tensor, attention: Tensor) -> Tensor:
    """Return log P_lexical (T, V) of every step, for source words (S,) and attention weights of the base (T, S)."""
    encoder, output = model.encoder.lexical, model.decoder.output.lexical.score.out_proj
    zero = torch.zeros(encoder.lstm.hidden_size)
    backwards = list(encoder.embed_tokens.weight[source])[::-1]
    states = run_lstm(encoder.lstm, backwards, [(zero, zero)] * encoder.lstm.num_layers)[0][::-1]
    steps = []
    for weights in attention:
        read = sum(weight * state for weight, state in zip(weights, states, strict=True))
        steps.append(log_softmax(output.weight @ read + output.bias))
    return torch.stack(steps)


def log_probs(model: Any, source: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
    """Return log P of the mixture and of the lexical model, for the source (S,) and the previous words (T,)."""
    scores, attention = nts.logits_and_attention(model, source, previous)
    lexical = lexical_log_probs(model, source, attention)
    mixed = []
    for place, (base_scores, other) in enumerate(zip(scores, lexical, strict=True)):
        base, share = log_softmax(base_scores), model.decoder.share
        mixed.append(base if place == 0 else log_softmax((1 - share) * base + share * other))
    return torch.stack(mixed), lexical
