"""Errors that a user can cause and mend: one sentence saying what is wrong, what was expected and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(ValueError):
    """Shown without a traceback on the command line (see ``compat.install_error_reports``)."""


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn the ``ValueError`` of a building block that was given a user's option into a ``UserError``."""
    try:
        yield
    except UserError:
        raise
    except ValueError as error:
        raise UserError(str(error)) from error
