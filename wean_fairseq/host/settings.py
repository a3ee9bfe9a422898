"""Settings of libraries and of Python that are changed when the plugin is registered."""

import io
import re
import sys
import warnings
from types import SimpleNamespace

import numpy as np

# Messages of warnings of fairseq, Hydra and torch that appear in every run and that users cannot avoid.
_NOISE = ["hydra.experimental", "version_base", "@package _group_", "strict flag", "pin_memory", "torch.cuda.amp."]
_NOISE += ["'config' is validated against ConfigStore schema"]


def hide_noise() -> None:
    """Hide the warnings of ``_NOISE``."""
    for message in _NOISE:
        warnings.filterwarnings("ignore", message=f"(?s).*{re.escape(message)}")


def provide_numpy_compat() -> None:
    """Provide ``numpy.compat.long`` if NumPy no longer has ``compat``."""
    if not hasattr(np, "compat"):
        vars(np)["compat"] = SimpleNamespace(long=int)


def make_output_printable() -> None:
    """Make all characters printable in any locale: escaped on a terminal, otherwise as UTF-8."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and out.errors == "strict":
        plain = not out.encoding.lower().startswith("utf") and not out.isatty()
        out.reconfigure(encoding="utf-8" if plain else None, errors="backslashreplace")
