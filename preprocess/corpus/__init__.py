"""Common parts of the scripts of ``preprocess/``. They read text, write an output directory, and check for leaks.

The scripts run as ``python preprocess/<name>.py``. Python then puts their folder on its path, so they can use ``from
corpus.output import OutputFolder``. The steps from text to tokens are in ``wean_fairseq.text``, because models need
them too.
"""

import importlib.util
import sys
from types import TracebackType

_missing = [name for name in ("numpy", "tqdm", "wean_fairseq") if importlib.util.find_spec(name) is None]
if _missing:
    sys.exit(f"error: {_missing[0]} is not installed here: run `make setup` once, then `source .venv/bin/activate`.")


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print one line after Ctrl-C during the imports, because no function of a script can handle it yet."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
    else:
        _previous(kind, error, trace)


_previous, sys.excepthook = sys.excepthook, _show
