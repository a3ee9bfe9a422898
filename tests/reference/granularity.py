"""C-DNPG for one sentence pair, computed from the raw weights for one word and one head at a time (eqs. 4 to 9).

``settings`` are the options of the layers: ``kind``, ``normalize``, and lengths that replace the true N unless they are
0.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tests.reference.transformer import embed, feed_forward, generation_scores, layer_norm, linear


class Settings(NamedTuple):
    kind: str = "product"
    normalize: bool = True
    encoder_length: int = 0
    decoder_length: int = 0


def granularity(head: Any, state: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-((head.weight[0] * state).sum() + head.bias[0])))  # eq. 4


def resonance(z_i: float | Tensor, z_j: float | Tensor) -> Any:
    return (1 - z_i) * max(0, 1 - (z_i + z_j)) + z_i * min(1, 1 - z_i + z_j)  # eq. 6


def scope(z_i: float | Tensor, distance: int, length: int) -> Any:
    return min(max((length - 2) ** (1 - z_i) + 2 - distance, 0), 1)  # eq. 8, epsilon = 2


def mask(kind: str, z: list[Any], i: int, j: int, length: int) -> Any:
    """Return M_ij for a sentence of ``length`` words.

    As in the released code, sentences of up to 2 words have no scope.
    """
    if kind == "resonance" or length <= 2:
        return resonance(z[i], z[j])
    near = scope(z[i], abs(i - j), length)
    return {"scope": near, "product": resonance(z[i], z[j]) * near, "mean": (resonance(z[i], z[j]) + near) / 2}[kind]


def attend(module: Any, asker: Tensor, read: list[Tensor], masks: list[Any], normalize: bool) -> Tensor:
    """Attend with the query ``asker`` (D,) over the states ``read``. Weight j is multiplied by ``masks[j]``.

    Return the output (D,).
    """
    size = len(asker) // module.heads
    query = linear(module.query_proj, asker)
    keys = [linear(module.key_proj, state) for state in read]
    values = [linear(module.value_proj, state) for state in read]
    outputs = []
    for head in range(module.heads):
        part = slice(head * size, (head + 1) * size)
        exps = [torch.exp((query[part] * key[part]).sum() / math.sqrt(size)) for key in keys]
        weights = [e / sum(exps) * m for e, m in zip(exps, masks, strict=True)]  # eq. 9
        if normalize:
            weights = [w / sum(weights) for w in weights]
        outputs.append(sum(w * value[part] for w, value in zip(weights, values, strict=True)))
    return linear(module.out_proj, torch.cat(outputs))


def self_attend(module: Any, states: list[Tensor], i: int, length: int, settings: Settings) -> Tensor:
    """Attend from word i to all ``states``. If the layer has no granularities, this is plain attention."""
    masks: list[Any] = [1.0] * len(states)
    if hasattr(module, "granularity"):
        z = [granularity(module.granularity, state) for state in states]
        masks = [mask(settings.kind, z, i, j, length) for j in range(len(states))]
    return attend(module, states[i], states, masks, settings.normalize)


def cross_attend(module: Any, asker: Tensor, source: list[Tensor], settings: Settings) -> Tensor:
    """Attend from ``asker`` to all source states.

    If the layer has granularities, the weights are multiplied by the resonance.
    """
    masks: list[Any] = [1.0] * len(source)
    if hasattr(module, "granularity"):
        z_i = granularity(module.granularity, asker)
        masks = [resonance(z_i, granularity(module.granularity, state)) for state in source]
    return attend(module, asker, source, masks, settings.normalize)


def encode(network: Any, words: list[int], settings: Settings) -> list[Tensor]:
    states = embed(network.embedding, words)
    length = settings.encoder_length or len(words)
    for layer in network.layers:
        read = [self_attend(layer.self_attention, states, i, length, settings) for i in range(len(words))]
        states = [layer_norm(layer.self_norm, x + y) for x, y in zip(states, read, strict=True)]
        states = [layer_norm(layer.output_norm, x + feed_forward(layer.feed_forward, x)) for x in states]
    return states


def decode(network: Any, words: list[int], source: list[Tensor], settings: Settings) -> list[Tensor]:
    states = embed(network.embedding, words)
    for layer in network.layers:
        states = [decoder_step(layer, states[: place + 1], source, settings) for place in range(len(states))]
    return states


def decoder_step(layer: Any, states: list[Tensor], source: list[Tensor], settings: Settings) -> Tensor:
    """Compute one layer for the last of ``states``. N is the number of these states."""
    length = settings.decoder_length or len(states)
    read = self_attend(layer.self_attention, states, len(states) - 1, length, settings)
    x = layer_norm(layer.self_norm, states[-1] + read)
    x = layer_norm(layer.cross_norm, x + cross_attend(layer.cross_attention, x, source, settings))
    return layer_norm(layer.output_norm, x + feed_forward(layer.feed_forward, x))


def probabilities(model: Any, source: list[int], previous: list[int], settings: Settings) -> Tensor:
    """Return the probabilities (T, V) of all words at every step, given source words and previous words."""
    memory = encode(model.encoder.network, source, settings)
    rows = []
    for state in decode(model.decoder.network, previous, memory, settings):
        exps = [torch.exp(score) for score in generation_scores(model.decoder, state)]
        rows.append(torch.stack([e / sum(exps) for e in exps]))
    return torch.stack(rows)
