"""Outputs of a model for a sentence: texts and scores, and behind each word where it came from, as arrays.

Legend: ``S`` source length and ``T`` output length, end symbols included.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..data.extended_vocabulary import SlotMap
from ..data.typed_text import are_known, unknown_words_sentence
from ..search.output_writer import granularities, origins

if TYPE_CHECKING:
    from .model import TextModel

FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class Output:
    """One output.

    Attributes:
        text: running text.
        score: to the base 2, as fairseq prints it: the mean log-probability of a token, or what the search counts.
        tokens: what was written, the end symbol last.
        known: whether the dictionary has them; the others were copied.
        probabilities: of each token, given those before it; (T,).
        attention: what each token attends to, (T, S); ``None`` where the model has none.
        copied: how probably each token was copied, (T,); ``None`` where the model does not copy.
        copied_from: from which source tokens, (T, S); likewise.
        granularity: by layer, how fine each token is (0 = template, 1 = detail), (T,); the end symbol, which nobody
            reads, has no number. Empty where the model has none.
    """

    text: str
    score: float
    tokens: list[str]
    known: list[bool]
    probabilities: FloatArray
    attention: FloatArray | None = None
    copied: FloatArray | None = None
    copied_from: FloatArray | None = None
    granularity: dict[int, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True)
class Generated:
    """Outputs of a model for one line.

    Attributes:
        source: the tokens that it read, the end symbol last; empty where the line has none.
        known: whether its dictionary has them.
        outputs: best first; none for an empty line.
        granularity: by layer, of the source, (S,).
        cut: whether the line was longer than the model reads, and was cut.
        unknown: where more than a fifth of its words are not in the dictionary, a sentence that says so.
    """

    source: list[str] = field(default_factory=list)
    known: list[bool] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    granularity: dict[int, FloatArray] = field(default_factory=dict)
    cut: bool = False
    unknown: str = ""


def describe(
    model: "TextModel", spelt: Tensor, hypotheses: Sequence[dict[str, Any]], *, details: bool, cut: bool
) -> Generated:
    """All that a search found for one sentence.

    Args:
        spelt: the source as it is spelt, with padding, (S',).
        hypotheses: as the task gives them, best first.
        details: add what takes another pass through the model: copies and granularities.
    """
    dictionary = model.task.source_dictionary
    is_token = spelt.ne(dictionary.pad())
    read = spelt[is_token]
    source = [dictionary[index] for index in read.tolist()]
    known = are_known(read, dictionary)
    unknown = unknown_words_sentence([read], dictionary)
    outputs = [_output(model, hypothesis, source, is_token) for hypothesis in hypotheses]
    of_source: dict[int, FloatArray] = {}
    if details:
        slots = SlotMap(dictionary, model.task.target_dictionary, read.unsqueeze(0))
        for place, hypothesis in enumerate(hypotheses):
            of_output, of_source = _details(model, slots, hypothesis["tokens"])
            outputs[place] = replace(outputs[place], **of_output)
    return Generated(source, known, outputs, of_source, cut, unknown)


def _details(model: "TextModel", slots: SlotMap, spelt: Tensor) -> tuple[dict[str, Any], dict[int, FloatArray]]:
    """Copies and granularities of an output (T,), as ``Output`` has them; the granularities of the source (S,)."""
    tokens = slots.slots(spelt.unsqueeze(0))[0]
    of_output: dict[str, Any] = {}
    of_source: dict[int, FloatArray] = {}
    if model.copies:
        copied, places = origins(model.model, slots, 0, tokens)
        of_output |= {"copied": array(copied), "copied_from": array(places)}
    if model.has_granularity:
        read, written = granularities(model.model, slots, 0, tokens)
        of_source = {layer: array(z) for layer, z in read.items()}
        # A token's granularity is that with which it is read, a step after it was written.
        z_of = {layer: np.append(array(z)[1:], np.float32("nan")) for layer, z in written.items()}
        of_output["granularity"] = z_of
    return of_output, of_source


def _output(model: "TextModel", hypothesis: dict[str, Any], source: list[str], is_token: Tensor) -> Output:
    dictionary, ids = model.task.target_dictionary, hypothesis["tokens"].tolist()
    tokens = [dictionary[index] for index in ids]
    attention = hypothesis.get("attention")
    weights = None
    if attention is not None and attention.dim() == 2 and attention.size(0) == len(is_token):
        weights = array(attention[is_token.to(attention.device)].t()[: len(tokens)])
    words = [token for token, index in zip(tokens, ids, strict=True) if index != dictionary.eos()]
    if model.replaces_unknown and weights is not None and len(source) > 1:
        attended = weights[:, :-1].argmax(axis=1)  # not the end symbol
        words = [source[attended[n]] if ids[n] == dictionary.unk() else word for n, word in enumerate(words)]
    return Output(
        text=model.text.restore(" ".join(words)),
        score=float(hypothesis["score"]) / math.log(2),
        tokens=tokens,
        known=are_known(hypothesis["tokens"], dictionary),
        probabilities=np.exp(np.minimum(array(hypothesis["positional_scores"]), 0.0)),
        attention=weights,
    )


def array(values: Tensor) -> FloatArray:
    """A tensor as an array of its own."""
    found: FloatArray = values.detach().float().cpu().numpy().copy()
    return found


def rounded(number: float) -> float | None:
    """A number as JSON has it, which knows no infinity and no number that is none."""
    return round(float(number), 4) if math.isfinite(number) else None
