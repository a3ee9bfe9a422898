"""Recognise the settings that a recipe or wean-train writes into the directory of its run."""

import re
from pathlib import Path

from .files import read_regular

LOCK = ".run.lock"  # file in the folder of a run that the run locks. Recipes also lock it
HASH = "SHA-256 of "  # beginning of the lines with the hashes of the inputs
_RECORDED = re.compile(rf"SEED=[0-9]+|{HASH}.+=[0-9a-f]{{64}}")  # a line that the settings of every run have


def is_settings(file: Path) -> bool:
    """Return True if a file has settings of a run. Recipes recognise them in the same way."""
    try:
        lines = read_regular(file).decode("utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return all("=" in line for line in lines) and any(map(_RECORDED.fullmatch, lines))
