"""Read the grammars of synthetic text from the files ``preprocess/grammars/*.toml``."""

import tomllib
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parents[1] / "grammars"


def read_grammar(name: str) -> dict[str, Any]:
    """Return the parts of a grammar by their names."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
