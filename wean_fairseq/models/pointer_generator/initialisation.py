"""Initial weights of Pointer-generator as in the authors' release, TensorFlow's defaults where it sets nothing."""

import torch
from torch import Tensor, nn

from .decoder import PointerGeneratorDecoder
from .encoder import PointerGeneratorEncoder

LSTM_BOUND = 0.02
SMALL = 1e-4


@torch.no_grad()
def initialise(encoder: PointerGeneratorEncoder, decoder: PointerGeneratorDecoder) -> None:
    """Set all weights: LSTMs uniform; embedding, bridge and output layer almost zero; the other matrices Glorot.

    Biases are zero, except the LSTMs' forget gates and the small ones of bridge and output layer.
    """
    for module in [*encoder.modules(), *decoder.modules()]:
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for lstm in (encoder.lstm, decoder.cell):
        _initialise_lstm(lstm)
    embedding = encoder.embed_tokens
    _init_small_(embedding.weight)
    nn.init.zeros_(embedding.weight[embedding.padding_idx])
    output = getattr(decoder.output.score, "out_proj", None)  # none where the embeddings are queried
    for linear in (encoder.hidden_bridge, encoder.cell_bridge, *([] if output is None else [output])):
        _init_small_(linear.weight)
        _init_small_(linear.bias)
    attention = decoder.attention
    _init_glorot_(attention.vector, attention.vector.numel(), attention.vector.numel())
    if attention.coverage_weight is not None:
        _init_glorot_(attention.coverage_weight, 1, attention.coverage_weight.numel())


def _initialise_lstm(lstm: nn.LSTM | nn.LSTMCell) -> None:
    for name, weight in lstm.named_parameters():
        if name.startswith("weight"):
            nn.init.uniform_(weight, -LSTM_BOUND, LSTM_BOUND)
        else:
            nn.init.zeros_(weight)
        if name.startswith("bias_ih"):
            nn.init.ones_(weight[lstm.hidden_size : 2 * lstm.hidden_size])  # forget gates


def _init_small_(weight: Tensor) -> None:
    nn.init.trunc_normal_(weight, std=SMALL, a=-2 * SMALL, b=2 * SMALL)


def _init_glorot_(vector: nn.Parameter, fan_in: int, fan_out: int) -> None:
    bound = (6 / (fan_in + fan_out)) ** 0.5
    nn.init.uniform_(vector, -bound, bound)
