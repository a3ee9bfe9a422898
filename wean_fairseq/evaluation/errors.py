"""The one error class that people see when the evaluation refuses to work, and how it names what is wrong."""

from collections.abc import Sequence

from wean_fairseq.errors import UserError


class EvaluationError(UserError):
    """Input that cannot be scored honestly.

    The message is one sentence for the person at the keyboard: what is wrong, where, and what to do about it.
    """


def name_some(items: Sequence[object], limit: int = 5) -> str:
    """Name the first few of many, so that nobody's terminal is flooded: ``3, 5, 8, 9, 11 and 40 more``."""
    named = ", ".join(map(str, items[:limit]))
    return named + (f" and {len(items) - limit} more" if len(items) > limit else "")
