"""SC-LSTM for one essay and one step at a time (Wen et al., 2015), with a keyword vector of the size of the dictionary.

The gates, the reading and the loss are written as plain formulas that use all rows of every weight.
"""

import itertools

import torch
from torch import Tensor

ETA, XI, ALPHA = 1e-4, 100.0, 0.5


def run(model: torch.nn.Module, topics: list[int], previous: list[int]) -> tuple[Tensor, list[Tensor]]:
    """Return the probabilities after each of ``previous`` (T, V), and the vectors d_0 ... d_T, (V,) each."""
    decoder = model.decoder
    layers, size = decoder.lstm.num_layers, decoder.lstm.hidden_size
    read_hidden = decoder.gate.hidden_read.weight.split(size, dim=1)  # W_hr of each layer, (V, H)
    write = decoder.gate.write.weight.split(size, dim=1)  # W_d of each layer, transposed
    hidden, cell = [torch.zeros(size)] * layers, [torch.zeros(size)] * layers
    keywords = torch.zeros(decoder.embed_tokens.num_embeddings)
    for topic in topics:
        keywords[topic] = 1.0
    trajectory, probabilities = [keywords], []
    for word in previous:
        given = decoder.embed_tokens.weight[word]
        reading = decoder.gate.word_read.weight @ given
        for layer in range(layers):
            reading = reading + ALPHA * read_hidden[layer] @ hidden[layer]
        keywords = torch.sigmoid(reading) * keywords
        trajectory.append(keywords)
        for layer in range(layers):
            input_gate, forget_gate, candidate, output_gate = gates(decoder.lstm, layer, given, hidden[layer])
            cell[layer] = forget_gate * cell[layer] + input_gate * candidate + torch.tanh(keywords @ write[layer])
            hidden[layer] = output_gate * torch.tanh(cell[layer])
            given = hidden[layer]
        projection = decoder.output.score.out_proj
        probabilities.append(torch.softmax(projection.weight @ torch.cat(hidden) + projection.bias, dim=0))
    return torch.stack(probabilities), trajectory


def gates(lstm: torch.nn.LSTM, layer: int, given: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return i, f, c-hat and o of one layer. The weights are stacked in this order."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    weight_ih, weight_hh, bias_ih, bias_hh = (getattr(lstm, f"{name}_l{layer}") for name in names)
    size = len(hidden)
    total = [
        weight_ih[unit] @ given + weight_hh[unit] @ hidden + bias_ih[unit] + bias_hh[unit] for unit in range(4 * size)
    ]
    input_gate, forget_gate, candidate, output_gate = (
        torch.stack(total[part * size : (part + 1) * size]) for part in range(4)
    )
    return torch.sigmoid(input_gate), torch.sigmoid(forget_gate), torch.tanh(candidate), torch.sigmoid(output_gate)


def control_loss(trajectory: list[Tensor], weight: float) -> Tensor:
    """Return weight * (|d_T| + sum_t eta xi^|d_t+1 - d_t|) for one essay."""
    loss = (trajectory[-1] ** 2).sum() ** 0.5
    for before, after in itertools.pairwise(trajectory):
        loss = loss + ETA * XI ** (((after - before) ** 2).sum() ** 0.5)
    return weight * loss
