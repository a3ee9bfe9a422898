"""Detect wrong files, whose scores would not be the scores of a system.

`CHECKS` is the table of all checks. The file ``marks.toml`` lists traces of processing, such as pieces of words and
escapes. Texts that are certainly wrong raise UserError. For other unusual properties, a warning names the likely cause.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec import Struct, convert

from ..errors import UserError, name_some
from .alignment import SPACELESS, Anchors, LogComparison, word_set
from .corpus import Corpus
from .file_formats import NUMBER
from .output_reader import SystemOutput
from .text_files import read_table

#: Minimum share of lines with a mark for a report, unless the mark has its own minimum.
SOME = 0.01
#: A feature of two texts is called one-sided if its shares in the texts differ at least by this factor, and the larger
#: share is at least `SOME`.
_TIMES = 20
#: Minimum share of references with a feature, for a report that the outputs lack this feature.
_LACKING = 0.05
#: Texts with fewer lines than this number are not judged.
_FEWEST = 3
#: For a report: minimum share of identical outputs, and minimum share of outputs that have the maximum length.
_REPEATED, _CUT = 0.5, 0.1
_FEWEST_CUT = 5
#: The use of capitals is judged only if at least this share of a text's characters has case.
_CASED = 0.3
#: Conditions for a report that reference and source may have been swapped: the references contain more than the first
#: share of an output's words, the source contains more than the second share, and the shares differ by more than the
#: third number.
_IN_REFERENCE, _IN_SOURCE, _FURTHER = 0.7, 0.3, 0.1
#: The source is used for such reports only if the ratio of its length to the length of the reference is in this range.
#: A longer source means that the task shortens texts, and a much shorter source is a list of topics.
_COMPARABLE = (0.5, 1.05)

_UNRELATED = "lines in their own place no better than other lines; they are in another order, or of different test sets"


class Mark(Struct):
    """A trace of processing that may occur in texts, see ``marks.toml``."""

    name: str
    advice: str
    pattern: str = ""
    refused: float = 2.0
    in_source: bool = False
    least: float = SOME
    counterpart: str = ""

    def found_in(self, text: str) -> bool:
        """Return True if a text contains the mark."""
        if not self.pattern:
            return not unicodedata.is_normalized("NFC", text)
        return re.search(self.pattern, text, re.IGNORECASE | re.MULTILINE) is not None

    def has_counterpart(self, text: str) -> bool:
        """Return True if a text contains the counterpart of the mark, that is, the form without processing."""
        return re.search(self.counterpart, text) is not None


MARKS = convert(read_table("marks.toml")["marks"], list[Mark])


@dataclass(frozen=True)
class Side:
    """One text of an evaluation: the outputs of one run, the source, or all references together.

    Attributes:
        logged: sources and targets in the log of the outputs, see `SystemOutput`.
    """

    name: str
    lines: Sequence[str]
    logged: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def filled(self) -> int:
        """The number of lines that are not empty."""
        return max(1, sum(1 for line in self.lines if line.strip()))

    @cached_property
    def sample(self) -> str:
        """The first thousand lines, joined into one text."""
        return "\n".join(self.lines[:1000])

    @cached_property
    def whole(self) -> str:
        """All lines, joined into one text."""
        return "\n".join(self.lines)

    def with_mark(self, mark: Mark) -> list[int]:
        """Return the numbers of the lines that contain a mark.

        The whole text is searched first, because most texts contain no mark.
        """
        if not mark.found_in(self.whole):
            return []
        return [number for number, line in enumerate(self.lines, start=1) if mark.found_in(line)]


class Texts:
    """All texts of an evaluation in the form that the checks read. References may be missing.

    Without references, some checks compare the outputs with the source. The checks of properties in which outputs may
    well differ from the source, such as their length or capitals, do nothing.

    Attributes:
        systems: the best outputs of each run of a system.
        references: the lines of all reference files, which are concatenated.
        usual: the references or, if there are none, the source.
        first: the lines of the first reference file.
    """

    def __init__(self, systems: Sequence[SystemOutput], corpus: Corpus) -> None:
        self.systems = [Side(system.name, system.hypotheses, system.logged) for system in systems]
        self.corpus = corpus
        self.source = None if corpus.sources is None else Side("the source", corpus.sources)
        self.references = Side("the references", [line for text in corpus.references for line in text])
        self.usual = self.references if corpus.references or self.source is None else self.source
        self.first = Side("the reference", corpus.references[0] if corpus.references else [])

    @cached_property
    def anchors(self) -> list[Anchors]:
        """The texts with which the outputs are aligned. If there is a source, it is the first one."""
        source = [] if self.source is None else [Anchors("source", self.source.lines)]
        return source + ([Anchors("reference", self.first.lines)] if self.corpus.references else [])

    @property
    def rewriting(self) -> Iterator[Side]:
        """The runs whose outputs are not simply a copy of the source."""
        return (side for side in self.systems if self.source is None or side.lines != self.source.lines)


def check_outputs_are_text(texts: Texts) -> Iterator[str]:
    """Report marks that are frequent in the outputs and rare in the usual text, or the reverse.

    Raises:
        UserError: if outputs contain a mark that makes their scores meaningless.
    """
    for mark in MARKS:
        marked = texts.usual.with_mark(mark)
        share = len(marked) / texts.usual.filled
        sides = [*texts.rewriting, *([texts.source] if texts.source and mark.in_source else [])]
        lacking = []
        for side in sides:
            lines = side.with_mark(mark)
            own = len(lines) / side.filled
            if own >= mark.least and own > _TIMES * share and mark.has_counterpart(texts.usual.whole):
                theirs = f" but {len(marked)} reference lines do" if texts.corpus.references else ""
                text = (
                    f"{side.name}: {len(lines)} {'lines' if side is texts.source else 'outputs'} hold {mark.name} "
                    f"(line {name_some(lines)}){theirs}; {mark.advice}."
                )
                if own >= mark.refused and side is not texts.source:
                    raise UserError(text)
                yield text
            elif share >= max(mark.least, _LACKING) and share > _TIMES * own and mark.has_counterpart(side.whole):
                lacking.append(f"{side.name} ({len(lines)})")
        if lacking and texts.corpus.references:
            yield (
                f"{len(marked)} reference lines hold {mark.name} (line {name_some(marked)}) but hardly any of "
                f"{', '.join(dict.fromkeys(lacking))}; {mark.advice}."
            )


def check_score_columns(texts: Texts) -> Iterator[str]:
    """Report outputs of which nearly all begin or end with a number, such as a score or a line number.

    Raises:
        UserError: if the references have no such numbers.
    """
    number = NUMBER.pattern
    for place, pattern, remedy in (
        ("begin", rf"\s*[\[(]?({number})[\])]?(?:\s*[,;|:.)]\s*|\s+)(?=\S)", "sed -E 's/^[^ ,;|:]*[ ,;|:]+//'"),
        ("end", rf".*\S(?:\s*[,;|:(\[]\s*|\s+)({number})[\])]?\s*$", "sed -E 's/[ ,;|:]+[^ ,;|:]*$//'"),
    ):
        find = re.compile(pattern, re.IGNORECASE).match
        usual = sum(find(line) is not None for line in texts.usual.lines) / texts.usual.filled
        for side in texts.systems if usual < 0.5 else ():
            numbers = [match[1] for line in side.lines if (match := find(line))]
            enough = max(_FEWEST, 0.9 * side.filled)
            if len(numbers) >= enough and len(set(numbers)) >= min(_TIMES, len(numbers) / 2):
                theirs = f", but {usual:.0%} of the references do" if texts.corpus.references else ""
                text = (
                    f"{side.name}: {len(numbers)} of {len(side.lines)} outputs {place} with a number such as "
                    f"{numbers[0]}{theirs}; if these are scores or line numbers, remove them, for example with "
                    f"{remedy}."
                )
                if texts.corpus.references:
                    raise UserError(text)
                yield text


def check_tokenisation(texts: Texts) -> Iterator[str]:
    """Report outputs with spaces before full stops and commas if the references have no such spaces, or the reverse."""
    expected = _spaced(texts.references)
    for side in texts.rewriting:
        share = _spaced(side)
        if max(share, expected) > 0.9 and min(share, expected) < 0.1:
            ours, theirs = ("tokenised", "are raw text") if share > expected else ("raw text", "are tokenised")
            yield (
                f"{side.name}: its outputs are {ours} but the references {theirs} (spaces before {share:.0%} and "
                f"{expected:.0%} of the full stops and commas); bring both into one form, references best as raw text."
            )


def _spaced(side: Side) -> float:
    """Return the share of full stops and commas that follow a space, or NaN if there are few full stops and commas."""
    detached = len(re.findall(r"\s[.,](?!\S)", side.sample))
    attached = len(re.findall(r"\w[.,](?!\S)", side.sample))
    few = detached + attached < max(_FEWEST, len(side.sample.split("\n")) / _TIMES)
    return float("nan") if few else detached / (detached + attached)


def check_repetition(texts: Texts) -> Iterator[str]:
    """Report outputs of which most are the same sentence."""
    for side in texts.rewriting:
        text, times = next(iter(Counter(filter(str.strip, side.lines)).most_common(1)), ("", 0))
        if times < max(_FEWEST, _REPEATED * len(side.lines)):
            continue
        others = [*texts.corpus.references, *([texts.source.lines] if texts.source else [])]
        usual = max((Counter(lines).most_common(1)[0][1] for lines in others), default=1)
        if 2 * usual < times:
            yield (
                f"{side.name}: {times} of {len(side.lines)} outputs are the same sentence ({text[:60]!r}); "
                "the model does not read its input, or the file is wrong."
            )


def check_cut_outputs(texts: Texts) -> Iterator[str]:
    """Report outputs that were probably truncated, because many have the same length and none is longer.

    In a text that was not truncated, about as many outputs are one word shorter than the maximum.
    """
    for side in texts.rewriting:
        for unit, measure, least in (("words", lambda line: len(line.split()), 5), ("characters", len, 20)):
            lengths = Counter(measure(line) for line in set(side.lines))
            longest = max(lengths)
            cut = lengths[longest]
            longer = sum(measure(line) > longest for line in texts.references.lines) / texts.references.filled
            odd = cut >= max(_FEWEST_CUT, _CUT * side.filled, _FEWEST * lengths[longest - 1])
            if longest >= least and odd and longer >= _CUT:
                yield (
                    f"{side.name}: {cut} outputs are exactly {longest} {unit} long and none is longer, but "
                    f"{longer:.0%} of the references are; was the length of outputs limited, or were lines cut?"
                )
                break


def check_equal_outputs(texts: Texts) -> Iterator[str]:
    """Report systems whose best outputs are identical in every line."""
    if any(len(side.lines) < _FEWEST for side in texts.systems):
        return
    for names in _names_by_text((side.name, side.lines) for side in texts.systems).values():
        if len(set(names)) > 1:
            same = " and ".join(dict.fromkeys(names))
            yield f"the best outputs of {same} are the same, line for line; is one file given twice?"


def check_equal_texts(texts: Texts) -> Iterator[str]:
    """Report if the source, a reference or outputs are the same text."""
    if any(len(side.lines) < _FEWEST for side in texts.systems):
        return
    references = {f"reference {number}": text for number, text in enumerate(texts.corpus.references, start=1)}
    source = {} if texts.source is None else {"the source": texts.source.lines}
    inputs = _names_by_text({**source, **references}.items())
    for names in inputs.values():
        if len(names) > 1:
            yield f"{' and '.join(names)} are the same text, line for line; give each file once, under its own option."
    for text, names in _names_by_text((side.name, side.lines) for side in texts.systems).items():
        # Outputs may equal both the source and a reference, because some sources need no change. This is not a mistake
        # of the user.
        equal = [name for name in inputs.get(text, []) if name in references]
        if equal and "the source" not in inputs[text]:
            yield (
                f"{', '.join(dict.fromkeys(names))}: the outputs are {equal[0]}, line for line; unless the task can be "
                "solved without any error, a reference was given as outputs."
            )


def _names_by_text(texts: Iterable[tuple[str, Sequence[str]]]) -> dict[tuple[str, ...], list[str]]:
    """Group the names of texts that are equal. White space is ignored, because different tools write it differently."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, lines in texts:
        names.setdefault(tuple(" ".join(line.split()) for line in lines), []).append(name)
    return names


def check_alignment(texts: Texts) -> Iterator[str]:
    """Report outputs whose lines are shifted or in another order than the lines of the source or the reference.

    Outputs that are unrelated to the source are reported only if they are also unrelated to the first reference. Some
    tasks have unrelated outputs, such as replies to messages.
    """
    for side in texts.rewriting:
        for anchors in texts.anchors:
            # A line is misplaced if it shares far more rare words with another line than with its own line. The source
            # is compared first, then the reference. The check ends at the first text with which the outputs are
            # aligned.
            alignment = anchors.align(side.lines)
            if alignment.fault:
                yield f"{side.name}: the outputs are {alignment.fault}."
            if alignment.fault or not alignment.is_unrelated:
                break
        else:
            # if most outputs are one sentence, only `check_repetition` reports them
            if texts.corpus.references and 2 * len(set(side.lines)) > len(side.lines):
                roles = " and ".join(anchors.role for anchors in texts.anchors)
                yield f"{side.name}: the outputs fit {roles} {_UNRELATED}, or the model does not read its input."
    if texts.source is not None:
        for number, reference in enumerate(texts.corpus.references, start=1):
            alignment = texts.anchors[0].align(reference)
            if alignment.fault:
                yield f"reference {number} is {alignment.fault}."
            elif alignment.is_unrelated:
                yield f"reference {number} fits source {_UNRELATED}."


def check_logs(texts: Texts) -> Iterator[str]:
    """Report logs of other sources and targets, see `LogComparison`."""
    comparison = LogComparison(texts.corpus.sources, texts.corpus.references)
    for side in texts.systems:
        yield from comparison.faults(side.name, side.logged)


def check_exchange(texts: Texts) -> Iterator[str]:
    """Report systems nearer to the reference than to the source. --src and --ref may have been swapped."""
    if texts.source is None or len(texts.corpus.references) != 1 or len(texts.first.lines) < _FEWEST:
        return
    source, reference = texts.anchors
    lengths = [sum(map(len, anchors.words)) for anchors in (source, reference)]
    if not _COMPARABLE[0] * lengths[1] <= lengths[0] <= _COMPARABLE[1] * lengths[1]:
        return
    for side in texts.rewriting:
        words = [word_set(line) for line in side.lines]
        total = max(1, sum(map(len, words)))
        in_source, in_reference = (
            sum(len(own & other) for own, other in zip(words, anchors.words, strict=True)) / total
            for anchors in (source, reference)
        )
        solved = sum(own == other for own, other in zip(words, reference.words, strict=True)) > 0.9 * len(words)
        if in_source > _IN_SOURCE and in_reference > max(_IN_REFERENCE, in_source + _FURTHER) and not solved:
            yield (
                f"{side.name}: {in_reference:.0%} of its words are in the reference but {in_source:.0%} in the source; "
                "unless the system is nearly perfect, --src and --ref were probably swapped."
            )


def check_case(texts: Texts) -> Iterator[str]:
    """Report outputs that use capitals much more or less often than the references."""
    theirs = _capitals(texts.first.lines)
    for side in texts.systems:
        ours = _capitals(side.lines)
        if _is_many_times(ours, theirs) or _is_many_times(1 - ours, 1 - theirs):
            yield (
                f"{side.name}: {ours:.1%} of its letters are capitals but {theirs:.1%} of the references'; "
                "bring both into one case, or score with --lowercase."
            )


def _is_many_times(share: float, other: float) -> bool:
    return max(share, other) > max(SOME, _TIMES * min(share, other))


def _capitals(lines: Sequence[str]) -> float:
    """Return the share of capitals among letters with case, or NaN if there are few such letters."""
    upper = sum(character.isupper() for line in lines for character in line)
    lower = sum(character.islower() for line in lines for character in line)
    return upper / (upper + lower) if upper + lower > _CASED * sum(map(len, lines)) else float("nan")


def check_spaces(texts: Texts) -> Iterator[str]:
    """Report references in a script without spaces between words."""
    if 2 * len(SPACELESS.findall(texts.first.sample)) > sum(map(str.isalpha, texts.first.sample)):
        yield "the references are in a script without spaces, where 13a finds few words; take --tokenize char."


def check_null(texts: Texts) -> Iterator[str]:
    """Report texts that contain the character NUL."""
    for side in texts.systems:
        null = [number for number, text in enumerate(side.lines, start=1) if "\0" in text]
        if null:
            yield f"{side.name}: {len(null)} outputs hold the character NUL (line {name_some(null)})."


#: For each check, the entry of a signature that its findings concern. An empty entry means that the findings concern
#: all scores.
CHECKS: dict[Callable[[Texts], Iterator[str]], str] = {
    check_score_columns: "",
    check_outputs_are_text: "",
    check_null: "",
    check_spaces: "tok:13a",
    check_case: "case:mixed",
    check_tokenisation: "",
    check_equal_texts: "",
    check_equal_outputs: "",
    check_repetition: "",
    check_cut_outputs: "",
    check_logs: "",
    check_alignment: "",
    check_exchange: "",
}


def find_oddities(
    systems: Sequence[SystemOutput],
    corpus: Corpus,
    are_outputs: bool = False,
    checks: Mapping[Callable[[Texts], Iterator[str]], str] = CHECKS,
) -> list[tuple[str, str]]:
    """Return a sentence for each unusual property, with the signature entry of the scores that it affects.

    Args:
        systems: texts to check.
        corpus: sources and references, both optional.
        are_outputs: the texts are known to be outputs of a model, so that nothing in them is an error.
        checks: the checks, see `CHECKS`.

    Raises:
        UserError: if the texts cannot be the outputs of a system.
    """
    texts = Texts(systems, corpus)
    notes = [*corpus.notes, *(f"{system.name}: {note}" for system in systems for note in system.notes)]
    oddities = [("", note) for note in notes]
    for check, entry in checks.items():
        try:
            oddities += [(entry, sentence) for sentence in check(texts)]
        except UserError as error:
            if not are_outputs:
                raise
            oddities.append((entry, str(error)))
    return oddities


def plausibility_warnings(oddities: Iterable[tuple[str, str]], signatures: Iterable[str]) -> Iterator[str]:
    """Yield the sentences about unusual properties that affect at least one of the scores."""
    entries = {"", *(entry for signature in signatures for entry in signature.split("|"))}
    yield from dict.fromkeys(sentence for entry, sentence in oddities if entry in entries)


def empty_warnings(systems: Sequence[SystemOutput], corpus: Corpus, effect: str = "scored as empty") -> Iterator[str]:
    """Report empty hypotheses with their ``effect``, and empty references (see `drop_holes`)."""
    for system in systems:
        empty = system.empty_lines
        if empty:
            yield f"{system.name}: {len(empty)} empty hypotheses (line {name_some(empty)}), {effect}."
    blank = sum(not line.strip() for text in corpus.references for line in text)
    sentences = enumerate(zip(*corpus.references, strict=True), start=1)
    none = [number for number, lines in sentences if not any(map(str.strip, lines))]
    if holes := blank - len(none) * len(corpus.references):
        yield f"{holes} reference lines are empty and left out (nrefs:var); the other references of the sentence count."
    if none:
        yield f"{len(none)} sentences have only empty references (line {name_some(none)}), scored as empty."
