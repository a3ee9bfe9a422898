"""The one error class that people see when the evaluation refuses to work."""

from wean_fairseq.errors import UserError


class EvaluationError(UserError):
    """Input that cannot be scored honestly.

    The message is one sentence for the person at the keyboard: what is wrong, where, and what to do about it.
    """
