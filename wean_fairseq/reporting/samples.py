"""Show sample outputs with their sources: words that are copied, new, or left out."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from ..errors import UserError
from ..evaluation.granularity import spread
from ..evaluation.tokenizers import has_chinese
from .document import Piece, Sample, SamplesBlock
from .dumps import Provenance, read_provenance
from .runs import Run, ScoredSet

MOST_WORDS = 400  # maximum number of words of a text that are shown
# Brackets and quotation marks that precede a word, and punctuation that follows it, including the full stop of an
# abbreviation.
_BEFORE, _AFTER = '"“”„«([¿¡', '.,;:!?"“”»)]…'  # punctuation marks that are attached to words
_LETTER = re.compile(r"\w")
_COPIED = 0.5  # a word counts as copied if its probability of being copied is at least this number
_OWN_ACCOUNT = (
    "By its own account (--copy-provenance): marked like a word of the source = copied with a probability of at least "
    f"{_COPIED}, else = generated, whether or not the source has the word."
)
LEGEND = [
    Piece("in the source too", "copied"),
    Piece("not in the source", "new"),
    Piece("of the source, left out", "dropped"),
]


def split_words(text: str, characters: bool) -> list[Piece]:
    """Split a text into words with attached punctuation, or into characters."""
    if characters:
        return [Piece(character) for character in text.replace(" ", "")]
    words = []
    for token in text.split():
        rest = token.lstrip(_BEFORE)
        word = rest.rstrip(_AFTER)
        is_word = _LETTER.search(word) is not None
        texts = [*token[: -len(rest)], word, *rest[len(word) :]] if is_word else [token]
        words += [Piece(text, attached=place > 0) for place, text in enumerate(texts)]
    return words


def mark_words(source: Sequence[Piece], output: Sequence[Piece]) -> list[Piece]:
    """Mark the words of an output that are in the source, and append the words of the source that it leaves out.

    Repetitions count: the second "the" in an output is new if the source has only one.
    """
    remaining = Counter(word.text.lower() for word in source)
    pieces = []
    for word in output[:MOST_WORDS]:
        copied = remaining[word.text.lower()] > 0
        remaining[word.text.lower()] -= copied
        pieces.append(Piece(word.text, "copied" if copied else "new", attached=word.attached))
    if len(output) > MOST_WORDS:
        return [*pieces, Piece(f"… ({len(output) - MOST_WORDS} words more)")]
    dropped = []
    for word in reversed(source):
        if remaining[word.text.lower()] > 0:
            remaining[word.text.lower()] -= 1
            dropped.append(Piece(word.text, "dropped"))
    return [*pieces, *reversed(dropped[-MOST_WORDS:])]


def provenance_pieces(dumped: Provenance) -> list[Piece]:
    """Mark those words of an output that were copied according to the model."""
    return [
        Piece(word.word, "copied" if word.copied >= _COPIED else "new", f"copied with probability {word.copied:.2f}")
        for word in dumped.words[:MOST_WORDS]
    ]


def samples_block(run: Run, test: ScoredSet, number: int) -> SamplesBlock | None:
    """Return sentences that are spread evenly over a test set, or None if its text was not found."""
    if not (test.sources and test.outputs):
        return None
    characters = has_chinese("".join(test.sources[:50])) and not any(" " in line.strip() for line in test.sources[:50])
    dumps = _dumps(run, test)
    samples = []
    for index in spread(range(len(test.sources)), number):
        source = split_words(test.sources[index], characters)
        lines = [("source", _plain_pieces(source))]
        if test.references:
            reference = split_words(test.references[index], characters)
            compared = [piece for piece in mark_words(source, reference) if piece.kind != "dropped"]
            lines.append(("reference", compared))
        for name, outputs in test.outputs.items():
            lines.append((name, mark_words(source, split_words(outputs[index], characters))))
            if index in dumps.get(name, {}):
                lines.append((f"{name}, by its own account", provenance_pieces(dumps[name][index])))
        samples.append(Sample(index + 1, lines))
    if not samples:
        return None
    notes = [_OWN_ACCOUNT] if dumps else []
    caption = f"{len(samples)} of {len(test.sources):,} sentences, spread evenly"
    return SamplesBlock(caption, samples, LEGEND, "" if characters else " ", notes)


def _dumps(run: Run, test: ScoredSet) -> Mapping[str, Mapping[int, Provenance]]:
    dumps = {}
    for name in test.outputs:
        path = run.systems[name].dumps.get("provenance") if name in run.systems else None
        if path is not None:
            try:
                dumped = read_provenance(path)
                if len(dumped) == len(test.sources):  # otherwise, the dump belongs to another test set
                    dumps[name] = dumped
            except UserError as error:
                run.problems.append(f"{name}: {error}")
    return dumps


def _plain_pieces(words: Sequence[Piece]) -> list[Piece]:
    more = [Piece(f"… ({len(words) - MOST_WORDS} words more)")] if len(words) > MOST_WORDS else []
    return [*words[:MOST_WORDS], *more]
