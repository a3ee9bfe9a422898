"""Name the commit of this package, for logs and records of measurements."""

import subprocess
from pathlib import Path

UNKNOWN = "unknown"


def commit() -> str:
    """Return the commit of this package, with ``-dirty`` if its files were changed, or ``unknown`` outside git.

    The folder is always the package's folder, because settings in another folder's ``.git`` could name programs that
    git would run.
    """
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
    return done.stdout.strip()
