"""NTS and EncDecA for one sentence pair, computed from the raw weights for one word at a time (section 2)."""

from typing import Any

import torch
from torch import Tensor

from tests.reference import query_scores
from tests.reference.wean_lstm import State, lstm_step, run_lstm

SCORES = {"LinearScore": "linear", "GeneralScore": "general", "DotScore": "dot", "ConcatScore": "concat"}


def attend(attention: Any, state: Tensor, sources: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return tanh(W_c [c; h]) and the weights a_i = exp(score_i) / sum exp(score), where score = h W_a h_i or h h_i."""
    scores = []
    for source in sources:
        key = source if attention.key_proj is None else attention.key_proj.weight @ source
        scores.append(torch.exp((state * key).sum()))
    weights = torch.stack([score / sum(scores) for score in scores])
    context = sum(weight * source for weight, source in zip(weights, sources, strict=True))
    return torch.tanh(attention.combine.weight @ torch.cat([context, state])), weights


def logits_and_attention(model: Any, source: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
    """Return scores (T, V) and attention weights (T, S).

    The source (S,) and the previous words (T,) have no padding.
    """
    encoder, decoder = model.encoder, model.decoder
    lstm, attention = decoder.stack.lstm, decoder.stack.attention
    zero = torch.zeros(lstm.hidden_size)
    read = list(encoder.embed_tokens.weight[source])
    if encoder.reverse:
        read = read[::-1]
    states, layers = run_lstm(encoder.lstm, read, [(zero, zero)] * encoder.lstm.num_layers)
    if encoder.reverse:
        states = states[::-1]
    fed, outputs, weights = zero, [], []
    for word in previous:
        below = torch.cat([decoder.embed_tokens.weight[word], fed])
        after: list[State] = []
        for layer, state in enumerate(layers):
            after.append(lstm_step(lstm, layer, "", below, state))
            below = after[-1][0]
        layers = after
        fed, attended = attend(attention, below, states)
        outputs.append(fed)
        weights.append(attended)
    kind = SCORES[type(decoder.output.score).__name__]
    embed = decoder.embed_tokens.weight
    scores = query_scores.scores(kind, torch.stack(outputs), embed, dict(decoder.output.named_parameters()))
    return scores, torch.stack(weights)
