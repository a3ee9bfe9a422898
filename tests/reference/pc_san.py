"""PC-SAN for one essay, computed from the raw weights and the options for one position and one head at a time."""

import math
from typing import Any

import torch
from torch import Tensor

from tests.reference.transformer import layer_norm, linear


def alphas(mixture: Any, kind: str) -> list[list[Tensor]]:
    """Return alpha_jl for every mixture j and every layer l of BERT."""
    if kind == "free":
        return [list(row) for row in mixture.weights]
    rows = [[torch.exp(logit) for logit in row] for row in mixture.logits]
    return [[value / sum(row) for value in row] for row in rows]


def mixed(layers: list[Tensor], weights: list[Tensor]) -> Tensor:
    """Return sum_l alpha_l h^l (eq. 2), (H,), for the states of one topic in all layers, (H,) each."""
    return sum(alpha * state for alpha, state in zip(weights, layers, strict=True))


def memories(encoder: Any, topics: list[int], features: Tensor | None, options: dict[str, Any]) -> list[list[Tensor]]:
    """Return H_j (eq. 3) for each decoder layer j, from the ids of the topics and their states (k, L, H)."""
    vectors = [encoder.words.weight[topic] for topic in topics]
    bert_layers, number = options["bert_layers"], options["decoder_layers"]
    if bert_layers == "none":
        return [vectors] * number
    assert features is not None
    states, weights = encoder.bert_states, None
    if bert_layers != "last":
        weights = alphas(states.mixture, options["bert_mix"])
    result = []
    for layer in range(number):
        if weights is None:
            picked = [feature[-1] for feature in features]
        else:
            row = weights[layer] if bert_layers == "dynamic" else weights[0]
            picked = [mixed(list(feature), row) for feature in features]
        if options["topic_fuse"] == "sequence":
            result.append([*vectors, *picked])
            continue
        joined = [torch.cat(pair) for pair in zip(vectors, picked, strict=True)]
        result.append(joined if options["topic_fuse"] == "kv1536" else [linear(states.fusion.proj, x) for x in joined])
    return result


def sinusoid(position: int, dim: int) -> Tensor:
    """Return the position embedding PE of "Attention Is All You Need", section 3.5. The first word has position 0."""
    values = []
    for unit in range(dim):
        angle = position / 10_000 ** (2 * (unit // 2) / dim)
        values.append(math.sin(angle) if unit % 2 == 0 else math.cos(angle))
    return torch.tensor(values)


def context_mean(states: list[Tensor], place: int, *, inclusive: bool) -> Tensor:
    """Return the mean of the states before ``place`` or up to it (eqs. 8 and 9, without U).

    The mean is zero if there are no such states.
    """
    past = states[: place + 1] if inclusive else states[:place]
    return sum(past, torch.zeros_like(states[0])) / max(1, len(past))


def mixed_query(module: Any, state: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q^ and lambda of one position (eq. 10, 11)."""
    query, context = linear(module, state), linear(module.context_proj, mean)
    gate = 1 / (1 + torch.exp(-(linear(module.query_gate, query) + linear(module.context_gate, context))))
    return (1 - gate) * query + gate * context, gate


def attend(module: Any, query: Tensor, read: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Attend with a projected query (D,) over ``read``.

    Return the output (D,) and the weights averaged over heads (S,).
    """
    size = len(query) // module.heads
    keys, values = ([linear(proj, state) for state in read] for proj in (module.key_proj, module.value_proj))
    outputs, weights = [], []
    for head in range(module.heads):
        part = slice(head * size, (head + 1) * size)
        exps = [torch.exp((query[part] * key[part]).sum() / math.sqrt(size)) for key in keys]
        weights.append(torch.stack([value / sum(exps) for value in exps]))
        outputs.append(sum(weight * value[part] for weight, value in zip(weights[-1], values, strict=True)))
    return linear(module.out_proj, torch.cat(outputs)), sum(weights) / module.heads


def feed_forward(module: Any, x: Tensor) -> Tensor:
    return linear(module[2], torch.clamp(linear(module[0], x), min=0))


def layer_step(
    layer: Any, states: list[Tensor], place: int, memory: list[Tensor], options: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Compute one layer at ``place``. Return its output (D,) and its weights over the memory."""
    state, attention = states[place], layer.self_attention
    if options["context"] == "none":
        query = linear(attention.query_proj, state)
    else:
        mean = sum(memory) / len(memory)
        if options["context"] == "target":
            mean = context_mean(states, place, inclusive=options["context_inclusive"])
        query = mixed_query(attention.query_proj, state, mean)[0]
    x = layer_norm(layer.self_norm, state + attend(attention, query, states[: place + 1])[0])
    read, weights = attend(layer.cross_attention, linear(layer.cross_attention.query_proj, x), memory)
    x = layer_norm(layer.cross_norm, x + read)
    return layer_norm(layer.output_norm, x + feed_forward(layer.feed_forward, x)), weights


def forward(
    model: Any, topics: list[int], features: Tensor | None, previous: list[int], options: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Return the probabilities (T, V), and the last layer's attention to every topic (T, k)."""
    words = model.decoder.network.embedding.words.weight
    dim = words.size(1)
    states = [math.sqrt(dim) * words[word] + sinusoid(place, dim) for place, word in enumerate(previous)]
    weights: list[Tensor] = []
    for layer, memory in zip(
        model.decoder.network.layers, memories(model.encoder, topics, features, options), strict=True
    ):
        steps = [layer_step(layer, states, place, memory, options) for place in range(len(states))]
        states, weights = ([step[part] for step in steps] for part in (0, 1))
    if len(weights[0]) > len(topics):  # the memory has the vectors first, then BERT's states
        weights = [row[: len(topics)] + row[len(topics) :] for row in weights]
    rows = []
    for state in states:
        exps = torch.stack([torch.exp((state * word).sum()) for word in words])
        rows.append(exps / exps.sum())
    return torch.stack(rows), torch.stack(weights)
