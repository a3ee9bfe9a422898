"""wean_fairseq: paraphrase-oriented text generation as a fairseq plugin.

fairseq registers the plugin when it imports this package (``--user-dir``). Calls of `register`, `load` and `train`
register it, too. The subpackages that need fairseq call `register` themselves. Scoring texts and writing reports need
no fairseq, so they do not register the plugin.
"""

import logging
import resource
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .generation import load
    from .training.call import train

__version__ = "1.0.0"
__all__ = ["load", "register", "train"]

# an RLIMIT_FSIZE of 0 forbids writing files, but matplotlib and fairseq write files when they are imported
if resource.getrlimit(resource.RLIMIT_FSIZE)[0] == 0:
    sys.exit("wean_fairseq: error: no file can be written, because the limit ulimit -f is 0: raise it.")

_failures: list[BaseException] = []  # the error that interrupted a registration, if any


def register() -> None:
    """Patch fairseq, and register the criterions, models, optimisers, tasks and scorers. A second call does nothing.

    Raises:
        ImportError: if an earlier call failed, because fairseq refuses to register the same name again.
    """
    if _failures:
        raise ImportError(f"wean_fairseq was not registered ({_failures[0]}): restart Python.") from _failures[0]
    # Importing fairseq sets the root logger to DEBUG and adds a handler, so every library of the caller would print
    # messages.
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    # fairseq would report here that tensorboardX is not installed, although this package does not need it.
    logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
    try:
        import_module(f"{__name__}.plugin")
    except BaseException as error:
        _failures.append(error)
        raise
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


def __getattr__(name: str) -> Any:
    """Import ``load`` and ``train`` only when they are used (PEP 562), because they need torch."""
    if name in ("load", "train"):
        return getattr(import_module(f"{__name__}.{'generation' if name == 'load' else 'training.call'}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if sys.modules.get("fairseq") is not None:
    if not __debug__:
        sys.exit("wean_fairseq: error: fairseq saves checkpoints inside assertions: do not use -O and PYTHONOPTIMIZE.")
    register()
