"""A table with the types and ranges of the arguments of ``load``, ``TextModel`` and ``generate``."""

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from ..console import LARGEST_SEED
from ..errors import UserError, similar
from ..ranges import LARGEST
from ..storage.search import GENERATION, RANGES

_KINDS = {int: "a whole number", float: "a number", bool: "True or False"}
_COUNTS = ("n_best", "beam", "essay_length", "batch_size", "first")
# The type, the minimum and the maximum of each argument. The maximum is limited because libraries store these numbers
# in 32 bits.
_NUMBERS: dict[str, tuple[type, float, float]] = {
    **dict.fromkeys(_COUNTS, (int, 1, LARGEST)),
    "seed": (int, -LARGEST_SEED, LARGEST_SEED),
    **dict.fromkeys(("details", "cut", "ordered"), (bool, -math.inf, math.inf)),
    **{name: (kind, *RANGES.get(name, (-math.inf, math.inf))) for name, (kind, *_) in GENERATION.items()},
}
# internal arguments of programs that read long texts in parts, which messages do not list
_NOT_SHOWN = ("first", "details", "cut")
OF_CALLS = [name for name in _NUMBERS if name not in _NOT_SHOWN] + ["constraints"]


def check_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert NumPy's numbers to Python's numbers, and check types and ranges of the values.

    Arguments that are not in the table are returned unchanged.

    torch and fairseq would accept many invalid numbers and then fail in the middle of a search.

    Raises:
        UserError: if a value has the wrong type or is out of range.
    """
    return {name: _checked(name, value) if name in _NUMBERS else value for name, value in values.items()}


def _checked(name: str, value: Any) -> Any:
    kind, least, most = _NUMBERS[name]
    if not isinstance(value, bool) and isinstance(value, Real):
        value = int(value) if isinstance(value, Integral) else float(value)
    types = (int, float) if kind is float else kind
    is_of_kind = isinstance(value, types) and isinstance(value, bool) == (kind is bool)
    if not is_of_kind or not least <= value <= most:
        limits = "" if math.isinf(least) else f" of {least} to {most}"
        raise UserError(f"{name} must be {_KINDS[kind]}{limits}, but is {value!r:.40}.")
    return value


def check_names(names: Iterable[str], known: Iterable[str], place: str) -> None:
    """Refuse unknown names.

    Args:
        names: the names to check.
        known: the names that a user may give.
        place: the function or model that has these names, for the message.

    Raises:
        UserError: if a name is unknown. The message contains the unknown name, a similar name (if there is one) and all
            known names.
    """
    known = list(known)
    for name in names:
        if name not in known:
            hint = similar(name, known)
            raise UserError(f"{name} is not an option of {place}{hint}: choose from {', '.join(known)}.")
