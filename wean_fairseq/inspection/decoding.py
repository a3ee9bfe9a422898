"""What a system makes of a sentence, as the page shows it: its outputs, and behind each word where it came from.

The search is the task's own, as in fairseq-interactive. Copy provenance and granularities are written by what writes
the dumps of ``--copy-provenance`` and ``--granularity-dump``, for each of the n best outputs, and read back.

Legend: ``S`` source length, ``T`` output length.
"""

import json
import math
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wean_fairseq.errors import UserError
from wean_fairseq.inspection.neighbourhood import Neighbourhood
from wean_fairseq.inspection.question import Question
from wean_fairseq.inspection.systems import System
from wean_fairseq.models.copying import num_base_words
from wean_fairseq.reporting.dumps import read_provenance
from wean_fairseq.reporting.trace import search

LONGEST = 200  # words of an output, as fairseq-interactive has it
SMALLEST_SHARE = 0.005  # of attention, to be shown


def decode(system: System, question: Question) -> dict[str, Any]:
    """Decode a question; words outside the dictionary are forgotten afterwards.

    Returns:
        ``{"system": name, "arch": ..., "copies": ..., "granular": ..., "attends": ..., "source": [word, ...],
        "outputs": [{"score": base 2, as fairseq prints it, "words": [word, ...]}, ...], "neighbours": {"source":
        {word: [[neighbour, cosine], ...], ...}, "target": {...}}}``. A word of the source is ``{"word": ..., "known":
        ..., "granularity": {layer: z, ...}}``; one of an output has ``probability``, ``attention`` {source position:
        share}, ``copied`` and ``positions`` {source position: share} beside, where the model has them.

    Raises:
        UserError: if the text is not what the system reads.
    """
    try:
        return _decode(system, question)
    finally:
        for dictionary in (system.loaded.task.source_dictionary, system.loaded.task.target_dictionary):
            if hasattr(dictionary, "forget_spellings"):
                dictionary.forget_spellings()


def _decode(system: System, question: Question) -> dict[str, Any]:
    loaded = system.loaded
    text = system.prepare(question.text)
    _check_length(system, text)
    if system.needs_length:
        loaded.task.cfg.essay_length = question.length
    longest = max(LONGEST, question.length if system.needs_length else 0)
    options = Namespace(beam=question.beam, nbest=question.outputs, max_len_a=0.0, max_len_b=longest)
    loaded = loaded._replace(generator=loaded.task.build_generator([loaded.model], options))
    [(sample, hypotheses)] = search(loaded, [text])
    hypotheses = hypotheses[: question.outputs]
    spelt = sample["spelt"]
    source = _words(spelt[0], loaded.task.source_dictionary)
    outputs = [_output(hypothesis, loaded.task.target_dictionary, len(source)) for hypothesis in hypotheses]
    _add_origins(system, spelt, hypotheses, source, outputs)
    return {
        "system": system.name,
        "arch": system.arch,
        "copies": system.copies,
        "granular": system.has_granularity,
        "attends": any("attention" in word for output in outputs for word in output["words"]),
        "source": source,
        "outputs": outputs,
        "neighbours": {
            "source": _near(system.near.source, source),
            "target": _near(system.near.target, [word for output in outputs for word in output["words"]]),
        },
    }


def _check_length(system: System, text: str) -> None:
    """Refuse what is longer than the model reads; the task's own words are for files of many lines."""
    from fairseq.utils import resolve_max_positions

    task = system.loaded.task
    most = resolve_max_positions(task.max_positions(), system.loaded.model.max_positions())
    most = int(most[0] if isinstance(most, tuple) else most) - 1  # the end symbol
    kind = "words"
    if system.reads_topics and task.cfg.max_topics < most:
        most, kind = int(task.cfg.max_topics), "topics"
    length = len(text.split())
    limits = getattr(task, "limits", None)
    if limits is not None and limits.truncates:
        length = min(length, limits.length)
    if length > most:
        raise UserError(f"the text has {length} {kind}, and {system.name} reads at most {most}: shorten it.")


def _words(tokens: Tensor, dictionary: Any) -> list[dict[str, Any]]:
    """The words of tokens (T,), and whether the dictionary has them."""
    base = num_base_words(dictionary)
    unknown = dictionary.unk()
    return [{"word": dictionary[index], "known": index < base and index != unknown} for index in tokens.tolist()]


def _output(hypothesis: dict[str, Any], dictionary: Any, source_length: int) -> dict[str, Any]:
    """A hypothesis with the probability and the attention (S, T) of its words."""
    words = _words(hypothesis["tokens"], dictionary)
    for word, score in zip(words, hypothesis["positional_scores"].tolist(), strict=True):
        word["probability"] = _rounded(math.exp(min(score, 0.0)))
    attention = hypothesis.get("attention")
    if attention is not None and attention.dim() == 2 and attention.size(0) == source_length:
        for word, row in zip(words, attention.float().t().tolist(), strict=False):
            word["attention"] = {place: _rounded(share) for place, share in enumerate(row) if share >= SMALLEST_SHARE}
    return {"score": _rounded(float(hypothesis["score"]) / math.log(2)), "words": words}


def _rounded(number: float) -> float | None:
    """JSON has no infinity."""
    return round(number, 4) if math.isfinite(number) else None


def _add_origins(
    system: System,
    spelt: Tensor,
    hypotheses: Sequence[dict[str, Any]],
    source: list[dict[str, Any]],
    outputs: list[dict[str, Any]],
) -> None:
    """Add what was copied and how fine words are to the words of the source and of the outputs.

    Args:
        system: what decoded.
        spelt: the source, (1, S).
        hypotheses: as the task gives them, spelt.
        source: gets granularities.
        outputs: get all there is.
    """
    if not (system.copies or system.has_granularity):
        return
    from wean_fairseq.data import SlotMap
    from wean_fairseq.search import GranularityWriter, ProvenanceWriter

    task = system.loaded.task
    slots = SlotMap(task.source_dictionary, task.target_dictionary, spelt)
    batches = [{"id": torch.tensor([number]), "net_input": {"src_tokens": spelt}} for number in range(len(hypotheses))]
    with_slots = [{"tokens": slots.slots(found["tokens"].unsqueeze(0))[0]} for found in hypotheses]
    with tempfile.TemporaryDirectory() as folder:
        if system.copies:
            path = Path(folder, "provenance.jsonl")
            copied = ProvenanceWriter(str(path))
            for batch, found in zip(batches, with_slots, strict=True):
                copied.write(system.loaded.model, batch, slots, [[found]])
            for number, provenance in read_provenance(path).items():
                for word, step in zip(outputs[number]["words"], provenance.output, strict=True):
                    word |= {"copied": step.copied, "positions": step.positions}
        if system.has_granularity:
            path = Path(folder, "granularity.jsonl")
            granular = GranularityWriter(str(path))
            for batch, found in zip(batches, with_slots, strict=True):
                granular.write(system.loaded.model, batch, slots, [[found]])
            _add_granularities(path.read_text(encoding="utf-8").splitlines(), source, outputs)


def _add_granularities(lines: list[str], source: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> None:
    """Add the granularities of a dump, a line an output."""
    for line, output in zip(lines, outputs, strict=True):
        entry = json.loads(line)
        for place, word in enumerate(source):
            word["granularity"] = {layer: z[place] for layer, z in entry["source_granularity"].items()}
        # A word's granularity is that with which it is read, a step after it was written; nobody reads the end.
        for place, word in enumerate(output["words"][:-1], start=1):
            word["granularity"] = {layer: z[place] for layer, z in entry["output_granularity"].items()}


def _near(neighbourhood: Neighbourhood | None, words: Sequence[dict[str, Any]]) -> dict[str, list[tuple[str, float]]]:
    """The neighbours of all words that have some."""
    if neighbourhood is None:
        return {}
    found = {word: neighbourhood.of(word) for word in dict.fromkeys(entry["word"] for entry in words)}
    return {word: near for word, near in found.items() if near}
