"""The dictionaries as a checkpoint describes them: their words, and which number each has."""

import hashlib
from typing import Any

from fairseq.data import Dictionary

from ..errors import UserError
from ..storage.files import check_size

_SHOWN = 150  # characters of what fairseq says, which can be a paragraph


def load(path: str) -> Dictionary:
    """Read a dictionary that fairseq-preprocess wrote; raises ``UserError`` if it is none."""
    try:
        check_size(path)
        dictionary = Dictionary.load(path)
        wrong = "a line has no word" if "" in dictionary.indices else None
    except OSError as error:
        wrong = str(error.strerror)
    except Exception as error:  # noqa: BLE001 - of UnicodeError fairseq makes a bare one
        wrong = " ".join(str(error).split())[:_SHOWN]
    if wrong is not None:
        raise UserError(f"{path} is not a dictionary ({wrong}): restore it, or preprocess the data again.")
    return dictionary


def describe(dictionary: Dictionary) -> dict[str, Any]:
    """The number of words, and the SHA-256 of them in their order and in the alphabet's; slots are not counted."""
    words = dictionary.symbols[: getattr(dictionary, "first_slot", len(dictionary))]
    return {"size": len(words), "words": _digest(words), "sorted": _digest(sorted(words))}


def _digest(words: list[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def check(trained: dict[str, Any], sides: dict[str, Dictionary], checkpoint: str, data: str) -> None:
    """Refuse dictionaries in which words have other numbers than in training, whatever their counts are.

    Args:
        trained: what ``describe`` said in training, by side; without a side nothing is known of it.
        checkpoint: the file, for the user.
        data: the directory of the dictionaries, for the user.

    Raises:
        UserError: naming what differs.
    """
    for side, dictionary in sides.items():
        before, now = trained.get(side), describe(dictionary)
        if before is None or before["words"] == now["words"]:
            continue
        if before["size"] != now["size"]:
            what = f"has {now['size']} words, and it had {before['size']}"
        elif before["sorted"] == now["sorted"]:
            what = "has its words in another order than"
        else:
            what = "has other words than"
        raise UserError(
            f"{checkpoint} was trained with another dictionary: dict.{side}.txt in {data} {what} when the model was "
            "trained, so that every word would be taken for another; use the data that it was trained on."
        )
