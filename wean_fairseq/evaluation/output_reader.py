"""Read the outputs of systems in input order, from plain files or ``fairseq-generate`` logs.

``fairseq-generate`` (fairseq 0.12) sorts sentences by length and prints them as tagged lines, batch by batch::

    S-<id> TAB source      T-<id> TAB target       H-<id> TAB score TAB tokens
    D-<id> TAB score TAB detokenised text          P-<id> TAB positional scores

The lines H, D and P are repeated for every entry of an n-best list, best first. The reader sorts the hypotheses by id.
Some defects would silently shift, drop or exchange a sentence, so they raise UserError. These are a missing id, an id
that was generated twice, and a line that a crash truncated or another message interrupted. A log that was sorted with
``sort`` is accepted if the hypotheses of each sentence are still ordered from best to worst.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from math import inf, isnan, nan
from pathlib import Path

from ..console import counted
from ..errors import UserError, name_some
from .file_formats import check_format, read_json_lines
from .text_files import PathLike, decode_lines, read_bytes, read_lines

# [0-9] is used, because \d would also match digits of other scripts. The length is limited, because int() refuses
# thousands of digits.
_POSITIONAL_SCORES = re.compile(r"P-([0-9]{1,18})\t")
_TAGGED_LINE = re.compile(r"^([STHD])-([0-9]{1,18})\t(.*)$", re.DOTALL)
# The first pattern matches a line that resembles a tagged line, but is broken. The second pattern matches a tagged line
# after other text, such as a progress bar.
_BROKEN_LINE = re.compile(r"^[STHDP]-[0-9]+$|^[STHD]-[0-9]{1,18}[^0-9\t]")
_BURIED_LINE = re.compile(r".[HD]-[0-9]{1,18}\t-?(?:[0-9.]+(?:e-?[0-9]+)?|inf|nan)\t", re.DOTALL)
_FORCED_DECODING = re.compile(r"score_reference'?[:=] ?True")
_OOV_SLOT = re.compile(r"<oov-\d+>")
_UNKNOWN = "<unk>"
#: Notations of word pieces that this module can join. The first one is that of subword-nmt (``@@ ``).
PIECES = ("subword_nmt", "sentencepiece")
_SENTENCEPIECE_SPACE = "\u2581"
#: If at least this number of outputs, and all of them, equal their targets, a note about the log is added.
_SUSPICIOUS = 10


@dataclass
class LoggedSentence:
    """The lines of a ``fairseq-generate`` log for one sentence id.

    Attributes:
        texts: for each tag, the texts of its lines: the source (S) and the target (T), if any, and the n-best lists of
            tokens (H) and of detokenised text (D), best first. fairseq prints ``<unk>`` for unknown words in T, so
            never score against T.
        worst: score of the last H- or D- line that was added.
    """

    texts: dict[str, list[str]] = field(default_factory=lambda: {"S": [], "T": [], "H": [], "D": []})
    worst: dict[str, float] = field(default_factory=dict)

    def add(self, tag: str, rest: str, where: str, is_repeated: bool) -> None:
        """Add the text of a tagged line. ``rest`` is the part of the line after its tag and id.

        Sampling may draw a text twice, but fairseq-generate prints other lines between two H- lines or two D- lines.
        ``is_repeated`` means that the line before is equal.

        Raises:
            UserError: if a line is repeated, or if an n-best list is not ordered from best to worst. In that case, the
                log was sorted or contains two runs.
        """
        texts = self.texts[tag]
        if tag in "ST" and texts:
            raise UserError(f"{where}: a second {tag}- line for the same id; keep the log of one single run.")
        if tag in "HD":
            number, separator, rest = rest.partition("\t")
            if not separator:
                raise UserError(
                    f"{where}: the {tag}- line has no score and text ({number!r}); run fairseq-generate again."
                )
            try:
                score = float(number)
            except ValueError:
                score = nan  # the comparisons below are False for NaN, so it passes
            previous = self.worst.get(tag, inf)
            if score > previous or is_repeated:
                raise UserError(
                    f"{where}: the {tag}- lines of this id are not best first, or there twice; "
                    "keep the log of one single run, as fairseq-generate prints it."
                )
            self.worst[tag] = previous if isnan(score) else score
        texts.append(rest)


@dataclass
class SystemOutput:
    """Hypotheses of one system in input order.

    Attributes:
        nbest: the hypotheses of every sentence, best first. Every list has at least one entry, but an entry may be an
            empty text.
        notes: unusual properties of the file, one sentence each.
        short_lists: a sentence about the n-best lists that are shorter than others. It is empty if there are none.
        logged: the sources (``S``) and targets (``T``) that the file contains, if it has one for every sentence.
    """

    name: str
    nbest: list[list[str]]
    path: str
    notes: list[str] = field(default_factory=list)
    short_lists: str = ""
    logged: dict[str, list[str]] = field(default_factory=dict)

    @property
    def hypotheses(self) -> list[str]:
        return [entries[0] for entries in self.nbest]

    @property
    def empty_lines(self) -> list[int]:
        """Line numbers (from 1) of best hypotheses without visible characters."""
        return [number for number, text in enumerate(self.hypotheses, start=1) if not text.strip()]


def join_pieces(text: str, pieces: str | None = PIECES[0]) -> str:
    """Join the pieces of each word: ``hy@@ po@@ thesis`` (subword-nmt) or ``\u2581hy po thesis`` (sentencepiece)."""
    if pieces is None:
        return text
    if pieces == "sentencepiece":
        return text.replace(" ", "").replace(_SENTENCEPIECE_SPACE, " ").strip(" ")
    return f"{text} ".replace("@@ ", "").rstrip(" ")


def read_plain(name: str, path: PathLike, *, remove_bpe: str | None = None) -> SystemOutput:
    """Read hypotheses in input order: one sentence per line, or the JSON lines of ``wean-generate``.

    Args:
        remove_bpe: notation of the word pieces to join, one of `PIECES`. None = do not join.

    Raises:
        UserError: if the file is a log of fairseq-generate, an n-best list or a table, or has another format.
    """
    lines, notes, short_lists, logged = read_lines(path), [], "", {}
    generated = read_json_lines(lines, path)
    if generated is not None:
        nbest, logged["S"] = generated
        depth = max(map(len, nbest))
        notes = [
            f"{Path(path).name} was read as JSON lines of wean-generate, with up to {depth} output(s) of a sentence."
        ]
        short_lists = _short_lists(nbest, "line", 1)
    else:
        check_no_log(lines, path, f"--generated {name}={path}")
        check_format(lines, path)
        nbest = [[line] for line in lines]
    nbest = [[join_pieces(text, remove_bpe) for text in texts] for texts in nbest]
    return SystemOutput(name, nbest, str(path), notes, short_lists, logged)


def check_no_log(lines: Sequence[str], path: PathLike, as_log: str) -> None:
    """Refuse a log of fairseq-generate where plain outputs are expected.

    Args:
        as_log: the option that takes such a log, for the message.

    Raises:
        UserError: if the file is such a log.
    """
    if sum(bool(_TAGGED_LINE.match(line)) for line in lines) > 1:
        raise UserError(
            f"{path} looks like the output of fairseq-generate, not like plain sentences; pass it as {as_log}."
        )


def read_generated(
    name: str,
    path: PathLike,
    *,
    remove_bpe: str | None = None,
    detokenised: bool = True,
    oov_source: list[str] | None = None,
    oov_option: str = "--oov-source",
) -> SystemOutput:
    """Read a ``fairseq-generate`` (or ``fairseq-interactive``) log.

    Args:
        path: the log. Lines that belong to no sentence (progress, logging) are skipped.
        remove_bpe: notation of the word pieces to join, one of `PIECES`. The option is only needed for a log that was
            written without ``--post-process``.
        detokenised: read the D- lines. If this is False or the log has no D- lines, the H- lines (tokens) are read.
        oov_source: the tokenised source sentences that fairseq read. They contain the words that replace copied
            ``<oov-k>`` slots.
        oov_option: the option that names these sentences, for messages.
    """
    sentences = parse_log(path)
    if not detokenised and not sentences[0].texts["H"]:
        raise UserError(f"{path} holds no H- lines, which --tokens asks for; leave it out to take the D- lines.")
    nbest: list[list[str]] = []
    for index in range(len(sentences)):
        logged = sentences[index].texts
        texts = logged["D"] if detokenised and logged["D"] else logged["H"]
        texts = [restore_slots(text, logged["S"], oov_source, index, path, oov_option) for text in texts]
        nbest.append([join_pieces(text, remove_bpe) for text in texts])
    numbered = [sentences[index].texts for index in range(len(sentences))]
    logged = {tag: [text for texts in numbered for text in texts[tag]] for tag in "ST"}
    complete = {tag: texts for tag, texts in logged.items() if len(texts) == len(sentences)}
    return SystemOutput(
        name, nbest, str(path), _forced_decoding_notes(sentences), _short_lists(nbest, "id", 0), complete
    )


def _short_lists(nbest: list[list[str]], place: str, start: int) -> str:
    """Return a sentence about the n-best lists that are shorter than others, or an empty text.

    ``wean-generate`` writes no list for an empty line.
    """
    longest = max(map(len, nbest))
    lists = [(number, texts) for number, texts in enumerate(nbest, start) if place == "id" or texts != [""]]
    short = [number for number, texts in lists if len(texts) < longest]
    if not short:
        return ""
    have = "sentence has" if len(short) == 1 else "sentences have"
    return f"{len(short)} {have} fewer than {longest} hypotheses ({place} {name_some(short)})."


def _forced_decoding_notes(sentences: dict[int, LoggedSentence]) -> list[str]:
    """Return a note if all outputs of a log equal their targets."""
    logged = [sentence.texts for sentence in sentences.values()]
    echoes = all(texts["T"] and any(_is_echo(*texts["T"], *texts[tag][:1]) for tag in "HD") for texts in logged)
    if not echoes or len(logged) < _SUSPICIOUS:
        return []
    return [f"all {len(logged)} outputs are their T- lines; if the log is one of --score-reference it holds no output."]


def _is_echo(target: str, output: str = "") -> bool:
    """Return True if an output has the words of a target. Words outside of the dictionary may be unknown."""
    expected, words = target.split(), output.split()
    return len(expected) == len(words) and all(
        word in (other, _UNKNOWN) for other, word in zip(expected, words, strict=True)
    )


def parse_log(path: PathLike) -> dict[int, LoggedSentence]:
    """Collect the tagged lines of a log by sentence id, and check that the ids are 0 to n-1."""
    content = read_bytes(path)
    lines = decode_lines(content, path)
    is_output = lines and (_TAGGED_LINE.match(lines[-1]) or _POSITIONAL_SCORES.match(lines[-1]))
    if is_output and not content.endswith(b"\n"):
        raise UserError(f"{path}: the last line ({lines[-1][:20]!r}...) is cut off; run fairseq-generate again.")
    sentences: dict[int, LoggedSentence] = {}
    scored: Counter[int] = Counter()  # number of P- lines of each id
    previous_id: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        match = _TAGGED_LINE.match(line)
        _check_line(line, match is not None, where)
        if match is None:
            if positional := _POSITIONAL_SCORES.match(line):
                scored[int(positional[1])] += 1
            continue
        tag, sentence_id = match.group(1), int(match.group(2))
        sentence = sentences.setdefault(sentence_id, LoggedSentence())
        if previous_id.get(tag) != sentence_id and sentence.texts[tag]:
            raise UserError(f"{where}: id {sentence_id} is generated twice; keep the log of one single run.")
        sentence.add(tag, match.group(3), where, is_repeated=lines[number - 2 : number - 1] == [line])
        previous_id[tag] = sentence_id
    _check_ids(sentences, path)
    _check_scored(sentences, scored, path)
    return sentences


def _check_line(line: str, tagged: bool, where: str) -> None:
    """Raise UserError if a line contains a second message, or shows that decoding was forced to the references."""
    if not tagged and _BROKEN_LINE.match(line):
        raise UserError(f"{where}: {line[:20]!r} is cut off or broken by another message; run fairseq-generate again.")
    if _BURIED_LINE.search(line):
        raise UserError(
            f"{where}: a line of fairseq-generate is preceded by other text, such as a progress bar; "
            "run it again with --no-progress-bar and its messages in another file."
        )
    if not tagged and _FORCED_DECODING.search(line):
        raise UserError(
            f"{where}: this is a log of --score-reference, which prints the references; generate without it."
        )


def _check_ids(sentences: dict[int, LoggedSentence], path: PathLike) -> None:
    """Raise UserError if an id between 0 and the highest id is missing, or has no hypothesis.

    The message names the first of these ids.
    """
    if not sentences:
        raise UserError(f"{path} holds no H- lines of fairseq-generate; pass plain sentences as --hyp NAME={path}.")
    if missing := max(sentences) + 1 - len(sentences):
        first = list(islice((index for index in count() if index not in sentences), min(missing, 5)))
        more = f" and {missing - len(first)} more" if missing > len(first) else ""
        raise UserError(
            f"{path}: id {name_some(first)}{more} of 0..{max(sentences)} missing; the run is incomplete, repeat it."
        )
    lengths = {index: (len(sentence.texts["H"]), len(sentence.texts["D"])) for index, sentence in sentences.items()}
    if silent := sorted(index for index, (tokens, detokenised) in lengths.items() if not tokens and not detokenised):
        raise UserError(f"{path}: no H- line for id {name_some(silent)}; the run was interrupted, repeat it.")
    unequal = sorted(index for index, (tokens, detokenised) in lengths.items() if tokens != detokenised)
    # The difference is no problem if the log has only H- lines or only D- lines.
    if unequal and all(any(column) for column in zip(*lengths.values(), strict=True)):
        tokens, detokenised = lengths[unequal[0]]
        raise UserError(
            f"{path}: id {name_some(unequal)} has {tokens} H- but {detokenised} D- lines; "
            "lines are lost, run fairseq-generate again."
        )


def _check_scored(sentences: dict[int, LoggedSentence], scored: Counter[int], path: PathLike) -> None:
    """Raise UserError if a log has P- lines, but not one for each output, for example because a line break is lost."""
    for index, sentence in sentences.items() if scored else ():
        outputs = len(sentence.texts["D"] or sentence.texts["H"])
        if scored[index] != outputs:
            lines = f"{counted(outputs, 'output')} but {counted(scored[index], 'P- line')}"
            raise UserError(f"{path}: id {index} has {lines}; lines are lost, run fairseq-generate again.")


def restore_slots(
    text: str, source: list[str], oov_source: list[str] | None, index: int, path: PathLike, option: str
) -> str:
    """Replace copied ``<oov-k>`` slots by the words that they represent.

    A log that already contains these words has no slots and is not changed.

    The S- line is compared with the raw source sentence, position by position. This shows which words have slots or are
    unknown. If the task truncated the source, it is a prefix of the raw sentence, so the positions still agree.
    """
    if not _OOV_SLOT.search(text):
        return text
    if not source or oov_source is None:
        raise UserError(
            f"{path}: id {index} holds copied-word slots like {_OOV_SLOT.findall(text)[0]}; "
            f"give the tokenised source text with {option}."
        )
    if index >= len(oov_source):
        raise UserError(
            f"the {option} text has only {len(oov_source)} lines but {path} holds id {index}; give the same set."
        )
    shown, raw = source[0].split(" "), oov_source[index].split()
    if len(shown) > len(raw) or any(a != b for a, b in zip(shown, raw, strict=False) if not a.startswith("<")):
        raise UserError(
            f"{path}: the S- line of id {index} is not line {index + 1} of the {option} text; "
            "give the text of this set."
        )
    words = slot_words(shown, raw)
    return _OOV_SLOT.sub(lambda match: words.get(match.group(0), _UNKNOWN), text)


def slot_words(shown: list[str], raw: list[str]) -> dict[str, str]:
    """Return the word that each slot of a sentence represents.

    Args:
        shown: the source in the log. It contains slots, or ``<unk>`` if the log contains only words of the dictionary.
        raw: the words of the raw sentence. The k-th distinct unknown word has slot k.
    """
    pairs = list(zip(shown, raw, strict=False))
    slots = {symbol: word for symbol, word in reversed(pairs) if _OOV_SLOT.fullmatch(symbol)}
    unknown = dict.fromkeys(word for symbol, word in pairs if symbol == _UNKNOWN)
    return slots or {f"<oov-{number}>": word for number, word in enumerate(unknown)}
