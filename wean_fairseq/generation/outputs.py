"""Outputs of a model for one sentence, with texts, scores and the origin of each word. All numbers are NumPy arrays.

Legend: ``S`` source length and ``T`` output length, including end symbols.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..data.typed_text import are_known, unknown_words_sentence
from ..search.traces import Trace

if TYPE_CHECKING:
    from .model import TextModel

Float32Array = NDArray[np.float32]


@dataclass(frozen=True, repr=False)
class Output:
    """One output of a model.

    Attributes:
        text: the untokenised output.
        score: base-2 score as printed by fairseq: the mean log-probability per token, or the score that the search
            itself defines.
        tokens: the generated tokens, including the end symbol.
        known: for each token, whether the dictionary contains it. The other tokens were copied.
        probabilities: probability of each token given the previous tokens, (T,).
        attention: attention weights of each token, (T, S). ``None`` for models without attention.
        copied: probability that each token was copied, (T,). ``None`` for models that do not copy.
        copied_from: distribution over the source tokens from which each token was copied, (T, S). ``None`` for models
            that do not copy.
        granularity: for each layer, the granularities of the tokens (0 = template, 1 = detail), (T,). The end symbol
            has NaN, because the model never reads it. It is empty for models without granularities.
    """

    text: str
    score: float
    tokens: list[str]
    known: list[bool]
    probabilities: Float32Array
    attention: Float32Array | None = None
    copied: Float32Array | None = None
    copied_from: Float32Array | None = None
    granularity: dict[int, Float32Array] = field(default_factory=dict)

    def __repr__(self) -> str:
        arrays = [name for name in ("attention", "copied", "copied_from") if getattr(self, name) is not None]
        arrays += ["granularity"] * bool(self.granularity)
        return f"Output({self.text!r}, score={self.score:.4f}, {', '.join(['tokens', 'probabilities', *arrays])})"


@dataclass(frozen=True, repr=False)
class Generated:
    """All outputs of a model for one line.

    Attributes:
        source: the tokens that the model read, including the end symbol. Empty for an empty line.
        known: for each source token, whether the dictionary contains it.
        outputs: outputs for the line, best first. Empty for an empty line.
        granularity: for each layer, the granularities of the source tokens, (S,).
        cut: whether the line was too long and was truncated.
        unknown: a warning, if more than a fifth of the words are not in the dictionary.
    """

    source: list[str] = field(default_factory=list)
    known: list[bool] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    granularity: dict[int, Float32Array] = field(default_factory=dict)
    cut: bool = False
    unknown: str = ""

    def __repr__(self) -> str:
        return f"Generated({' '.join(self.source)!r}, outputs={self.outputs!r}{', cut' if self.cut else ''})"


def describe_outputs(
    model: "TextModel", spelt: Tensor, hypotheses: Sequence[dict[str, Any]], *, cut: bool
) -> Generated:
    """Describe the hypotheses of one sentence.

    Args:
        spelt: the padded source tokens (S',), in which unknown words have their spelling ids.
        hypotheses: hypotheses from the task, best first. Their traces, if there are any, contain the copies and
            granularities.
    """
    dictionary = model.task.source_dictionary
    is_token = spelt.ne(dictionary.pad())
    source_ids = spelt[is_token]
    source = [dictionary[index] for index in source_ids.tolist()]
    known = are_known(source_ids, dictionary)
    unknown = unknown_words_sentence([source_ids], dictionary)
    outputs = [_output(model, hypothesis, source, is_token) for hypothesis in hypotheses]
    trace: Trace | None = hypotheses[0].get("trace") if hypotheses else None
    granularity = {} if trace is None else {layer: array(z) for layer, z in trace.granularities()[0].items()}
    return Generated(source, known, outputs, granularity, cut, unknown)


def _details(trace: Trace) -> dict[str, Any]:
    """Return copies and granularities of an output, as fields of ``Output``."""
    details: dict[str, Any] = {
        name: array(trace.steps[name]) for name in ("copied", "copied_from") if name in trace.steps
    }
    # A step reads the token that the previous step has written, and computes its granularity.
    read = trace.granularities()[1].items()
    return details | {"granularity": {layer: np.append(array(z)[1:], np.float32("nan")) for layer, z in read}}


def _output(model: "TextModel", hypothesis: dict[str, Any], source: list[str], is_token: Tensor) -> Output:
    dictionary, ids = model.task.target_dictionary, hypothesis["tokens"].tolist()
    tokens = [dictionary[index] for index in ids]
    attention = hypothesis.get("attention")
    weights = None
    if attention is not None and attention.dim() == 2 and attention.size(0) == len(is_token):
        weights = array(attention[is_token.to(attention.device)].t()[: len(tokens)])
    words = [token for token, index in zip(tokens, ids, strict=True) if index != dictionary.eos()]
    if model.replaces_unknown and weights is not None and len(source) > 1:
        attended = weights[:, :-1].argmax(axis=1)  # the end symbol cannot be selected
        words = [source[attended[n]] if ids[n] == dictionary.unk() else word for n, word in enumerate(words)]
    return Output(
        text=model.text.restore(" ".join(words)),
        score=float(hypothesis["score"]) / math.log(2),
        tokens=tokens,
        known=are_known(hypothesis["tokens"], dictionary),
        probabilities=np.exp(np.minimum(array(hypothesis["positional_scores"]), 0.0)),
        attention=weights,
        **(_details(hypothesis["trace"]) if "trace" in hypothesis else {}),
    )


def array(values: Tensor) -> Float32Array:
    """Return a tensor as a NumPy array with its own memory."""
    copied: Float32Array = values.detach().float().cpu().numpy().copy()
    return copied


def rounded(number: float) -> float | None:
    """Round a number for JSON. NaN and infinity become None."""
    return round(float(number), 4) if math.isfinite(number) else None
