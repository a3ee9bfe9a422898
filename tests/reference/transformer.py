"""The Transformer of ``copy_transformer`` for one pair, from the raw weights for one word and one head at a time."""

import math
from typing import Any

import torch
from torch import Tensor, nn


def lively(network: Any, seed: int = 7) -> Any:
    """Set the weights of a network to values that are large enough to make attention far from uniform."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            gain = "norm" in name and name.endswith("weight")
            spread = 0.2 if gain or name.endswith("bias") else 0.7
            parameter.copy_(spread * torch.randn(parameter.shape, generator=generator) + gain)
    return network.eval()


def linear(module: nn.Linear, x: Tensor) -> Tensor:
    return module.weight @ x if module.bias is None else module.weight @ x + module.bias


def gelu(x: Tensor) -> Tensor:
    """Return x Phi(x), where Phi is the normal distribution function."""
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def layer_norm(module: nn.LayerNorm, x: Tensor) -> Tensor:
    centred = x - x.mean()
    return centred / torch.sqrt((centred * centred).mean() + 1e-12) * module.weight + module.bias


def embed(module: Any, words: list[int], added: list[Tensor] | None = None) -> list[Tensor]:
    """Return LayerNorm(word + position + segment) for each word, with ``added[i]`` in the sum if given.

    Positions start at 0.
    """
    sums = [module.words.weight[word] + module.positions.weight[i] + module.segment for i, word in enumerate(words)]
    return [layer_norm(module.norm, x if added is None else x + added[i]) for i, x in enumerate(sums)]


def attend(
    module: Any, asker: Tensor, read: list[Tensor], bias: list[Tensor] | None = None, found: list[Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """Attend with one query (D,) over the states ``read``. Return the output (D,) and the weights of each head (A, S).

    The values are computed from ``found`` if it is given, otherwise from ``read``.
    """
    size = len(asker) // module.heads
    query = linear(module.query_proj, asker)
    keys = [linear(module.key_proj, state) for state in read]
    values = [linear(module.value_proj, state) for state in found or read]
    outputs, weights = [], []
    for head in range(module.heads):
        part = slice(head * size, (head + 1) * size)
        scores = [(query[part] * key[part]).sum() / math.sqrt(size) for key in keys]
        if bias is not None:
            scores = [score + bias[j] for j, score in enumerate(scores)]
        exps = [torch.exp(score) for score in scores]
        weights.append(torch.stack([e / sum(exps) for e in exps]))
        outputs.append(sum(w * value[part] for w, value in zip(weights[-1], values, strict=True)))
    return linear(module.out_proj, torch.cat(outputs)), torch.stack(weights)


def feed_forward(module: Any, x: Tensor) -> Tensor:
    return linear(module[2], gelu(linear(module[0], x)))


def encode(network: Any, words: list[int], added: list[Tensor] | None = None) -> list[Tensor]:
    states = embed(network.embedding, words, added)
    for layer in network.layers:
        states = [layer_norm(layer.self_norm, x + attend(layer.self_attention, x, states)[0]) for x in states]
        states = [layer_norm(layer.output_norm, x + feed_forward(layer.feed_forward, x)) for x in states]
    return states


def decode(network: Any, words: list[int], source: list[Tensor]) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each step, return o_t (D,), the context c_t (D,) and the last layer's weights over the source (A, S)."""
    states = embed(network.embedding, words)
    steps: list[tuple[Tensor, Tensor, Tensor]] = []
    for layer in network.layers:
        steps = [decoder_step(layer, states[: place + 1], source) for place in range(len(states))]
        states = [step[0] for step in steps]
    return steps


def decoder_step(layer: Any, states: list[Tensor], source: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Compute one layer for the last of ``states``."""
    x = layer_norm(layer.self_norm, states[-1] + attend(layer.self_attention, states[-1], states)[0])
    context, weights = attend(layer.cross_attention, x, source)
    x = layer_norm(layer.cross_norm, x + context)
    return layer_norm(layer.output_norm, x + feed_forward(layer.feed_forward, x)), context, weights


def generation_scores(decoder: Any, state: Tensor) -> list[Tensor]:
    """Return the scores of all base words, from BERT's head or, for WEAN's query, f(q, e) = q W e."""
    words = decoder.network.embedding.words.weight
    if hasattr(decoder.output, "transform"):
        query = layer_norm(decoder.output.transform[2], gelu(linear(decoder.output.transform[0], state)))
        return [(query * word).sum() + bias for word, bias in zip(words, decoder.output.bias, strict=True)]
    query = linear(decoder.output.score.query_proj, state)
    return [(query * word).sum() for word in words]


def probabilities(
    model: Any, source: list[int], previous: list[int], *, num_base: int, num_slots: int, unk: int, special: set[int]
) -> Tensor:
    """Return the probabilities (T, V + K) of all words and slots at every step, given source and previous words."""

    def known(words: list[int]) -> list[int]:
        return [word if word < num_base else unk for word in words]

    decoder = model.decoder
    memory = encode(model.encoder.network, known(source))
    rows = []
    for (state, context, weights), before in zip(
        decode(decoder.network, known(previous), memory), known(previous), strict=True
    ):
        generate = [torch.exp(score) for score in generation_scores(decoder, state)]
        places = [place for place, word in enumerate(source) if word not in special]
        if hasattr(decoder, "copy_gate") and places:
            features = torch.cat([state, context, decoder.network.embedding.words.weight[before]])
            rho = torch.sigmoid(linear(decoder.copy_gate, features))[0]
            mean = {place: weights[:, place].mean() for place in places}
            copy = {place: rho * weight / sum(mean.values()) for place, weight in mean.items()}
            generate = [(1 - rho) * e / sum(generate) for e in generate]
        elif hasattr(decoder, "copy_proj"):
            copy = {
                place: torch.exp(
                    (torch.tanh(linear(decoder.copy_proj, memory[place])) * state).sum() / len(state) ** 0.5
                )
                for place in places
            }
            total = sum(generate) + sum(copy.values())
            copy = {place: e / total for place, e in copy.items()}
            generate = [e / total for e in generate]
        else:
            copy = {}
            generate = [e / sum(generate) for e in generate]
        row = [*generate, *[torch.zeros(())] * num_slots]
        for place, probability in copy.items():
            row[source[place]] = row[source[place]] + probability
        rows.append(torch.stack(row))
    return torch.stack(rows)
