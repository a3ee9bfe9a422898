"""Compute the residual LSTM for one pair from its raw weights.

It handles one layer and one word at a time (Prakash et al., section 2.3).
"""

from typing import Any

import torch
from torch import Tensor

from tests.reference import query_scores
from tests.reference.wean_lstm import State, lstm_step

SCORES = {"LinearScore": "linear", "GeneralScore": "general", "DotScore": "dot", "ConcatScore": "concat"}


def run_stack(stack: Any, inputs: list[Tensor], starts: list[State]) -> tuple[list[Tensor], list[State]]:
    """Return x_l for l = 1 ... L (the LSTM's output, plus x_(l-n) if n divides l), and all layers' last states."""
    n = stack.residual_every
    layers = [(block, layer) for block in stack.blocks for layer in range(block.num_layers)]
    below = [inputs]  # x_0, x_1, ...
    finals = []
    for number, ((block, layer), start) in enumerate(zip(layers, starts, strict=True), start=1):
        state, outputs = start, []
        for step, x in enumerate(below[-1]):
            state = lstm_step(block, layer, "", x, state)
            out = state[0].clone()
            if n and number % n == 0:
                residual = below[number - n][step]
                width = min(len(out), len(residual))
                out[:width] += residual[:width]
                if stack.recurrent:
                    state = (out, state[1])
            outputs.append(out)
        finals.append(state)
        below.append(outputs)
    return below[-1], finals


def logits(model: Any, source: Tensor, previous: Tensor) -> Tensor:
    """Return the scores (T, V) of the next word for source words (S,) and previous words (T,), without padding."""
    encoder, decoder = model.encoder, model.decoder
    layers = sum(block.num_layers for block in encoder.stack.blocks)
    zero = torch.zeros(encoder.stack.blocks[0].hidden_size)
    _, finals = run_stack(encoder.stack, list(encoder.embed_tokens.weight[source]), [(zero, zero)] * layers)
    embed = decoder.embed_tokens.weight
    outputs, _ = run_stack(decoder.stack, list(embed[previous]), finals)
    kind = SCORES[type(decoder.output.score).__name__]
    return query_scores.scores(kind, torch.stack(outputs), embed, dict(decoder.output.named_parameters()))
