"""MTA-LSTM, TAT-LSTM and TAV-LSTM for one essay, one step and one topic at a time (Feng et al., IJCAI 2018).

Only the arithmetic of a single LSTM step is computed by PyTorch.
"""

import torch
from torch import Tensor


def run(model: torch.nn.Module, topics: list[int], previous: list[int], length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the probabilities after each of ``previous`` (T, V), the attention (T, number of topics), and phi."""
    decoder = model.decoder
    embed = decoder.embed_tokens.weight
    layers, size = decoder.lstm.num_layers, decoder.lstm.hidden_size
    vectors = [embed[topic] for topic in topics]
    attends = hasattr(decoder, "attention")
    hidden, cell = [torch.zeros(size)] * layers, [torch.zeros(size)] * layers
    if not attends:
        hidden, cell = start(decoder, vectors, layers, size)
    covers = attends and model.encoder.importance is not None
    phi = importance(model.encoder, vectors, length) if covers else torch.zeros(0)
    coverage = [1.0 for _ in topics]
    probabilities, attention = [], []
    for word in previous:
        given = embed[word]
        if attends:
            scores = [c * score(decoder.attention, hidden[-1], t) for c, t in zip(coverage, vectors, strict=True)]
            total = sum(torch.exp(s) for s in scores)
            alpha = [torch.exp(s) / total for s in scores]
            if covers:
                coverage = [coverage[j] - alpha[j] / phi[j] for j in range(len(topics))]
            attention.append(torch.stack(alpha))
            given = torch.cat([given, sum(a * t for a, t in zip(alpha, vectors, strict=True))])
        for layer in range(layers):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            parameters = [getattr(decoder.lstm, f"{name}_l{layer}") for name in names]
            state = (hidden[layer].unsqueeze(0), cell[layer].unsqueeze(0))
            new_hidden, new_cell = torch.lstm_cell(given.unsqueeze(0), state, *parameters)
            hidden[layer], cell[layer] = new_hidden[0], new_cell[0]
            given = hidden[layer]
        projection = decoder.output.score.out_proj
        probabilities.append(torch.softmax(projection.weight @ hidden[-1] + projection.bias, dim=0))
    return torch.stack(probabilities), torch.stack(attention) if attends else torch.zeros(0), phi


def start(decoder: torch.nn.Module, vectors: list[Tensor], layers: int, size: int) -> tuple[list[Tensor], list[Tensor]]:
    """Return the initial states of TAV, h_0 of every layer and then c_0 of every layer, from the mean topic."""
    mean = sum(vectors) / len(vectors)
    flat = torch.tanh(decoder.start_proj.weight @ mean + decoder.start_proj.bias)
    parts = [flat[index * size : (index + 1) * size] for index in range(2 * layers)]
    return parts[:layers], parts[layers:]


def importance(encoder: torch.nn.Module, vectors: list[Tensor], length: int) -> Tensor:
    """Return phi for the slots that contain a topic. The other slots are zero vectors."""
    matrix = encoder.importance.proj.weight  # (k, k * E)
    slots, width = matrix.size(0), matrix.size(1) // matrix.size(0)
    phi = []
    for j in range(len(vectors)):
        total = torch.zeros(())
        for slot, vector in enumerate([*vectors, *[torch.zeros(width)] * (slots - len(vectors))]):
            for unit in range(width):
                total = total + matrix[j, slot * width + unit] * vector[unit]
        phi.append(length / (1 + torch.exp(-total)))
    return torch.stack(phi)


def score(attention: torch.nn.Module, hidden: Tensor, topic: Tensor) -> Tensor:
    """Return v . tanh(W h + b + U T)."""
    query = attention.query_proj.weight @ hidden + attention.query_proj.bias
    return attention.vector @ torch.tanh(query + attention.key_proj.weight @ topic)


def coverage_loss(attention: Tensor, phi: Tensor, weight: float) -> Tensor:
    """Return weight * sum_j (phi_j - sum_t alpha_tj)^2 for one essay."""
    loss = torch.zeros(())
    for j in range(len(phi)):
        loss = loss + (phi[j] - sum(row[j] for row in attention)) ** 2
    return weight * loss
