"""CopyNet, RNNSearch and Enc-Dec by the equations of the paper, for one sentence, one step and one position at a time.

Gu et al., ACL 2016, sections 3.1-3.3. Only the step of the GRU or LSTM in the decoder is computed by PyTorch.
"""

import torch
from torch import Tensor

from tests.reference.rnn_distract import gru_step
from wean_fairseq.modules import EarlyResetGru

EOS = 2


def distribution(model: torch.nn.Module, source: list[int], previous: list[int], num_slots: int) -> Tensor:
    """Return the probabilities of base words and slots after each word of ``previous``, shape (T, V + K)."""
    decoder, encoder = model.decoder, model.encoder
    base, unk = decoder.num_base, decoder.unk_index
    embed = lambda word: encoder.embed_tokens.weight[word if word < base else unk]  # noqa: E731
    memory, start = encode(encoder, torch.stack([embed(word) for word in source]))
    hidden, cell = start, torch.zeros_like(start)
    copy_scores, coverage = None, torch.zeros(len(source))
    rows = []
    for word in previous:
        inputs = [decoder.oov_embedding if word >= base and decoder.oov_embedding is not None else embed(word)]
        if decoder.copies:
            inputs.append(selective_read(word, source, memory, copy_scores))
        if decoder.attention is None:
            inputs.append(start)
        else:
            weights = attend(decoder, hidden, memory, coverage)
            coverage = coverage + weights
            inputs.append(sum(weight * h for weight, h in zip(weights, memory, strict=True)))
        given = torch.cat(inputs)
        if isinstance(decoder.cell, torch.nn.LSTMCell):
            hidden, cell = decoder.cell(given, (hidden, cell))
        elif isinstance(encoder.gru, EarlyResetGru):
            hidden = gru_step(given, hidden, dict(decoder.cell.named_parameters()), early_reset=True)
        else:
            hidden = decoder.cell(given, hidden)
        readout = torch.cat([hidden, given]) if decoder.full_readout else hidden
        generate = decoder.output.scores(readout.unsqueeze(0), decoder.embed_tokens.weight)[0]
        copy_scores = None
        if decoder.copies:
            copy_scores = [torch.tanh(h @ decoder.copy_proj.weight.T) @ hidden for h in memory]  # eq. 8
        rows.append(mix(generate, copy_scores, source, base, num_slots))
    return torch.stack(rows)


def encode(encoder: torch.nn.Module, embedded: Tensor) -> tuple[list[Tensor], Tensor]:
    """Return the memory, with one vector per position, and tanh(W [forward h_S; backward h_1])."""
    size = encoder.gru.hidden_size
    outputs = {}
    for suffix, order in (("", range(len(embedded))), ("_reverse", reversed(range(len(embedded))))):
        weights, early_reset = dict(encoder.gru.named_parameters()), isinstance(encoder.gru, EarlyResetGru)
        state = torch.zeros(size)
        for position in order:
            state = gru_step(embedded[position], state, weights, f"_l0{suffix}", early_reset)
            outputs[position, suffix] = state
    memory = []
    for position in range(len(embedded)):
        parts = [outputs[position, ""], outputs[position, "_reverse"]]
        if encoder.location_width:
            one_hot = torch.zeros(encoder.location_width)
            one_hot[min(position, encoder.location_width - 1)] = 1.0
            parts.append(one_hot)
        memory.append(torch.cat(parts))
    last = torch.cat([outputs[len(embedded) - 1, ""], outputs[0, "_reverse"]])
    return memory, torch.tanh(encoder.start_proj(last))


def attend(decoder: torch.nn.Module, hidden: Tensor, memory: list[Tensor], coverage: Tensor) -> Tensor:
    """Return the weights of all positions, given the state before this step (section 3.1)."""
    attention = decoder.attention
    scores = []
    for h, covered in zip(memory, coverage, strict=True):
        score = attention.vector @ torch.tanh(attention.key_proj.weight @ h + attention.query_proj.weight @ hidden)
        if decoder.coverage_weight is not None:
            score = score + decoder.coverage_weight[0] * covered
        scores.append(score)
    return torch.softmax(torch.stack(scores), dim=0)


def selective_read(word: int, source: list[int], memory: list[Tensor], copy_scores: list[Tensor] | None) -> Tensor:
    """Return zeta of eq. 9, the memory at the positions of ``word``.

    Each position is weighted by its copy probability.
    """
    zeta = torch.zeros_like(memory[0])
    places = [position for position, other in enumerate(source) if other == word and other != EOS]
    if copy_scores is None or not places:
        return zeta
    total = sum(torch.exp(copy_scores[position]) for position in places)
    for position in places:
        zeta = zeta + torch.exp(copy_scores[position]) / total * memory[position]
    return zeta


def mix(generate: Tensor, copy_scores: list[Tensor] | None, source: list[int], base: int, num_slots: int) -> Tensor:
    """Apply eqs. 4 to 8, with one normaliser for all words and all positions."""
    places = [] if copy_scores is None else [place for place, word in enumerate(source) if word != EOS]
    normaliser = torch.exp(generate).sum() + sum(torch.exp(copy_scores[place]) for place in places)
    probabilities = torch.zeros(base + num_slots)
    for word in range(base):
        probabilities[word] = torch.exp(generate[word]) / normaliser
    for place in places:
        probabilities[source[place]] += torch.exp(copy_scores[place]) / normaliser
    return probabilities
