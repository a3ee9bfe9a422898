"""Compare a prepared text that the user names with the data of a training."""

import logging
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary, data_utils
from msgspec import Struct, ValidationError, convert

from ..storage.data_files import MANIFEST, PreparedFile
from ..storage.files import open_regular
from ..storage.json_files import read_json
from ..text.settings import text_of_data
from .integrity import check_binary

logger = logging.getLogger(__name__)
_SENTENCES = 1000  # number of sentences that are compared


class _Manifest(Struct):
    """The part of a manifest with the checksums of the files that a script wrote and read."""

    files: dict[str, PreparedFile] = {}
    sources: list[PreparedFile] = []


def compare_text(data: Path, text: Path) -> None:
    """Log a warning if the training text in a folder is not the text from which the data of a training was created.

    The first 1,000 sentences are compared. Data in another form that a script made from this text, such as the pairs of
    FSET, is not compared.

    Args:
        data: directory that fairseq-preprocess wrote.
        text: output folder of a script of ``preprocess/``, which the user names.
    """
    with suppress(OSError, ValueError, RuntimeError, ValidationError):  # the files are needed to compare
        if _was_made_from(data, text):
            return
        for side in ("src", "tgt"):
            prefix = data / f"train.src-tgt.{side}"
            if not (text / f"train.{side}").is_file():
                continue
            rows: list[Any] = _first_lines(text / f"train.{side}")
            trained: list[Any] = []
            if prefix.is_file():  # raw data is text, in which models that copy also read unknown words
                trained = _first_lines(prefix)
            else:
                dictionary = Dictionary.load(str(data / f"dict.{side}.txt"))
                rows = [[dictionary.index(word) for word in words] for words in rows]
                trained = _first_sentences(prefix, dictionary)
            if trained and rows != trained:
                same = takewhile(lambda pair: pair[0] == pair[1], zip(rows, trained, strict=False))
                number = 1 + len(list(same))
                logger.warning(
                    f"line {number} of {text / f'train.{side}'} is not that of the text from which {data} was made: "
                    "if it is another text, the model reads other tokens than in its training; name the text of this "
                    "data"
                )
                return


def _was_made_from(data: Path, text: Path) -> bool:
    """Return True if a script made the text of the data from the text in a folder, in another form."""
    origin = text_of_data(data, quiet=True)
    if origin is None:
        return False
    sources = convert(read_json(origin / MANIFEST), _Manifest).sources
    files = convert(read_json(text / MANIFEST), _Manifest).files
    return "train.src" in files and files["train.src"].sha256 in {source.sha256 for source in sources}


def _first_sentences(prefix: Path, dictionary: Dictionary) -> list[list[int]]:
    """Return the first sentences of one side of binary data as indices of words, without the end symbol."""
    check_binary(prefix, len(dictionary))
    sentences = data_utils.load_indexed_dataset(str(prefix), dictionary)
    return [] if sentences is None else [sentences[n].tolist()[:-1] for n in range(min(len(sentences), _SENTENCES))]


def _first_lines(path: Path) -> list[list[str]]:
    """Return the words of the first lines of a text."""
    with open_regular(path) as file:
        return [line.decode("utf-8").split() for line in islice(file, _SENTENCES)]
