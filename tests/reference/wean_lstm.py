"""WEAN's forward pass for one pair, from the raw weights for one word at a time (eqs. 1 to 6 of the paper)."""

from typing import Any

import torch
from torch import Tensor, nn

from tests.reference import query_scores

State = tuple[Tensor, Tensor]


def lstm_step(lstm: nn.LSTM, layer: int, suffix: str, x: Tensor, state: State) -> State:
    """Compute one cell: i, f, g, o from the stacked weights, c = f c + i g, and h = o tanh(c)."""
    weights = [getattr(lstm, f"{name}_l{layer}{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    gates = weights[0] @ x + weights[2] + weights[1] @ state[0] + weights[3]
    i, f, g, o = gates.chunk(4)
    cell = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def run_lstm(lstm: nn.LSTM, inputs: list[Tensor], starts: list[State]) -> tuple[list[Tensor], list[State]]:
    """Run all layers over all steps.

    Return the outputs of the top layer, and the final states by layer and direction.
    """
    finals = []
    for layer in range(lstm.num_layers):
        outputs: list[list[Tensor]] = []
        for direction, suffix in enumerate(["", "_reverse"][: 2 if lstm.bidirectional else 1]):
            state = starts[len(finals)]
            steps = inputs if direction == 0 else inputs[::-1]
            hidden = []
            for x in steps:
                state = lstm_step(lstm, layer, suffix, x, state)
                hidden.append(state[0])
            finals.append(state)
            outputs.append(hidden if direction == 0 else hidden[::-1])
        inputs = [torch.cat(parts) for parts in zip(*outputs, strict=True)]
    return inputs, finals


def start_of_decoder(model: Any, finals: list[State]) -> list[State]:
    """Return those final states of the encoder that the bridge selects, for both parts of the state."""
    bridge, layers = model.decoder.bridge, model.decoder.lstm.num_layers
    if bridge.kind == "bottom":
        return finals[:layers]
    if bridge.kind == "top":
        return finals[-layers:]
    parts = []
    for proj, part in ((bridge.hidden_proj, 0), (bridge.cell_proj, 1)):
        parts.append((proj.weight @ torch.cat([final[part] for final in finals]) + proj.bias).chunk(layers))
    return list(zip(*parts, strict=True))


def logits(model: Any, source: Tensor, previous: Tensor) -> Tensor:
    """Return the scores (T, V) of the next word for source words (S,) and previous words (T,)."""
    embed = model.encoder.embed_tokens.weight
    encoder, decoder = model.encoder.lstm, model.decoder
    width = encoder.hidden_size
    zero = torch.zeros(width)
    directions = 2 if encoder.bidirectional else 1
    states, finals = run_lstm(encoder, [embed[w] for w in source], [(zero, zero)] * encoder.num_layers * directions)
    if encoder.bidirectional:  # outputs and final states of the two directions are summed
        states = [state[:width] + state[width:] for state in states]
        finals = [tuple(a + b for a, b in zip(finals[i], finals[i + 1], strict=True)) for i in range(0, len(finals), 2)]
    steps, _ = run_lstm(decoder.lstm, [embed[w] for w in previous], start_of_decoder(model, finals))
    queries = []
    for s in steps:
        projected = decoder.attention.query_proj.weight @ s + decoder.attention.query_proj.bias
        if decoder.attention.tanh:
            projected = torch.tanh(projected)
        exps = [torch.exp((h * projected).sum()) for h in states]
        context = sum(e / sum(exps) * h for e, h in zip(exps, states, strict=True))  # eq. 1, 2
        combined = decoder.combine.weight @ torch.cat([context, s]) + decoder.combine.bias
        queries.append(torch.tanh(combined))  # eq. 4
    layer = decoder.output
    kinds = {"DotScore": "dot", "GeneralScore": "general", "ConcatScore": "concat", "LinearScore": "linear"}
    kind = kinds[type(layer.score).__name__]
    return query_scores.scores(kind, torch.stack(queries), embed, dict(layer.named_parameters()))
