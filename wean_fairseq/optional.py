"""Import libraries only when they are used, because they are slow to import or needed by few options."""

import sys
from collections.abc import Iterable
from importlib import import_module, metadata
from typing import Any

from .errors import UserError, one_line

#: Arguments of transformers' ``from_pretrained``. With them, it neither downloads files nor runs code from a model
#: directory. It does not ask for permission to run code either, because lines of text on standard input would answer
#: the question.
LOCAL_AND_NO_CODE = {"local_files_only": True, "trust_remote_code": False}
_EXTRAS = {"jieba": "zh", "gensim": "vectors", "nltk": "meteor", "readability": "fkgl", "ctranslate2": "ctranslate2"}
_EXTRAS |= {"tokenizers": "bert", "transformers": "bert", "starlette": "inspect", "uvicorn": "inspect"}


class LazyModule:
    """A module of a library that is imported when one of its attributes is used. See ``import_optional``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_optional(self._name), attribute)


def import_optional(module: str) -> Any:
    """Import a library. Raise ``UserError`` with the command that installs it if it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_library(module.partition(".")[0].replace("_", "-")) from error
    except ValueError as error:  # for example, because of MPLBACKEND, or a matplotlibrc in the current folder
        reason = one_line(error)[:200]
        raise UserError(
            f"{module} cannot be imported ({reason}): correct its settings, or install it and its dependencies again."
        ) from error


def missing_library(library: str) -> UserError:
    """Return the error for a missing library, which says how to install it."""
    extra = _EXTRAS.get(library)
    checkout = f", or in a checkout: pip install -c constraints.txt -e '.[{extra}]'"
    install = f"'wean-fairseq[{extra}]'{checkout}" if extra else library
    return UserError(f"this needs {library}, which is not installed: pip install {install}.")


def versions_of(libraries: Iterable[str]) -> dict[str, str]:
    """Return the versions of libraries. Raise ``UserError`` with the command that installs a missing one."""
    versions = {}
    for library in libraries:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError as error:
            raise missing_library(library) from error
    return versions


def hide_broken_torchaudio() -> None:
    """Make a torchaudio that cannot be loaded look as if it were not installed.

    fairseq requires torchaudio, and the installed version may be built for another torch. transformers finds it and
    imports it even for text models, which do not need it. Without this function, the text model fails to load.
    """
    try:
        import_module("torchaudio")
    except (ImportError, OSError, RuntimeError, AttributeError):
        sys.modules["torchaudio"] = None  # type: ignore[assignment] # Python then treats it as not installed
        checks = sys.modules.get("transformers.utils.import_utils")
        if checks is not None:  # transformers is already imported, and has stored that it found torchaudio
            checks.is_torchaudio_available.cache_clear()
