"""Models that the page shows, and their answers: outputs, origins of words, and neighbours of words."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import nn

from ..data.extended_vocabulary import num_base_words
from ..errors import UserError
from ..evaluation.neighbours import Neighbourhood, neighbourhood_of
from ..generation import Output, TextModel
from ..generation.outputs import Float32Array, rounded
from ..search.output_writer import SMALLEST_SHARE
from .question import LIMITS, Question

_NEIGHBOURS = 6  # number of neighbours per word


class System:
    """A loaded model, its name on the page, and the neighbours of its words."""

    def __init__(self, name: str, model: TextModel) -> None:
        self.name = name
        self.model = model
        self.near = neighbourhoods(model.model, model.task.source_dictionary, model.task.target_dictionary)

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "arch": self.model.arch,
            "topics": self.model.reads_topics,
            "needs_length": self.model.needs_length,
            "beam": self.model.beam,
            "copies": self.model.copies,
            "granularity": self.model.has_granularity,
            "text": self.model.text.settings.describe(),
            "example": self.model.text.example,
        }


class Neighbourhoods(NamedTuple):
    """Nearest neighbours of the source words and of the target words. ``None`` for a side without embeddings."""

    source: Neighbourhood | None
    target: Neighbourhood | None


def neighbourhoods(model: Any, source: Any, target: Any) -> Neighbourhoods:
    """Return the neighbourhoods of a model that has these source and target dictionaries."""
    first, second = _table(model.encoder, source), _table(model.decoder, target)
    if source == target:  # a side without embeddings uses the embeddings of the other side
        first, second = first or second, second or first
    near = _neighbourhood(first, source)
    is_shared = source == target and first is not None and second is not None and first.weight is second.weight
    return Neighbourhoods(near, near if is_shared else _neighbourhood(second, target))


def _table(module: nn.Module, dictionary: Any) -> nn.Embedding | None:
    """Return the widest embedding in an encoder or decoder that has a row for every word of the dictionary."""
    # an embedding has either no rows for slots, or one row per slot
    sizes = range(num_base_words(dictionary), len(dictionary) + 1)
    tables = [table for table in module.modules() if isinstance(table, nn.Embedding) and table.num_embeddings in sizes]
    return max(tables, key=lambda table: table.embedding_dim, default=None)


def _neighbourhood(table: nn.Embedding | None, dictionary: Any) -> Neighbourhood | None:
    return None if table is None else neighbourhood_of(dictionary, table.weight)


def decode(system: System, question: Question) -> dict[str, Any]:
    """Return a system's answer to a question in the form of JSON.

    Words of the question that are outside the dictionary are forgotten afterwards.

    Returns:
        ``{"system": name, "arch": ..., "copies": ..., "granular": ..., "attends": ..., "unknown": a sentence, "source":
        [word, ...], "outputs": [{"text": untokenised text, "score": base 2, as fairseq prints it, "words": [word,
        ...]}, ...], "neighbours": {"source": {word: [[neighbour, cosine], ...], ...}, "target": {...}}}``. A source
        word is ``{"word": ..., "known": ..., "granularity": {layer: z, ...}}``. An output word also has
        ``probability``, ``attention`` {source position: share}, ``copied`` and ``positions`` {source position: share},
        if the model has them.

    Raises:
        UserError: if the system cannot read the text, or the search would take too long.
    """
    model = system.model
    beam = question.beam or min(model.beam, LIMITS.beam)
    length = question.length if model.needs_length else None
    words_read = len(model.text.prepare(question.text).split())
    most = LIMITS.searched // beam
    words = max(words_read, length or 0, model.search_options.get("min_len") or 0)
    if words > most:
        raise UserError(
            f"{words:,} words with a beam of {beam} take too long: use at most {most:,} words, or a smaller beam."
        )
    lengths = _output_limit(model.search_options, words_read, max(most, LIMITS.output))
    [generated] = model.explain(question.text, min(question.outputs, beam), beam=beam, essay_length=length, **lengths)
    if not generated.outputs:
        raise UserError("the text has no words, only characters that are not shown: type a sentence, or topics.")
    source: list[dict[str, Any]] = [
        {"word": word, "known": known} for word, known in zip(generated.source, generated.known, strict=True)
    ]
    if generated.granularity:
        for place, entry in enumerate(source):
            entry["granularity"] = {str(layer): rounded(z[place]) for layer, z in generated.granularity.items()}
    outputs = [_output(output) for output in generated.outputs]
    return {
        "system": system.name,
        "arch": model.arch,
        "copies": model.copies,
        "granular": model.has_granularity,
        "attends": any(output.attention is not None for output in generated.outputs),
        "unknown": generated.unknown,
        "source": source,
        "outputs": outputs,
        "neighbours": {
            "source": _neighbour_lists(system.near.source, source),
            "target": _neighbour_lists(system.near.target, [word for output in outputs for word in output["words"]]),
        },
    }


def _output_limit(search: Mapping[str, Any], words_read: int, most: int) -> dict[str, Any]:
    """Return options that limit outputs to ``most`` words, if the search allows more for ``words_read`` words."""
    factor, constant = search.get("max_len_a") or 0, search.get("max_len_b", 200)
    return {"max_len_a": 0.0, "max_len_b": most} if factor * (words_read + 1) + constant > most else {}


def _output(output: Output) -> dict[str, Any]:
    words = []
    for place, token in enumerate(output.tokens):
        word = {"word": token, "known": output.known[place], "probability": rounded(output.probabilities[place])}
        if output.attention is not None:
            word["attention"] = _shares(output.attention[place])
        if output.copied is not None and output.copied_from is not None:
            word |= {"copied": rounded(output.copied[place]), "positions": _shares(output.copied_from[place])}
        granularities = {str(layer): rounded(z[place]) for layer, z in output.granularity.items()}
        if any(z is not None for z in granularities.values()):
            word["granularity"] = granularities
        words.append(word)
    return {"text": output.text, "score": rounded(output.score), "words": words}


def _shares(row: Float32Array) -> dict[int, float | None]:
    return {place: rounded(share) for place, share in enumerate(row) if share >= SMALLEST_SHARE}


def _neighbour_lists(
    neighbourhood: Neighbourhood | None, words: Sequence[dict[str, Any]]
) -> dict[str, list[tuple[str, float]]]:
    if neighbourhood is None:
        return {}
    embedded = dict.fromkeys(entry["word"] for entry in words if entry["word"] in neighbourhood.rows)
    nearest = {word: neighbourhood.nearest(word, _NEIGHBOURS) for word in embedded}
    return {word: [(other, round(cosine, 3)) for other, cosine in near] for word, near in nearest.items() if near}
