"""Reads what systems wrote, plain files or ``fairseq-generate`` logs, back into input order.

``fairseq-generate`` prints sentences in the order of its length-sorted batches, as tagged lines (fairseq 0.12)::

    S-<id> TAB source      T-<id> TAB target       H-<id> TAB score TAB tokens
    D-<id> TAB score TAB detokenised text          P-<id> TAB positional scores

with H/D/P repeated for every entry of an n-best list, best first. Here the hypotheses are sorted by id again; anything
that would shift or drop a sentence silently (a missing id, an id that was generated twice, a line cut off by a crash)
is an `EvaluationError`.
"""

import re
from dataclasses import dataclass, field
from itertools import count, islice

from wean_fairseq.evaluation.errors import EvaluationError, name_some
from wean_fairseq.evaluation.text_files import PathLike, decode_lines, read_bytes, read_lines

# Digits as fairseq prints them: \d would also take those of other scripts, and int() refuses thousands of them.
_TAGGED_LINE = re.compile(r"^([STHD])-([0-9]{1,18})\t(.*)$", re.DOTALL)
_CUT_OFF_LINE = re.compile(r"^[STHDP]-[0-9]+$")
_OOV_SLOT = re.compile(r"<oov-\d+>")
_UNKNOWN = "<unk>"


@dataclass
class Generated:
    """What one ``fairseq-generate`` log holds for one sentence id.

    Attributes:
        source: text of the S- line, if any.
        target: text of the T- line, if any. fairseq prints ``<unk>`` words in it: never score against it.
        tokens: n-best list of the H- lines, best first.
        detokenised: n-best list of the D- lines, best first.
    """

    source: str | None = None
    target: str | None = None
    tokens: list[str] = field(default_factory=list)
    detokenised: list[str] = field(default_factory=list)


@dataclass
class SystemOutput:
    """Hypotheses of one system in input order.

    Attributes:
        name: how tables call the system.
        nbest: for every sentence its hypotheses, best first; never empty (but a hypothesis may be the empty string).
        path: the file they were read from.
    """

    name: str
    nbest: list[list[str]]
    path: str

    @property
    def hypotheses(self) -> list[str]:
        """The best hypothesis of every sentence."""
        return [entries[0] for entries in self.nbest]

    @property
    def empty_lines(self) -> list[int]:
        """Line numbers (from 1) of best hypotheses without any visible character."""
        return [number for number, text in enumerate(self.hypotheses, start=1) if not text.strip()]


def undo_bpe(text: str) -> str:
    """Join subword-nmt pieces: ``hy@@ po@@ thesis`` becomes ``hypothesis``."""
    return f"{text} ".replace("@@ ", "").rstrip(" ")


def read_plain(name: str, path: PathLike, *, remove_bpe: bool = False) -> SystemOutput:
    """Read a plain hypothesis file, one sentence a line, already in input order."""
    lines = read_lines(path)
    if sum(bool(_TAGGED_LINE.match(line)) for line in lines[:200]) > 1:
        raise EvaluationError(
            f"{path} looks like the output of fairseq-generate, not like plain sentences; "
            f"pass it as --generated {name}={path}."
        )
    if remove_bpe:
        lines = [undo_bpe(line) for line in lines]
    return SystemOutput(name, [[line] for line in lines], str(path))


def read_generated(
    name: str,
    path: PathLike,
    *,
    remove_bpe: bool = False,
    detokenised: bool = True,
    oov_source: list[str] | None = None,
) -> SystemOutput:
    """Read a ``fairseq-generate`` (or ``fairseq-interactive``) log.

    Args:
        name: name of the system.
        path: the log; lines of other kinds (progress, logging) are skipped.
        remove_bpe: undo ``@@ `` as well (only needed if the log was made without ``--post-process``).
        detokenised: take the D- lines; H- lines (tokens) are taken where the log has no D- lines or when False.
        oov_source: tokenised source sentences as they were given to fairseq, needed to put the words of copied
            ``<oov-k>`` slots back.
    """
    generated = parse_log(path)
    nbest: list[list[str]] = []
    for index in range(len(generated)):
        entry = generated[index]
        texts = entry.detokenised if detokenised and entry.detokenised else entry.tokens
        texts = [restore_slots(text, entry.source, oov_source, index, path) for text in texts]
        nbest.append([undo_bpe(text) for text in texts] if remove_bpe else texts)
    return SystemOutput(name, nbest, str(path))


def parse_log(path: PathLike) -> dict[int, Generated]:
    """Collect the tagged lines of a log by sentence id and check that ids 0 .. n-1 are all there, once each."""
    content = read_bytes(path)
    lines = decode_lines(content, path)
    if lines and _TAGGED_LINE.match(lines[-1]) and not content.endswith(b"\n"):
        raise EvaluationError(f"{path}: the last line ({lines[-1][:20]!r}...) is cut off; run fairseq-generate again.")
    found: dict[int, Generated] = {}
    previous_id: int | None = None
    for number, line in enumerate(lines, start=1):
        match = _TAGGED_LINE.match(line)
        if match is None:
            if _CUT_OFF_LINE.match(line):
                raise EvaluationError(f"{path}, line {number}: {line!r} is cut off; run fairseq-generate again.")
            continue
        tag, sentence_id = match.group(1), int(match.group(2))
        if sentence_id != previous_id and sentence_id in found and tag in "SH":
            raise EvaluationError(
                f"{path}, line {number}: id {sentence_id} is generated twice; keep the log of one single run."
            )
        _store(found.setdefault(sentence_id, Generated()), tag, match.group(3), f"{path}, line {number}")
        previous_id = sentence_id
    _check_ids(found, path)
    return found


def _store(entry: Generated, tag: str, rest: str, where: str) -> None:
    """Put one tagged line into ``entry``."""
    if tag == "S":
        if entry.source is not None:
            raise EvaluationError(f"{where}: a second S- line for the same id; keep the log of one single run.")
        entry.source = rest
    elif tag == "T":
        entry.target = rest
    else:
        score, separator, text = rest.partition("\t")
        if not separator:
            raise EvaluationError(
                f"{where}: the {tag}- line has no score and text ({score!r}); run fairseq-generate again."
            )
        (entry.tokens if tag == "H" else entry.detokenised).append(text)


def _check_ids(found: dict[int, Generated], path: PathLike) -> None:
    """Refuse a log with missing ids or ids without a hypothesis; the message names them."""
    if not found:
        raise EvaluationError(
            f"{path} holds no H- lines of fairseq-generate; pass plain sentences as --hyp NAME={path}."
        )
    missing = max(found) + 1 - len(found)
    silent = sorted(index for index, entry in found.items() if not entry.tokens and not entry.detokenised)
    if missing:
        first = list(islice((index for index in count() if index not in found), min(missing, 5)))
        more = f" and {missing - len(first)} more" if missing > len(first) else ""
        raise EvaluationError(
            f"{path}: id {name_some(first)}{more} of 0..{max(found)} missing; the run is incomplete, repeat it."
        )
    if silent:
        raise EvaluationError(f"{path}: no H- line for id {name_some(silent)}; the run was interrupted, repeat it.")


def restore_slots(text: str, source: str | None, oov_source: list[str] | None, index: int, path: PathLike) -> str:
    """Replace copied ``<oov-k>`` slots by the words they stand for; a log that holds the words has none.

    The S- line shows which words of the raw source sentence have slots, or are unknown, by their position. A source
    that the task truncated is a prefix of the raw sentence, so positions still agree.
    """
    if not _OOV_SLOT.search(text):
        return text
    if source is None or oov_source is None:
        raise EvaluationError(
            f"{path}: id {index} holds copied-word slots like {_OOV_SLOT.findall(text)[0]}; "
            "give the tokenised source text with --oov-source."
        )
    if index >= len(oov_source):
        raise EvaluationError(
            f"the --oov-source text has only {len(oov_source)} lines but {path} holds id {index}; give the same set."
        )
    shown, raw = source.split(" "), oov_source[index].split()
    if len(shown) > len(raw) or any(a != b for a, b in zip(shown, raw, strict=False) if not a.startswith("<")):
        raise EvaluationError(
            f"{path}: the S- line of id {index} is not line {index + 1} of the --oov-source text; "
            "give the text of this set."
        )
    words = slot_words(shown, raw)
    return _OOV_SLOT.sub(lambda match: words.get(match.group(0), _UNKNOWN), text)


def slot_words(shown: list[str], raw: list[str]) -> dict[str, str]:
    """Return the word of every slot.

    Args:
        shown: the source as the log shows it, with slots or, where the log has only the dictionary's words, ``<unk>``.
        raw: the words themselves. The k-th different unknown one has slot k.
    """
    pairs = list(zip(shown, raw, strict=False))
    slots = {symbol: word for symbol, word in reversed(pairs) if _OOV_SLOT.fullmatch(symbol)}
    unknown = dict.fromkeys(word for symbol, word in pairs if symbol == _UNKNOWN)
    return slots or {f"<oov-{number}>": word for number, word in enumerate(unknown)}
