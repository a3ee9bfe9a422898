"""Common parts of the scripts of ``preprocess/``: reading text, writing an output directory, looking for leaks.

The scripts run as ``python preprocess/<name>.py``, which puts their own folder on the path: ``from corpus.output import
Output``. The steps from text to tokens are in ``wean_fairseq.text``, because models need them too.
"""

import importlib.util
import sys
from types import TracebackType

_missing = [name for name in ("numpy", "tqdm", "wean_fairseq") if importlib.util.find_spec(name) is None]
if _missing:
    sys.exit(f"error: {_missing[0]} is not installed here: run `make setup` once, then `source .venv/bin/activate`.")


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print one line for a Ctrl-C while the libraries are imported, which no function of a script handles."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
    else:
        _previous(kind, error, trace)


_previous, sys.excepthook = sys.excepthook, _show
