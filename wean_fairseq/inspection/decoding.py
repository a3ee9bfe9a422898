"""Decoding of a sentence, as the page shows it: outputs, and behind each word where it came from."""

from collections.abc import Sequence
from typing import Any

from ..evaluation.neighbours import Neighbourhood
from ..generation import Output
from ..generation.outputs import FloatArray, rounded
from ..search.output_writer import SMALLEST_SHARE
from .question import LIMITS, Question
from .systems import System

_NEIGHBOURS = 6  # of each word


def decode(system: System, question: Question) -> dict[str, Any]:
    """Decode a question; words outside the dictionary are forgotten afterwards.

    Returns:
        ``{"system": name, "arch": ..., "copies": ..., "granular": ..., "attends": ..., "unknown": a sentence, "source":
        [word, ...], "outputs": [{"text": running text, "score": base 2, as fairseq prints it, "words": [word, ...]},
        ...], "neighbours": {"source": {word: [[neighbour, cosine], ...], ...}, "target": {...}}}``. A word of the
        source is ``{"word": ..., "known": ..., "granularity": {layer: z, ...}}``; one of an output has ``probability``,
        ``attention`` {source position: share}, ``copied`` and ``positions`` {source position: share} beside, where the
        model has them.

    Raises:
        UserError: if the text is not what the system reads.
    """
    model = system.model
    beam = question.beam or min(model.beam, LIMITS.beam)
    length = question.length if model.needs_length else None
    [found] = model.explain(question.text, min(question.outputs, beam), beam=beam, essay_length=length)
    source: list[dict[str, Any]] = [
        {"word": word, "known": known} for word, known in zip(found.source, found.known, strict=True)
    ]
    if found.granularity:
        for place, entry in enumerate(source):
            entry["granularity"] = {str(layer): rounded(z[place]) for layer, z in found.granularity.items()}
    outputs = [_output(output) for output in found.outputs]
    return {
        "system": system.name,
        "arch": model.arch,
        "copies": model.copies,
        "granular": model.has_granularity,
        "attends": any(output.attention is not None for output in found.outputs),
        "unknown": found.unknown,
        "source": source,
        "outputs": outputs,
        "neighbours": {
            "source": _neighbour_lists(system.near.source, source),
            "target": _neighbour_lists(system.near.target, [word for output in outputs for word in output["words"]]),
        },
    }


def _output(output: Output) -> dict[str, Any]:
    words = []
    for place, token in enumerate(output.tokens):
        word = {"word": token, "known": output.known[place], "probability": rounded(output.probabilities[place])}
        if output.attention is not None:
            word["attention"] = _shares(output.attention[place])
        if output.copied is not None and output.copied_from is not None:
            word |= {"copied": rounded(output.copied[place]), "positions": _shares(output.copied_from[place])}
        of_layers = {str(layer): rounded(z[place]) for layer, z in output.granularity.items()}
        if any(z is not None for z in of_layers.values()):
            word["granularity"] = of_layers
        words.append(word)
    return {"text": output.text, "score": rounded(output.score), "words": words}


def _shares(row: FloatArray) -> dict[int, float | None]:
    return {place: rounded(share) for place, share in enumerate(row) if share >= SMALLEST_SHARE}


def _neighbour_lists(
    neighbourhood: Neighbourhood | None, words: Sequence[dict[str, Any]]
) -> dict[str, list[tuple[str, float]]]:
    if neighbourhood is None:
        return {}
    known = dict.fromkeys(entry["word"] for entry in words if entry["word"] in neighbourhood.rows)
    found = {word: neighbourhood.nearest(word, _NEIGHBOURS) for word in known}
    return {word: [(other, round(cosine, 3)) for other, cosine in near] for word, near in found.items() if near}
