"""Sentences drawn from a model that is being trained.

Legend: ``B`` sentences, ``T`` words, ``L`` words given.
"""

from typing import Any

import torch
from fairseq.models import BaseFairseqModel
from torch import Tensor

from ..models.base import StepDecoder


@torch.no_grad()
def draw(
    model: BaseFairseqModel, net_input: dict[str, Any], target: Tensor, given: int, longest: int, greedy: bool = False
) -> Tensor:
    """Go on from the beginning of each target: a word after the other from P(y_t), without dropout.

    Args:
        model: its decoder is a ``StepDecoder``.
        net_input: of the batch.
        target: (B, T), the end symbol included.
        given: ``L``; a target that is not longer is given whole.
        longest: most words, the end symbol included.
        greedy: take the most probable word instead.

    Returns:
        Words with what was given, (B, T'), padded after the end symbol; a sentence that got too long has none.
    """
    training = model.training
    model.eval()
    encoder: Any = model.encoder
    decoder: StepDecoder[Any, Any] = model.decoder
    padding, end = decoder.padding_idx, decoder.dictionary.eos()
    sources = {name: value for name, value in net_input.items() if name != "prev_output_tokens"}
    memory = decoder.remember(encoder(**sources))
    state = decoder.begin(memory)
    words = target[:, :given]  # (B, L)
    read = torch.cat([target.new_full((len(target), 1), end), words], dim=1)
    done = (words.eq(end) | words.eq(padding)).any(dim=1)  # (B,)
    while words.size(1) < longest and not done.all():
        step, state = decoder.step(read, memory, state)
        scores = decoder.scores(step, memory)[:, -1:]
        lprobs = decoder.get_normalized_probs((scores, None), log_probs=True, sample=None)[:, 0]  # (B, V)
        lprobs[:, padding] = -torch.inf  # a word like others to a model that has never seen it as a target
        # A model that has diverged draws anything, and its loss says so.
        chosen = lprobs.argmax(dim=1) if greedy else lprobs.exp().nan_to_num(nan=1.0).multinomial(1).squeeze(1)
        read = chosen.masked_fill(done, padding).unsqueeze(1)
        words = torch.cat([words, read], dim=1)
        done |= chosen.eq(end)
    model.train(training)
    return words
