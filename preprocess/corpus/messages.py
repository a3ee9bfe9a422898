"""Progress lines of the scripts."""

import sys

from wean_fairseq.console import print_text


def say(name: str, text: str) -> None:
    """Print one line that starts with the name of the script. Control characters are escaped."""
    if sys.stdout is not None:
        print_text(f"{name}: {text}\n")
