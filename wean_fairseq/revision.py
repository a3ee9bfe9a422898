"""Name the commit of this package, for logs and records of measurements."""

import os
import subprocess
from pathlib import Path

UNKNOWN = "unknown"


def commit() -> str:
    """Return the commit of this package, with ``-dirty`` if files of its repository were changed.

    Return ``unknown`` if the package is not in a git repository, or is not part of the repository around it. Git looks
    for the repository from this file on, not from the current folder. A repository in the current folder may come from
    another person, and its settings may name programs that git would run.
    """
    try:
        _git("ls-files", "--error-unmatch", "--", __file__)
        return _git("describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN


def _git(*arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.strip()
