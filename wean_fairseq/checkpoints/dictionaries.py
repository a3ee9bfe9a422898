"""Read dictionaries, and compare them with a checkpoint's dictionaries.

A word must have the same number in the dictionary and in the checkpoint.
"""

import hashlib
import logging
from typing import Any

from fairseq.data import Dictionary

from ..data.extended_vocabulary import num_base_words
from ..errors import UserError
from ..storage.files import check_size, open_regular

logger = logging.getLogger(__name__)

_SHOWN = 150  # maximum number of characters shown of a message of fairseq, which can be a paragraph


def load_dictionary(path: str, remedy: str = "restore it, or preprocess the data again") -> Dictionary:
    """Read a dictionary of fairseq-preprocess. Raise ``UserError`` with a ``remedy`` if it is not valid."""
    try:
        open_regular(path).close()  # fairseq would wait for a FIFO, and would never stop reading a device
        check_size(path)
        dictionary = Dictionary.load(path)
        wrong = "it has no words" if len(dictionary) == dictionary.nspecial else None
        wrong = "a line has no word" if "" in dictionary.indices else wrong
        wrong = "a word has a negative count" if min(dictionary.count) < 0 else wrong
    except OSError as error:
        wrong = str(error.strerror)
    except Exception as error:  # noqa: BLE001 - fairseq replaces UnicodeError by Exception
        # Keep the part of the message before the line of the file that fairseq quotes.
        wrong = " ".join(str(error).partition(": ")[0].split())[:_SHOWN]
    if wrong is not None:
        raise UserError(f"{path} is not a dictionary ({wrong}): {remedy}.")
    return dictionary


def padding_words(dictionary: Dictionary) -> list[str]:
    """Return the entries that fairseq adds to pad a dictionary to a multiple of 8 entries.

    A word of the text that looks like such an entry is not returned, because its count is not 0.
    """
    entries = zip(dictionary.symbols, dictionary.count, strict=False)
    return [word for word, count in entries if count == 0 and word.startswith("madeupword")]


def fingerprint(dictionary: Dictionary) -> dict[str, Any]:
    """Return the number of words without slots, and their SHA-256 in the given and in alphabetical order."""
    words = dictionary.symbols[: num_base_words(dictionary)]
    return {"size": len(words), "words": _digest(words), "sorted": _digest(sorted(words))}


def _digest(words: list[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def check(trained: dict[str, Any], sides: dict[str, Dictionary], checkpoint: str, data: str) -> None:
    """Refuse dictionaries that number the words differently from the dictionaries of the training.

    The words' counts may differ. Exchanged sides are reported with a warning.

    Args:
        trained: for each side, source first, the result of ``fingerprint`` in training. A side without a recorded
            fingerprint is not checked.
        sides: the dictionary of each side, source first.
        checkpoint: path of the checkpoint, for messages.
        data: directory of the dictionaries, for messages.

    Raises:
        UserError: if the words differ. The message describes the difference.
    """
    for side, dictionary in sides.items():
        check_dictionary(trained.get(side), dictionary, checkpoint, f"dict.{side}.txt in {data}")
    if len(sides) > 1 and list(trained) == list(sides)[::-1]:
        logger.warning(
            f"EXCHANGED SIDES: {checkpoint} was trained from {' to '.join(trained)}, and is used from "
            f"{' to '.join(sides)}: compare --source-lang and --target-lang with its training"
        )


def check_dictionary(before: dict[str, Any] | None, dictionary: Dictionary, checkpoint: str, file: str) -> None:
    """Refuse a dictionary that differs from the recorded fingerprint ``before``, like ``check``."""
    now = fingerprint(dictionary)
    if before is None or before["words"] == now["words"]:
        return
    if before["size"] != now["size"]:
        what = f"has {now['size']} words, and it had {before['size']}"
    elif before["sorted"] == now["sorted"]:
        what = "has its words in another order than"
    else:
        what = "has other words than"
    raise UserError(
        f"{checkpoint} was trained with another dictionary: {file} {what} when the model was trained, so that every "
        "word would be taken for another; use the data that it was trained on."
    )
