"""Range checks for the values of options."""

import math
import os
from collections.abc import Iterable
from typing import Annotated, Any, get_args, get_type_hints

from msgspec import Meta, ValidationError, convert

from .errors import UserError, shown

ANY = math.inf
#: Types of numbers in JSON files that cannot be negative.
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0)]
LARGEST = 2**31 - 1  # maximum of integer options, because libraries store them in 32 bits
# maximum number of processes that a command starts. With many more, they would use up the memory of the machine.
MOST_PROCESSES = max(64, 4 * (os.cpu_count() or 1))


def checked(name: str, value: object, kind: Any, where: str = "") -> Any:
    """Return a value of the type ``kind``.

    Args:
        name: name of the value, for messages.
        value: value to check. A whole number becomes a float if ``kind`` is ``float``.
        kind: type, which msgspec checks.
        where: file with the value, for messages.

    Raises:
        UserError: if the value has another type, is outside its range or is not one of the choices.
    """
    try:
        return convert(value, kind)
    except (ValidationError, UnicodeEncodeError) as error:  # msgspec cannot compare lone surrogates with choices
        choices = [choice for part in (kind, *get_args(kind)) for choice in get_args(part) if isinstance(choice, str)]
        if choices and bool in get_args(kind):
            choices = ["True", "False", *choices]
        reason = f"choose from {', '.join(filter(None, choices))}" if choices else f"{error}"
        prefix = f"{where}: " if where else ""
        raise UserError(f"{prefix}{name} is {shown(value)}: {reason[:1].lower()}{reason[1:]}.") from error


def check_fields(settings: Any) -> None:
    """Raise ``UserError`` if a field of a dataclass has a value that is not of the field's type.

    Numbers of NumPy and paths are accepted like Python's numbers and text.
    """
    for name, kind in get_type_hints(type(settings), include_extras=True).items():
        value = getattr(settings, name)
        if type(value).__module__ == "numpy":
            value = value.item()
        checked(name, os.fspath(value) if isinstance(value, os.PathLike) else value, kind)


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
