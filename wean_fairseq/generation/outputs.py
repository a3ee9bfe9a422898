"""Outputs of a model for a sentence: texts and scores, and behind each word where it came from, as arrays.

Legend: ``S`` source length and ``T`` output length, end symbols included.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..data import SlotMap
from ..data.typed_text import are_known, unknown_words_sentence
from ..search import granularities, origins
from ..text import Text

FloatArray = NDArray[np.float32]
END = "</s>"


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


class Describer:
    """Turns what a search found into ``Generated``.

    Args:
        text: how tokens become running text.
        replace_unknown: put the source word with most attention in the place of an ``<unk>`` in the running text.
    """

    def __init__(self, model: Any, task: Any, text: Text, *, replace_unknown: bool) -> None:
        self.model = model
        self.source, self.target = task.source_dictionary, task.target_dictionary
        self.text = text
        self.replace_unknown = replace_unknown

    def describe(self, spelt: Tensor, hypotheses: Sequence[dict[str, Any]], *, details: bool, cut: bool) -> Generated:
        """All of one sentence.

        Args:
            spelt: the source as it is spelt, with padding, (S',).
            hypotheses: as the task gives them, best first.
            details: add what takes another pass through the model: copies and granularities.
        """
        is_token = spelt.ne(self.source.pad())
        read = spelt[is_token]
        source = [self.source[index] for index in read.tolist()]
        known = are_known(read, self.source)
        unknown = unknown_words_sentence([read], self.source)
        found = [self._output(hypothesis, source, is_token) for hypothesis in hypotheses]
        of_source: dict[int, FloatArray] = {}
        if details:
            of_source = self._add_details(read, hypotheses, found)
        outputs = [Output(**output) for output in found]
        return Generated(source, known, outputs, of_source, cut, unknown)

    def _add_details(
        self, read: Tensor, hypotheses: Sequence[dict[str, Any]], found: list[dict[str, Any]]
    ) -> dict[int, FloatArray]:
        """Add copies and granularities to outputs; the granularities of the source (S,)."""
        slots = SlotMap(self.source, self.target, read.unsqueeze(0))
        of_source: dict[int, FloatArray] = {}
        for hypothesis, output in zip(hypotheses, found, strict=True):
            tokens = slots.slots(hypothesis["tokens"].unsqueeze(0))[0]
            if copies(self.model):
                copied, places = origins(self.model, slots, 0, tokens)
                output |= {"copied": array(copied), "copied_from": array(places)}
            if has_granularity(self.model):
                read_by, written_by = granularities(self.model, slots, 0, tokens)
                of_source = {layer: array(z) for layer, z in read_by.items()}
                # A token's granularity is that with which it is read, a step after it was written.
                z_of = {layer: np.append(array(z)[1:], np.float32("nan")) for layer, z in written_by.items()}
                output["granularity"] = z_of
        return of_source

    def _output(self, hypothesis: dict[str, Any], source: list[str], is_token: Tensor) -> dict[str, Any]:
        ids = hypothesis["tokens"].tolist()
        tokens = [self.target[index] for index in ids]
        attention = hypothesis.get("attention")
        weights = None
        if attention is not None and attention.dim() == 2 and attention.size(0) == len(is_token):
            weights = array(attention[is_token.to(attention.device)].t()[: len(tokens)])
        words = [token for token, index in zip(tokens, ids, strict=True) if index != self.target.eos()]
        if self.replace_unknown and weights is not None and len(source) > 1:
            attended = weights[:, :-1].argmax(axis=1)  # not the end symbol
            words = [source[attended[n]] if ids[n] == self.target.unk() else word for n, word in enumerate(words)]
        return {
            "text": self.text.restore(" ".join(words)),
            "score": float(hypothesis["score"]) / math.log(2),
            "tokens": tokens,
            "known": are_known(hypothesis["tokens"], self.target),
            "probabilities": np.exp(np.minimum(array(hypothesis["positional_scores"]), 0.0)),
            "attention": weights,
        }


def copies(model: Any) -> bool:
    """Whether a model can copy words."""
    return bool(getattr(model, "copies_words", False) and getattr(model.decoder, "copies", False))


def has_granularity(model: Any) -> bool:
    """Whether a model's words have granularities."""
    return bool(getattr(model, "has_granularity", False))


def array(values: Tensor) -> FloatArray:
    """A tensor as an array of its own."""
    found: FloatArray = values.detach().float().cpu().numpy().copy()
    return found
