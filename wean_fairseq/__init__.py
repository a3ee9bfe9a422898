"""wean_fairseq: paraphrase-oriented text generation as a fairseq plugin.

Importing it registers everything with fairseq, at once or as soon as fairseq is imported: see ``registration``.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from . import errors
from .host import registration

if TYPE_CHECKING:
    from .generation import load

__version__ = "0.1.0"
__all__ = ["criterions", "load", "models", "optim", "scorers", "tasks"]

#: Names that are no modules of this folder -> where they are: a module, or ``module:name``.
_PLACES = {"load": "generation:load", "scorers": "evaluation.scorers"}

errors.install_error_reports()
registration.register_before_use()


def __getattr__(name: str) -> Any:
    """Import a part of the package when it is first asked for (PEP 562)."""
    if name in __all__:
        return resolve_name(f"{__name__}.{_PLACES.get(name, name)}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
