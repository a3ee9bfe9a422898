"""Compare a prepared text that the user names with the data of a training."""

import logging
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary, data_utils
from msgspec import Struct, ValidationError, convert

from ..console import counted
from ..storage.data_files import MANIFEST, PairCounts, PreparedFile, sentences_of
from ..storage.files import open_regular
from ..storage.json_files import read_json
from ..text.settings import text_of_data
from .integrity import check_binary

logger = logging.getLogger(__name__)
_SENTENCES = 1000  # number of sentences that are compared


class _Manifest(Struct):
    """The part of a manifest with the checksums of the files that a script wrote and read.

    Attributes:
        text: the text steps, if the script prepares text. A script that rearranges prepared text has no such entry.
    """

    files: dict[str, PreparedFile] = {}
    sources: list[PreparedFile] = []
    text: dict[str, Any] | None = None


def compare_text(data: Path, text: Path) -> None:
    """Log a warning if the training text in a folder is not the text from which the data of a training was created.

    The number of pairs and the first 1,000 sentences are compared. If a file cannot be read, they are not compared.
    Data in another form that a script made from this text, such as the pairs of FSET, is not compared, either.

    Args:
        data: directory that fairseq-preprocess wrote.
        text: output folder of a script of ``preprocess/``, which the user names.
    """
    if _was_made_from(data, text):
        return
    difference = ""
    with suppress(OSError, ValueError, ValidationError):
        difference = _other_number(data, text)
    with suppress(OSError, ValueError, RuntimeError):
        difference = difference or _other_sentence(data, text)
    if difference:
        logger.warning(
            f"{difference}: name the text of this data, because with another one the model reads other tokens than in "
            "its training"
        )


def _other_number(data: Path, text: Path) -> str:
    """Say which numbers of training pairs differ, or return an empty string."""
    pairs = convert(read_json(text / MANIFEST), PairCounts).splits.train.kept
    sentences = [number for name, number in sentences_of(data).items() if Path(name).stem == "train"]
    if not sentences or pairs in sentences:
        return ""
    return f"{text} has {counted(pairs, 'training pair')}, but {data} was made from {sentences[-1]:,}"


def _other_sentence(data: Path, text: Path) -> str:
    """Say which of the first lines of the training text differs from the data, or return an empty string."""
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
            return f"line {1 + len(list(same))} of {text / f'train.{side}'} differs from the data in {data}"
    return ""


def _was_made_from(data: Path, text: Path) -> bool:
    """Return True if a script rearranged the text in a folder, and the data was made from the result."""
    origin = text_of_data(data, quiet=True)
    with suppress(OSError, ValueError, ValidationError):
        made = convert(read_json(origin / MANIFEST), _Manifest) if origin else _Manifest()
        files = convert(read_json(text / MANIFEST), _Manifest).files
        read = {source.sha256 for source in made.sources}
        return made.text is None and all(
            name in files and files[name].sha256 in read for name in ("train.src", "train.tgt")
        )
    return False


def _first_sentences(prefix: Path, dictionary: Dictionary) -> list[list[int]]:
    """Return the first sentences of one side of binary data as indices of words, without the end symbol."""
    check_binary(prefix, len(dictionary))
    sentences = data_utils.load_indexed_dataset(str(prefix), dictionary)
    return [] if sentences is None else [sentences[n].tolist()[:-1] for n in range(min(len(sentences), _SENTENCES))]


def _first_lines(path: Path) -> list[list[str]]:
    """Return the words of the first lines of a text."""
    with open_regular(path) as file:
        return [line.decode("utf-8").split() for line in islice(file, _SENTENCES)]
