"""SRB for one pair, computed from the raw weights for one word at a time (Ma et al., ACL 2017, sections 3.1 to 3.4)."""

from typing import Any

import torch
from torch import Tensor

from tests.reference import query_scores
from tests.reference.residual_lstm import SCORES
from tests.reference.wean_lstm import lstm_step


def read_source(model: Any, source: Tensor) -> tuple[list[Tensor], tuple[Tensor, Tensor]]:
    """Return h_1 ... h_n and the last state for the source words (S,)."""
    weights = dict(model.encoder.lstm.named_parameters())
    zero = torch.zeros(model.decoder.lstm.hidden_size)
    state, outputs = (zero, zero), []
    for place, word in enumerate(source.tolist()):
        e = model.encoder.embed_tokens.weight[word]
        seen = state[0]
        if "gate_hidden.weight" in weights:
            seen = torch.cat([seen, e])
            seen = (weights["gate_hidden.weight"] @ seen + weights["gate_hidden.bias"]).clamp(min=0)
        beta = 1 / (1 + torch.exp(-(weights["gate.weight"][0] @ seen + weights["gate.bias"][0])))
        if place == 0 and not model.encoder.lstm.gates_first_word:
            beta = torch.ones(())
        i, f, g, o = (
            weights["cell.weight_ih"] @ (beta * e)
            + weights["cell.bias_ih"]
            + weights["cell.weight_hh"] @ state[0]
            + weights["cell.bias_hh"]
        ).chunk(4)
        cell = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        state = (torch.sigmoid(o) * torch.tanh(cell), cell)
        outputs.append(state[0])
    return outputs, state


def logits_and_relevance(model: Any, source: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scores of the next word (T, V) and cos(V_s, V_t), for source words (S,) and previous words (T,)."""
    decoder, attention = model.decoder, model.decoder.attention
    outputs, state = read_source(model, source)
    source_vector = state[0]
    features = []
    for word in previous.tolist():
        state = lstm_step(decoder.lstm, 0, "", decoder.embed_tokens.weight[word], state)
        query = torch.tanh(attention.query_proj.weight @ state[0] + attention.query_proj.bias)
        scores = [query @ torch.tanh(attention.key_proj.weight @ h + attention.key_proj.bias) for h in outputs]
        weights = torch.softmax(torch.stack(scores), dim=0)
        context = sum(weight * h for weight, h in zip(weights, outputs, strict=True))
        features.append(torch.tanh(decoder.combine.weight @ torch.cat([context, state[0]]) + decoder.combine.bias))
    summary = state[0] - source_vector
    relevance = (summary @ source_vector) / (summary.norm() * source_vector.norm())
    kind = SCORES[type(decoder.output.score).__name__]
    parameters = dict(decoder.output.named_parameters())
    return query_scores.scores(kind, torch.stack(features), decoder.embed_tokens.weight, parameters), relevance
