"""Signs that a text is not what it is taken for: scores of it would be numbers, but not the system's."""

import re
from collections.abc import Iterable, Iterator, Sequence

from ..errors import UserError, name_some
from .corpus import Corpus
from .output_reader import PIECES, SystemOutput, holds_pieces

#: Chinese, Japanese, Thai, Lao, Burmese and Khmer put no space between words.
_SPACELESS = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
#: Texts differ in case as a whole if one has this many times the capitals, or small letters, of the other.
_TIMES, _SOME = 20, 0.01


def check_pieces(systems: Sequence[SystemOutput], corpus: Corpus) -> list[str]:
    """Refuse outputs that are pieces of words where the references are words; a rare one is reported.

    Raises:
        UserError: if one output in a hundred or more holds pieces.
    """
    if any(holds_pieces(line) for text in corpus.references for line in text):
        return []
    notes = []
    for system in systems:
        cut = [number for number, text in enumerate(system.hypotheses, start=1) if holds_pieces(text)]
        found = f"{len(cut)} outputs hold pieces of words ('@@' or '▁', line {name_some(cut)})"
        if 100 * len(cut) >= len(system.nbest):
            raise UserError(f"{system.name}: {found}; join them with --remove-bpe [{'|'.join(PIECES)}].")
        if cut:
            notes.append(f"{system.name}: {found}, scored as words.")
    return notes


def plausibility_warnings(systems: Sequence[SystemOutput], corpus: Corpus, signatures: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for everything that is odd about the texts, given how they are scored."""
    entries = {entry for signature in signatures for entry in signature.split("|")}
    sample = "\n".join(corpus.references[0][:1000])
    yield from (f"{system.name}: {note}" for system in systems for note in system.notes)
    if "tok:13a" in entries and 2 * len(_SPACELESS.findall(sample)) > sum(map(str.isalpha, sample)):
        yield "the references are in a script without spaces, where 13a finds few words; take --tokenize char."
    for system in systems:
        null = [number for number, text in enumerate(system.hypotheses, start=1) if "\0" in text]
        if null:
            yield f"{system.name}: {len(null)} outputs hold the character NUL (line {name_some(null)})."
        ours, theirs = _capitals(system.hypotheses), _capitals(corpus.references[0])
        if "case:mixed" in entries and (_is_many_times(ours, theirs) or _is_many_times(1 - ours, 1 - theirs)):
            yield (
                f"{system.name}: {ours:.1%} of its letters are capitals but {theirs:.1%} of the references'; "
                "bring both into one case, or take --lowercase."
            )


def _is_many_times(one: float, other: float) -> bool:
    return max(one, other) > max(_SOME, _TIMES * min(one, other))


def _capitals(lines: Sequence[str]) -> float:
    """Return the share of capitals among the letters that have case; no number where none has."""
    upper = sum(character.isupper() for line in lines for character in line)
    lower = sum(character.islower() for line in lines for character in line)
    return upper / (upper + lower) if upper + lower else float("nan")
