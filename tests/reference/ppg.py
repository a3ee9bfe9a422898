"""PPG for one essay, one chunk and one step at a time (Wang et al., COLING 2016, as in docs/equations.md).

Only the arithmetic of a single GRU step is computed by PyTorch.
"""

import torch
from torch import Tensor

EOS = 2


def run(model: torch.nn.Module, topics: list[int], essay: list[int], chunk_symbol: int) -> tuple[Tensor, Tensor]:
    """Return the probabilities (T, V) at each step of ``essay``, which ends with EOS, and the attention to h_0."""
    decoder = model.decoder
    embed = decoder.embed_tokens.weight
    chunks, written = cut(essay, chunk_symbol), []
    probabilities, topic_weights = [], []
    for number, chunk in enumerate(chunks):
        topic = topics[min(number, len(topics) - 1)]
        h_0 = two_way(model.encoder.gru, [embed[topic]])[0]
        memory = [h_0, *two_way(decoder.text_gru, [embed[word] for word in written])]
        state = torch.tanh(decoder.start_proj.weight @ h_0 + decoder.start_proj.bias)
        last_word = EOS if number == 0 else chunk_symbol
        for word in chunk:
            alpha = attend(decoder.attention, state, memory)
            context = sum(a * h for a, h in zip(alpha, memory, strict=True))
            given = torch.cat([embed[last_word], context])
            state = decoder.cell(given.unsqueeze(0), state.unsqueeze(0))[0]
            readout = torch.tanh(decoder.readout(torch.cat([state, context, embed[last_word]])))
            projection = decoder.output.score.out_proj
            chosen = torch.softmax(projection.weight @ readout + projection.bias, dim=0)
            probabilities.append(ending(chosen, number >= len(topics) - 1, chunk_symbol))
            topic_weights.append(alpha[0])
            last_word = word
        written += chunk
    return torch.stack(probabilities), torch.stack(topic_weights)


def cut(essay: list[int], chunk_symbol: int) -> list[list[int]]:
    """Return the chunks, each including the symbol that ends it."""
    chunks: list[list[int]] = [[]]
    for word in essay:
        chunks[-1].append(word)
        if word == chunk_symbol:
            chunks.append([])
    return chunks


def ending(probabilities: Tensor, last: bool, chunk_symbol: int) -> Tensor:
    """Exchange the end of a chunk and the end of the essay in the last chunk."""
    if not last:
        return probabilities
    swapped = probabilities.clone()
    swapped[EOS], swapped[chunk_symbol] = probabilities[chunk_symbol], probabilities[EOS]
    return swapped


def two_way(gru: torch.nn.GRU, words: list[Tensor]) -> list[Tensor]:
    """Return [forward; backward] at each word."""
    outputs: dict[str, list[Tensor]] = {}
    for suffix, order in (("", words), ("_reverse", words[::-1])):
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        parameters = [getattr(gru, f"{name}_l0{suffix}") for name in names]
        state, outputs[suffix] = torch.zeros(1, gru.hidden_size), []
        for word in order:
            state = torch.gru_cell(word.unsqueeze(0), state, *parameters)
            outputs[suffix].append(state[0])
    return [torch.cat(both) for both in zip(outputs[""], outputs["_reverse"][::-1], strict=True)]


def attend(attention: torch.nn.Module, state: Tensor, memory: list[Tensor]) -> Tensor:
    """Return the weights of h_0 ... h_m, given the state s_{t-1}."""
    scores = [
        attention.vector @ torch.tanh(attention.key_proj.weight @ h + attention.query_proj.weight @ state)
        for h in memory
    ]
    return torch.softmax(torch.stack(scores), dim=0)
