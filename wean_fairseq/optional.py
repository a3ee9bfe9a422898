"""Libraries that only some options need: imported when asked for, and named with their installation where missing."""

import sys
from importlib import import_module
from typing import Any

from .errors import UserError

#: Arguments of transformers' ``from_pretrained``: fetch nothing, and neither run the code that a directory may bring
#: along nor ask whether it shall be run, because lines of text on the standard input would answer.
LOCAL_AND_NO_CODE = {"local_files_only": True, "trust_remote_code": False}
_EXTRAS = {"jieba": "zh", "tokenizers": "bert", "ctranslate2": "ctranslate2"}


def import_optional(module: str) -> Any:
    """Import a library; raises ``UserError``, saying how to get it, where it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_library(module.partition(".")[0].replace("_", "-")) from error


def missing_library(library: str) -> UserError:
    """The error that says how to install a library."""
    install = f"'wean-fairseq[{_EXTRAS[library]}]'" if library in _EXTRAS else library
    return UserError(f"this option needs {library}, which is not installed: pip install {install}.")


def hide_broken_torchaudio() -> None:
    """Make a torchaudio that cannot be loaded look like one that is not installed.

    fairseq asks for torchaudio, and one that was built for another torch may stand beside this torch. transformers sees
    that it is there and imports it even for text models, where nothing needs it; the text model then fails to load.
    """
    try:
        import torchaudio  # noqa: F401
    except (ImportError, OSError, RuntimeError, AttributeError):
        sys.modules["torchaudio"] = None  # type: ignore[assignment] # Python's own mark for "not to be found"
        looked = sys.modules.get("transformers.utils.import_utils")
        if looked is not None:  # transformers is imported already and remembers that it saw torchaudio
            looked.is_torchaudio_available.cache_clear()
