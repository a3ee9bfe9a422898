"""Decode texts with a model, and return the data for figures: attention, copying, granularities, coverage.

The functions accept ``beam`` and ``essay_length`` in ``search``, see `TextModel.explain`.
"""

from collections.abc import Sequence
from typing import Any

from ..checkpoints.export import check_unused, is_export
from ..errors import UserError
from ..evaluation.granularity import Sentence, join_words
from ..generation import TextModel
from ..generation import load as load_model
from ..search.output_writer import SMALLEST_SHARE
from ..search.traces import Trace
from ..text import TOKENS
from .dumps import Attention, CopiedWord, Coverage, Provenance


def open_model(checkpoint: str, data: str | None, **options: Any) -> TextModel:
    """Load a model.

    A model from a checkpoint reads the tokens of its training text, and a model from a folder of wean-export reads
    plain text.

    Args:
        data: directory with the dictionaries of a checkpoint.
        options: task options that override the options of the training.

    Raises:
        UserError: if the file or directory does not exist, or an option does not fit the model.
    """
    check_unused(checkpoint, data=data)
    return load_model(checkpoint, data, text=None if is_export(checkpoint) else TOKENS, **options)


def _check_no_empty(model: TextModel, lines: Sequence[str]) -> Sequence[str]:
    empty = [number for number, line in enumerate(lines, start=1) if not model.text.prepare(line).strip()]
    if empty or not lines:
        raise UserError(f"line {empty[0] if empty else 1} of the text has no words; give one sentence per line.")
    return lines


def trace_attention(model: TextModel, lines: Sequence[str], **search: Any) -> list[Attention]:
    """Return the attention of the best output of every line.

    Raises:
        UserError: if the model has no attention, or a line is empty.
    """
    traced = []
    for sentence in model.explain(_check_no_empty(model, lines), details=False, **search):
        best = sentence.outputs[0]
        if best.attention is None:
            raise UserError("this model returns no attention, so there is none to draw; give another checkpoint.")
        traced.append(Attention(sentence.source, best.tokens, best.attention.tolist()))
    return traced


def trace_coverage(model: TextModel, lines: Sequence[str], **search: Any) -> list[Coverage]:
    """Return the remaining part of each topic after each word of the best output of every line.

    For MTA-LSTM (Feng et al., IJCAI 2018), this part is C_t = 1 - sum_{i<=t} alpha_i / phi, and for SC-LSTM, it is d_t.

    Raises:
        UserError: if the model has no coverage of topics.
    """
    traced: dict[int, Coverage] = {}
    for sentence in model.search(_check_no_empty(model, lines), batch_size=1, **search):
        best = sentence.hypotheses[0][0]
        trace: Trace = best.get("trace", Trace({}, {}))
        if "keywords" in trace.steps:
            rest, label = trace.steps["keywords"], "d: how much of it is left to say"
        elif "importance" in trace.source:
            spent = trace.steps["topic_weights"].cumsum(dim=0) / trace.source["importance"]
            rest, label = 1.0 - spent, "coverage C: how much is left"
        else:
            raise UserError("this model keeps no coverage of its topics: give a checkpoint of mta_lstm or sc_lstm.")
        topics = [model.task.source_dictionary[index] for index in sentence.spelt[0][:-1].tolist()]
        output = [model.task.target_dictionary[index] for index in best["tokens"].tolist()]
        traced[sentence.lines[0]] = Coverage(topics, output, rest[:, : len(topics)].tolist(), label)
    return [traced[line] for line in sorted(traced)]


def trace_provenance(model: TextModel, lines: Sequence[str], **search: Any) -> list[Provenance]:
    """Return the origin of each word of the best output of every line.

    Raises:
        UserError: if the model does not copy, or a line is empty.
    """
    if not model.copies:
        raise UserError(
            f"{model.arch} does not copy words, so there is no provenance to draw; give another checkpoint."
        )
    traced = []
    for sentence in model.explain(_check_no_empty(model, lines), **search):
        best = sentence.outputs[0]
        assert best.copied is not None
        assert best.copied_from is not None
        words = [
            CopiedWord(word, share, {place: origin for place, origin in enumerate(origins) if origin >= SMALLEST_SHARE})
            for word, share, origins in zip(best.tokens, best.copied.tolist(), best.copied_from.tolist(), strict=True)
        ]
        traced.append(Provenance(sentence.source, words))
    return traced


def trace_granularity(model: TextModel, lines: Sequence[str], **search: Any) -> list[Sentence]:
    """Return the granularities of the words of every line.

    Raises:
        UserError: if the model has no granularities, or a line is empty.
    """
    if not model.has_granularity:
        raise UserError(
            f"the words of {model.arch} have no granularity, so there is none to draw; give another checkpoint."
        )
    explained = model.explain(_check_no_empty(model, lines), **search)
    return [join_words(item.source, {str(k): z.tolist() for k, z in item.granularity.items()}) for item in explained]
