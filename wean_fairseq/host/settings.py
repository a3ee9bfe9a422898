"""Change settings of libraries and of Python when the plugin is registered."""

import io
import logging
import re
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..console import printable_lines

# Parts of warnings from fairseq, Hydra and torch that appear in every run and that users cannot avoid.
_NOISE = ["hydra.experimental", "version_base", "@package _group_", "strict flag", "pin_memory", "torch.cuda.amp."]
_NOISE += ["'config' is validated against ConfigStore schema"]


def hide_noise() -> None:
    """Hide the warnings of ``_NOISE``."""
    for message in _NOISE:
        warnings.filterwarnings("ignore", message=f"(?s).*{re.escape(message)}")


def provide_numpy_compat() -> None:
    """Provide ``numpy.compat.long``, which fairseq needs, if NumPy no longer has ``compat``."""
    if not hasattr(np, "compat"):
        vars(np)["compat"] = SimpleNamespace(long=int)


def make_output_printable() -> None:
    """Make all characters printable in any locale: escaped on a terminal, otherwise as UTF-8."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and out.errors == "strict":
        plain = not out.encoding.lower().startswith("utf") and not out.isatty()
        out.reconfigure(encoding="utf-8" if plain else None, errors="backslashreplace")


class _Terminal:
    """A stream to a terminal that escapes control characters except tabs and ends of lines."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> Any:
        return self._stream.write(printable_lines(text))


def escape_on_terminals() -> None:
    """Escape control characters in the outputs and the logs of a command on a terminal. They quote foreign texts."""
    if sys.stdout is not None and sys.stdout.isatty():
        sys.stdout = _Terminal(sys.stdout)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream.isatty():
            handler.setStream(_Terminal(handler.stream))
