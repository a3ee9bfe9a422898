"""FSET for one source, computed from the raw weights for one word and one head at a time."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tests.model_contract import EOS

from .transformer import attend, embed, encode, feed_forward, generation_scores, layer_norm, linear

START = 0  # the word before p


def run(model: Any, source: list[int], previous: list[int], separator: int) -> tuple[Tensor, Tensor]:
    """Return the probabilities of all words (T, V) and the attention to the source (T, S).

    The attention is the mean over the heads of the last layer.
    """
    x, p, q = cut(source, separator)
    network, provider = model.encoder.network, model.encoder.provider
    memory = encode(network, x)
    forth, pooled_forth = compare(provider, network.embedding, p, q)
    _, pooled_back = compare(provider, network.embedding, q, p)
    z = linear(provider.edit_proj, torch.cat([pooled_forth, pooled_back]))
    keys = encode_pair(provider, network.embedding, p)
    values = [torch.tanh(linear(provider.micro_proj, state)) for state in forth]
    decoder = model.decoder.network
    states = [torch.cat([word, z]) for word in embed(decoder.embedding, previous)]
    for layer in decoder.layers:
        steps = [edited_step(layer, states[: place + 1], memory, keys, values) for place in range(len(states))]
        states = [step[0] for step in steps]
    rows, attention = [], []
    for state, (_, weights) in zip(states, steps, strict=True):
        scores = [torch.exp(score) for score in generation_scores(model.decoder, linear(decoder.project_back, state))]
        rows.append(torch.stack(scores) / sum(scores))
        mean = sum(weights) / len(weights)
        behind = torch.zeros(len(source) - len(mean))
        attention.append(torch.cat([mean[:-1], behind, mean[-1:]]))  # the last weight belongs to the end symbol
    return torch.stack(rows), torch.stack(attention)


def cut(source: list[int], separator: int) -> list[list[int]]:
    """Split a source into x, p and q, each with its end symbol."""
    parts: list[list[int]] = [[]]
    for word in source[:-1]:
        if word == separator:
            parts.append([])
        else:
            parts[-1].append(word)
    return [[*part, EOS] for part in [*parts, [], []][:3]]


def encode_pair(provider: Any, embedding: Any, words: list[int]) -> list[Tensor]:
    """Return the states h of one side of the pair."""
    return encode(SimpleNamespace(embedding=embedding, layers=provider.encoder_layers), words)


def compare(provider: Any, embedding: Any, p: list[int], q: list[int]) -> tuple[list[Tensor], Tensor]:
    """Return o_1, o_2, ... for the words of p, and tanh(W_0 o_0)."""
    read = encode_pair(provider, embedding, q)
    states = embed(embedding, [START, *p])
    for layer in provider.decoder_layers:
        states = [compare_step(layer, x, states, read) for x in states]
    return states[1:], torch.tanh(linear(provider.pool, states[0]))


def compare_step(layer: Any, x: Tensor, states: list[Tensor], read: list[Tensor]) -> Tensor:
    """Compute one decoder layer that sees all words of p, including later ones."""
    x = layer_norm(layer.self_norm, x + attend(layer.self_attention, x, states)[0])
    x = layer_norm(layer.cross_norm, x + attend(layer.cross_attention, x, read)[0])
    return layer_norm(layer.output_norm, x + feed_forward(layer.feed_forward, x))


def edited_step(
    layer: Any, states: list[Tensor], source: list[Tensor], keys: list[Tensor], values: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """Compute one layer for the last of ``states``. Return its output and its weights over the source (A, X)."""
    x = layer_norm(layer.self_norm, states[-1] + attend(layer.self_attention, states[-1], states)[0])
    context, weights = attend(layer.cross_attention, x, source)
    x = layer_norm(layer.cross_norm, x + context)
    x = layer_norm(layer.edit_norm, x + attend(layer.edit_attention, x, keys, found=values)[0])
    return layer_norm(layer.output_norm, x + feed_forward(layer.feed_forward, x)), weights
