"""Traces of outputs: copies, granularities and topics at each step of the search.

Legend: ``B`` sentences, ``N`` hypotheses, ``S`` source length, ``T`` output length, ``L`` layers with granularities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..capabilities import capabilities_of
from ..models.base import StepDecoder
from .vocabulary_scores import build_scores


@dataclass(frozen=True)
class Trace:
    """The record of how an output was written.

    Attributes:
        steps: tensors that ``StepDecoder.trace`` returns, by name, for all steps, (T, ...). ``copied`` (T,) is the
            probability that the written word was copied. ``copied_from`` (T, S) is the distribution of this copy over
            the source words, without padding.
        source: tensors that the encoder returns for its source, by name.
        granular_from: number of the first layer with granularities, from 1. 0 = none.
    """

    steps: dict[str, Tensor]
    source: dict[str, Tensor]
    granular_from: int = 0

    def granularities(self) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """Return, by layer, the granularities z of the source words (S,) and of the words that the steps read (T,)."""
        if not self.granular_from:
            return {}, {}
        of_source, of_output = self.source["granularity"], self.steps["granularity"].t()
        first = self.granular_from
        return dict(enumerate(of_source, first)), dict(enumerate(of_output, first))


def has_traces(model: Any) -> bool:
    """Return True if traces of the model contain any tensors."""
    decoder = getattr(model, "decoder", None)
    return isinstance(decoder, StepDecoder) and (bool(decoder.traced) or capabilities_of(model).copies)


def add_traces(
    model: Any,
    sample: dict[str, Any],
    encoder_out: Mapping[str, Tensor],
    hypotheses: Sequence[Sequence[dict[str, Any]]],
    steps: Sequence[dict[str, Tensor]],
) -> None:
    """Add a ``Trace`` to each hypothesis.

    Args:
        model: the model.
        sample: the batch, with slots, that is, the numbers of unknown source words.
        encoder_out: output of the encoder for the batch.
        hypotheses: hypotheses of each sentence, also with slots.
        steps: tensors that ``StepDecoder.trace`` returned for every hypothesis, sentence by sentence. Each has the
            shape (T, ...).
    """
    remaining = iter(steps)
    padding = model.decoder.padding_idx
    for row, (source, of_sentence) in enumerate(zip(sample["net_input"]["src_tokens"], hypotheses, strict=True)):
        is_word = source.ne(padding)
        of_source = {name: encoder_out[name][row] for name in model.decoder.traced if name in encoder_out}
        if "granularity" in of_source:
            of_source["granularity"] = of_source["granularity"][:, is_word]
        for hypothesis in of_sentence:
            tensors = next(remaining)
            if "copied" in tensors:
                # The tensors have one column for each source word. Only the columns that contain the written word
                # count.
                same = hypothesis["tokens"].unsqueeze(1).eq(source)  # (T, S)
                copied, places = (tensors[name].masked_fill(~same, 0.0) for name in ("copied", "copied_from"))
                tensors = tensors | {"copied": copied.amax(dim=1), "copied_from": places[:, is_word]}
            hypothesis["trace"] = Trace(tensors, of_source, capabilities_of(model).granular_from)


@torch.no_grad()
def follow(model: Any, sample: dict[str, Any], hypotheses: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Add traces to the outputs of fairseq's own searches, which record none, by repeating their steps as one batch."""
    decoder = model.decoder
    net_input = {name: value for name, value in sample["net_input"].items() if name != "prev_output_tokens"}
    encoder_out = model.encoder(**net_input)
    rows = [row for row, of_sentence in enumerate(hypotheses) for _ in of_sentence]
    outputs = [hypothesis["tokens"] for of_sentence in hypotheses for hypothesis in of_sentence]
    words = pad_sequence([output.roll(1) for output in outputs], batch_first=True, padding_value=decoder.padding_idx)
    memory = decoder.remember(encoder_out).select(torch.tensor(rows, device=words.device))
    build = partial(build_scores, num_words=len(decoder.dictionary), max_rows=len(rows))
    scores, state = decoder.search_scores(build), decoder.begin(memory)
    steps = []
    for place in range(words.size(1)):
        step, state = decoder.step(words[:, place : place + 1], memory, state)
        steps.append(decoder.trace(step, memory, scores, scores.compute(step.features[:, 0])))
    stacked = {name: torch.stack([tensors[name] for tensors in steps], dim=1) for name in steps[0]}
    of_each = [{name: tensor[n, : len(output)] for name, tensor in stacked.items()} for n, output in enumerate(outputs)]
    add_traces(model, sample, encoder_out, hypotheses, of_each)
