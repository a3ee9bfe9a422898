"""References and sources of a test set, baselines derived from the sources, and checks of the systems' outputs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ..console import check_name, counted
from ..errors import UserError
from .file_formats import check_format
from .output_reader import SystemOutput
from .text_files import PathLike, read_lines, sha256_as_read

_LONGEST = 1 << 17  # maximum length of a sentence or essay in characters
#: Name of the row that scores the source as if it were the output of a system.
COPY_ROW = "copy-source"
#: Names of the rows of ``--lead N``, which score the beginning of the source.
_LEAD_ROW = re.compile(r"lead-\d+")


def is_baseline(name: str) -> bool:
    """Return whether a row is a baseline derived from the source instead of a system."""
    return name == COPY_ROW or _LEAD_ROW.fullmatch(name) is not None


@dataclass
class Corpus:
    """The references and sources of one test set.

    Attributes:
        references: one list of sentences per reference file. Without references, the list is empty, and the corpus has
            no length.
        files: name, SHA-256 and number of lines of every file, by role.
        groups: name of each sentence's group, if groups are also scored separately.
        notes: unusual properties of the files, one sentence each.
        copyable: whether the table has a row for a copy of the source. It is False if the sources are topic words.
    """

    references: list[list[str]]
    sources: list[str] | None = None
    files: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    groups: list[str] | None = None
    notes: list[str] = field(default_factory=list)
    copyable: bool = True

    def __len__(self) -> int:
        return len(self.references[0])


def describe_file(path: PathLike, lines: int) -> dict[str, Any]:
    """Return the name of a data file, its SHA-256 and its number of lines. The name does not include the directory."""
    return {"name": Path(path).name, "sha256": sha256_as_read(path), "lines": lines}


def read_corpus(
    references: Sequence[PathLike],
    source: PathLike | None = None,
    groups: PathLike | None = None,
    *,
    copyable: bool = True,
) -> Corpus:
    """Read reference files, the source file and the file of groups. Check that all have the same number of lines."""
    if not references:
        raise UserError("no reference file; give one or more with --ref.")
    texts = [read_lines(path) for path in references]
    for path, text in zip(references, texts, strict=True):
        _check_sentences(text, path)
        check_format(text, path)
    files = {"references": [describe_file(path, len(text)) for path, text in zip(references, texts, strict=True)]}
    for path, text in zip(references[1:], texts[1:], strict=True):
        _check_length(f"reference {path}", len(text), f"reference {references[0]}", len(texts[0]))
    if not any(line.strip() for text in texts for line in text):
        raise UserError(f"{references[0]} holds only empty lines; references are needed to score anything.")

    def read_aligned(role: str, path: PathLike) -> list[str]:
        lines = read_lines(path)
        _check_sentences(lines, path)
        files[role] = [describe_file(path, len(lines))]
        _check_length(f"{role} {path}", len(lines), f"reference {references[0]}", len(texts[0]))
        return lines

    sources = None if source is None else read_aligned("source", source)
    names = None if groups is None else ["_".join(line.split()) for line in read_aligned("groups", groups)]
    if names is not None and not all(names):
        raise UserError(f"line {names.index('') + 1} of {groups} is empty; name the group of every sentence.")
    for name in dict.fromkeys(names or ()):
        check_name(name, f"--groups {groups}")
    notes = [] if sources is None or source is None else _source_notes(sources, source)
    return Corpus(texts, sources, files, names, notes, copyable)


def _source_notes(sources: Sequence[str], path: PathLike) -> list[str]:
    """Return a note if the sources do not look like plain text, for example if they are tables or JSON.

    Such sources are allowed, but a copy of them is not a useful baseline.
    """
    try:
        check_format(sources, path)
    except UserError as error:
        return [f"the source may not be plain text, so the copy row means little: {error}"]
    return []


def lead_rows(sources: Sequence[str] | None, lengths: Sequence[int], by_characters: bool) -> list[SystemOutput]:
    """For each length, return the first words of every source as the output of a baseline system.

    Args:
        lengths: numbers of words. A source with fewer words is used completely.
        by_characters: count characters instead of words that are separated by spaces.

    Raises:
        UserError: if the test set has no sources.
    """
    if lengths and sources is None:
        raise UserError("--lead takes the beginning of the source; give the source with --src.")
    unit = re.compile(r"\S" if by_characters else r"\S+")
    rows = []
    for length in dict.fromkeys(lengths):
        texts = []
        for source in sources or ():
            *_, end = 0, *(match.end() for match in islice(unit.finditer(source), length))
            texts.append([source[:end].strip()])
        rows.append(SystemOutput(f"lead-{length}", texts, ""))
    return rows


def check_systems(systems: Sequence[SystemOutput], corpus: Corpus, may_be_none: bool = False) -> None:
    """Check the names and the line counts of all systems.

    The list of systems may be empty if ``may_be_none`` is set.
    """
    if not systems and not may_be_none:
        raise UserError("no system to score; give --hyp NAME=FILE or --generated NAME=LOG.")
    for name in dict.fromkeys(system.name for system in systems):
        check_name(name, "system")
        if is_baseline(name):
            raise UserError(f"{name!r} is the name of a row made from the source; call the system something else.")
    for system in systems:
        _check_length(f"system {system.name} ({system.path})", len(system.nbest), "the reference", len(corpus))
        _check_sentences([max(entries, key=len, default="") for entries in system.nbest], system.path)


def _check_sentences(lines: Sequence[str], path: PathLike) -> None:
    """Refuse a line that is too long to be a sentence or an essay.

    Some metrics would take hours for such a line, or fill the memory.
    """
    for number, line in enumerate(lines, start=1):
        if len(line) > _LONGEST:
            raise UserError(
                f"line {number} of {path} has {len(line):,} characters, and a sentence or essay has at most "
                f"{_LONGEST:,}; give one sentence per line."
            )


def _check_length(what: str, length: int, other: str, expected: int) -> None:
    if length != expected:
        shorter = "too short" if length < expected else "too long"
        times, rest = divmod(length, expected)
        several = f" It has {times} lines for each: awk 'NR % {times} == 1' keeps the first." if rest == 0 else ""
        raise UserError(
            f"{what} has {counted(length, 'line')} but {other} has {expected}: it is {shorter}; "
            f"give aligned files of one test set.{several}"
        )
