"""Messages of the scripts: the error for a mistake of the user, and progress lines."""

import sys

from wean_fairseq.console import print_text
from wean_fairseq.errors import UserError as InputError  # noqa: F401 - the name that the scripts use


def say(name: str, text: str) -> None:
    """Print one line that starts with the name of the script. Control characters are escaped."""
    if sys.stdout is not None:
        print_text(f"{name}: {text}\n")
