"""Detect whether the first row of a table is a header, and find requested columns."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence

from wean_fairseq.errors import UserError

_NUMBER = re.compile(r"[-+]?[\s.,:/%-]*\d[\d\s.,:/%TZ-]*")  # it also matches dates and times
_SENTENCE_END = re.compile(r"""[.?!…。？！]["'”’»)]*$""")
_WORD = re.compile(r"[^\W\d_]+")
_FEW_WORDS = 6
_LISTED = 30  # a message lists at most this number of columns
# Words that occur in the names of columns, here and in published data sets.
_NAMES = frozenset(
    "after answer article before clean complex corrected correct document english error formal french german "
    "hypothesis id index informal input instruction label lang language long noisy normal number original output "
    "paraphrase paraphrases phrase premise prompt query question question1 question2 ref reference response rewrite "
    "rewritten score sent sentence sentence1 sentence2 sentences short simple simplified simplification source spanish "
    "src style summary target text text1 text2 tgt title translation version chinese "
    "quelle ziel satz frage texte phrase cible oración fuente 原文 译文 原句 句子 改写 源 目标 问题 简化".split()
)

# Names that contradict the order of the columns if a name of the second group is before one of the first group.
_SOURCES = ("source", "src", "input", "original", "complex")
_TARGETS = ("target", "tgt", "output", "simple", "simplified")

Key = str | int  # key of a column: its path in JSON, or its position


def is_number(text: str) -> bool:
    """Return True if a cell is a number, a date or a time."""
    return _NUMBER.fullmatch(text.strip()) is not None


def index_of(name: str, length: int) -> int | None:
    """Return the index in a list for ``name``, a number from 1 to ``length``. None = not such a number."""
    number = int(name) if name.isdecimal() and len(name) < 10 else 0
    return number - 1 if 1 <= number <= length else None


def mostly(cells: Iterable[bool], share: float = 0.9) -> bool:
    """Return True if the list is not empty and at least ``share`` of its values are True."""
    values = list(cells)
    return bool(values) and sum(values) >= share * len(values)


def is_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Guess whether the first row of a table contains the names of its columns.

    A number in the first row is evidence against a header. Each of the following is evidence for a header: numbers
    below a cell that is not a number, only known names, no space in a table of sentences, ASCII above another script,
    no full stops above sentences that end with a full stop, or cells shorter than half of all others in their columns.
    """
    names = [cell.strip() for cell in first]
    columns = [[row[place].strip() for row in rows if place < len(row)] for place in range(len(names))]
    columns = [[cell for cell in column if cell] for column in columns]
    used = [(name, column) for name, column in zip(names, columns, strict=True) if name]
    if not used or any(is_number(name) for name, _ in used):
        return False
    if any(mostly(map(is_number, column)) for _, column in used):
        return True
    if any(_SENTENCE_END.search(name) or len(name.split()) > _FEW_WORDS for name, _ in used):
        return False
    if all(is_known_name(name) for name, _ in used):
        return True
    cells = [cell for _, column in used for cell in column]
    bare = not any(" " in name for name, _ in used)
    if bare and mostly((any(" " in cell for cell in row) for row in rows), 0.5):
        return True
    if all(name.isascii() for name, _ in used) and mostly(not cell.isascii() for cell in cells):
        return True
    if mostly((_SENTENCE_END.search(cell) is not None for cell in cells), 0.95):
        return True
    return len(rows) > 2 and all(2 * len(name) < min(map(len, column), default=0) for name, column in used)


def is_known_name(name: str) -> bool:
    """Return True if a word of ``name`` is usual in names of columns, such as source, sentence1 or summary."""
    words = name.lower().replace("_", " ").split()
    words += [word for part in words for word in _WORD.findall(part)]
    return any(word in _NAMES for word in words)


def parse_names(text: str) -> list[str]:
    """Return the names in ``--columns``, separated by commas. A name that contains a comma is quoted.

    Raises:
        UserError: if there are fewer than two names, or a name is repeated.
    """
    try:
        names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True, strict=True))]
    except (csv.Error, StopIteration) as error:
        raise UserError(f"--columns {text} cannot be read: quote a name with a comma, as in 'a,\"b, c\"'.") from error
    if len(names) < 2 or not all(names):
        raise UserError("--columns takes two names or numbers with a comma between them, such as original,rewritten.")
    return names


def find_columns(names: Mapping[Key, str], wanted: Sequence[str], where: str, advice: str) -> list[Key]:
    """Return the keys of the requested columns. Names are looked up first, then numbers from 1.

    Args:
        names: name of each column by its key.
        wanted: requested names or numbers.
        where: name of the file, for messages.
        advice: last sentence of error messages.

    Raises:
        UserError: if a column is missing, ambiguous, or repeated.
    """
    keys = list(names)
    chosen: list[Key] = []
    for name in wanted:
        same = [key for key in keys if names[key] in (name, one_spaced(name))]
        if len(same) > 1:
            raise UserError(f"{where} has {len(same)} columns named {name}: give numbers. {listing(names, advice)}")
        if not same and (index := index_of(name, len(keys))) is not None:
            same = [keys[index]]
        if not same:
            raise UserError(f"{where} has no column {name}. {listing(names, advice)}")
        if same[0] in chosen:
            raise UserError(
                f"--columns {','.join(wanted)} names one column twice, so that source and target would be the same. "
                f"{listing(names, advice)}"
            )
        chosen += same
    return chosen


def ordered_keys(names: Mapping[Key, str]) -> list[Key]:
    """Return the keys of the columns whose names mean a source, and then of those whose names mean a target."""
    return [key for group in (_SOURCES, _TARGETS) for key, name in names.items() if name.lower() in group]


def is_reversed(names: Sequence[str]) -> bool:
    """Return True if the first two names say that the target is before the source."""
    first, second = (name.lower() for name in names[:2])
    return first in _TARGETS and second in _SOURCES


def one_spaced(name: str) -> str:
    """Return a name with single spaces. Names in headers may contain line breaks and no-break spaces."""
    return " ".join(name.split())


def listing(names: Mapping[Key, str], advice: str) -> str:
    """Return a text that lists the columns with their numbers, followed by advice."""
    first = list(names.values())[:_LISTED]
    shown = ", ".join(f"{number} {name[:40]}".rstrip() for number, name in enumerate(first, start=1))
    shown += f", ... ({len(names)} in all)" if len(names) > len(first) else ""
    if not any(names.values()):
        shown = f"{len(names)} without names"
    return f"Its columns are: {shown}. {advice}"
