"""Range checks for the values of options."""

import math
import os
from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta

from .errors import UserError

ANY = math.inf
#: Types of numbers in JSON files that cannot be negative.
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0)]
LARGEST = 2**31 - 1  # maximum of integer options, because libraries store them in 32 bits
# maximum number of processes that a command starts. With many more, they would use up the memory of the machine.
MOST_PROCESSES = max(64, 4 * (os.cpu_count() or 1))


def flag(name: str) -> str:
    """Return the option of the command line for the name of a setting: ``max_len_a`` -> ``--max-len-a``."""
    return f"--{name.replace('_', '-')}"


def values_of(value: Any) -> Iterable[Any]:
    """Return the values of an option as a sequence. An option may have several values or none."""
    if value is None or str(value).startswith("${"):  # a reference to another option that is not resolved yet
        return ()
    return (value,) if isinstance(value, int | float) else value


def check_range(name: str, values: Iterable[Any], least: float, most: float = ANY) -> None:
    """Refuse values that are not finite numbers from ``least`` to ``most``, or are whole numbers above ``LARGEST``.

    Raises:
        UserError: if a value is refused. The message names the option.
    """
    for value in values:
        if isinstance(value, int) and value > LARGEST:
            raise UserError(f"{flag(name)} must be at most {min(most, LARGEST)}, but is {value}.")
        if not isinstance(value, int | float) or not least <= value <= most or math.isinf(value):
            bound = f"{least} or more" if most == ANY else f"from {least} to {most}"
            raise UserError(f"{flag(name)} must be {bound}, but is {value}.")


def check_no_reference(name: str, value: object) -> None:
    """Raise ``UserError`` for text with ``${``, which a configuration of fairseq replaces by another value."""
    if "${" in str(value):
        raise UserError(f"{name} {value} has ${{ in it, which fairseq replaces by another value: give another name.")


def check_share(name: str, value: Any) -> None:
    """Raise ``UserError`` unless a number is at least 0 and below 1."""
    if isinstance(value, int | float) and not 0 <= value < 1:
        raise UserError(f"{flag(name)} must be at least 0 and below 1, but is {value}.")


def check_positive(name: str, values: Iterable[Any]) -> None:
    """Raise ``UserError`` unless all values are finite numbers above 0."""
    for value in values:
        if not 0 < value < math.inf:
            raise UserError(f"{flag(name)} must be a finite number above 0, but is {value}.")
