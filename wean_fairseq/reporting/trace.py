"""Decode texts with a model, and return the data of figures: attention, copying, granularities, coverage of topics."""

from collections.abc import Sequence
from typing import Any

import torch

from ..checkpoints.export import is_export
from ..errors import UserError
from ..evaluation.granularity import Sentence, join_words
from ..generation import TextModel
from ..generation import load as load_model
from ..search.output_writer import SMALLEST_SHARE, read_words
from ..text import TOKENS
from .dumps import Attention, CopiedWord, Coverage, Provenance


def open_model(checkpoint: str, data: str | None, **options: Any) -> TextModel:
    """Load a model. A checkpoint takes tokens as in its training text, a folder of ``wean-export`` takes running text.

    Args:
        data: directory with the dictionaries of a checkpoint.
        options: options of the task that replace those of the training.

    Raises:
        UserError: if there is no such file or directory, or an option does not fit the model.
    """
    return load_model(checkpoint, data, text=None if is_export(checkpoint) else TOKENS, **options)


def _check_no_empty(lines: Sequence[str]) -> Sequence[str]:
    empty = [number for number, line in enumerate(lines, start=1) if not line.strip()]
    if empty or not lines:
        raise UserError(f"line {empty[0] if empty else 1} of the text is empty; give a sentence a line.")
    return lines


def trace_attention(model: TextModel, lines: Sequence[str], beam: int | None = None) -> list[Attention]:
    """Return the attention of the best output of every line.

    Raises:
        UserError: if the model has none, or a line is empty.
    """
    traced = []
    for sentence in model.explain(_check_no_empty(lines), beam=beam, details=False):
        best = sentence.outputs[0]
        if best.attention is None:
            raise UserError("this model returns no attention, so there is none to draw; give another checkpoint.")
        traced.append(Attention(sentence.source, best.tokens, best.attention.tolist()))
    return traced


@torch.no_grad()
def trace_coverage(
    model: TextModel, lines: Sequence[str], beam: int | None = None, essay_length: int | None = None
) -> list[Coverage]:
    """Return the rest of each topic after each word of the best output of every line.

    C_t = 1 - sum_{i<=t} alpha_i / phi of MTA-LSTM (Feng et al., IJCAI 2018), or d_t of SC-LSTM.

    Raises:
        UserError: if the model has no coverage of topics.
    """
    traced: dict[int, Coverage] = {}
    for sentence in model.search(_check_no_empty(lines), beam=beam, essay_length=essay_length, batch_size=1):
        best = sentence.hypotheses[0][0]
        net_input = {key: value for key, value in sentence.sample["net_input"].items() if key != "prev_output_tokens"}
        encoder_out = model.model.encoder(**net_input)
        extra: dict[str, Any] = {}
        if hasattr(model.model.decoder, "extract_features"):
            _, extra = model.model.decoder.extract_features(read_words(best["tokens"]).unsqueeze(0), encoder_out)
        if "keywords" in extra:
            rest, label = extra["keywords"][0], "d: how much of it is left to say"
        elif "topic_weights" in extra and encoder_out.get("importance") is not None:
            spent = extra["topic_weights"][0].cumsum(dim=0) / encoder_out["importance"][0]
            rest, label = 1.0 - spent, "coverage C: how much is left"
        else:
            raise UserError("this model keeps no coverage of its topics: give a checkpoint of mta_lstm or sc_lstm.")
        topics = [model.task.source_dictionary[index] for index in sentence.spelt[0][:-1].tolist()]
        output = [model.task.target_dictionary[index] for index in best["tokens"].tolist()]
        traced[sentence.lines[0]] = Coverage(topics, output, rest[:, : len(topics)].tolist(), label)
    return [traced[line] for line in sorted(traced)]


def trace_provenance(model: TextModel, lines: Sequence[str], beam: int | None = None) -> list[Provenance]:
    """Return the origin of the words of the best output of every line.

    Raises:
        UserError: if the model does not copy, or a line is empty.
    """
    if not model.copies:
        raise UserError(
            f"{model.arch} does not copy words, so there is no provenance to draw; give another checkpoint."
        )
    traced = []
    for sentence in model.explain(_check_no_empty(lines), beam=beam):
        best = sentence.outputs[0]
        assert best.copied is not None
        assert best.copied_from is not None
        words = [
            CopiedWord(word, share, {place: origin for place, origin in enumerate(origins) if origin >= SMALLEST_SHARE})
            for word, share, origins in zip(best.tokens, best.copied.tolist(), best.copied_from.tolist(), strict=True)
        ]
        traced.append(Provenance(sentence.source, words))
    return traced


def trace_granularity(model: TextModel, lines: Sequence[str], beam: int | None = None) -> list[Sentence]:
    """Return the granularities of the words of every line.

    Raises:
        UserError: if the model has no granularities, or a line is empty.
    """
    if not model.has_granularity:
        raise UserError(
            f"the words of {model.arch} have no granularity, so there is none to draw; give another checkpoint."
        )
    explained = model.explain(_check_no_empty(lines), beam=beam)
    return [join_words(item.source, {str(k): z.tolist() for k, z in item.granularity.items()}) for item in explained]
