"""Load word vectors in the text format of word2vec, GloVe and fastText (plain or .gz).

Each line contains a word and its numbers. Legend: ``V`` dictionary size, ``D`` width of the vectors.
"""

import logging
import zlib
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..errors import UserError
from ..storage.data_files import check_prepared
from ..storage.files import Unpacked, open_regular

logger = logging.getLogger(__name__)
_LONGEST = 1 << 24  # maximum number of characters of a line
# a header with longer numbers is not read, because Python refuses to parse numbers with thousands of digits
_DIGITS = 12


def load_word_vectors(path: str, dictionary: Dictionary, dim: int) -> tuple[Tensor, Tensor]:
    """Read the vectors of the dictionary's words, and log how many words have a vector.

    If a word occurs twice, its first vector is used. The padding symbol gets no vector. Words that contain spaces are
    skipped. GloVe's largest file has such words.

    Args:
        dim: width ``D`` of the model's embedding.

    Returns:
        The vectors (V, D), with zeros for words without a vector, and a mask (V,) of the words with a vector.

    Raises:
        UserError: if the file is missing or broken, its vectors have another width, their number differs from the
            header, or it contains no word of the dictionary.
    """
    check_prepared(Path(path).parent, [Path(path).name])
    matrix = np.zeros((len(dictionary), dim), dtype=np.float32)
    has_vector = np.zeros(len(dictionary), dtype=bool)
    indices = {word: index for index, word in enumerate(dictionary.symbols) if index != dictionary.pad()}
    try:
        # Only \n ends a line, because some words contain other line separators. U+FFFD, which replaces invalid bytes,
        # is in no word of the dictionary.
        with TextIOWrapper(_open(path), "utf-8-sig", "replace", newline="\n") as file:
            expected = _check_width(file, path, dim)
            number = skipped = int(expected is not None)
            line = ""
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST), ""), start=1 + skipped):
                word, numbers = _parts(line, f"{path}, line {number}", dim)
                index = indices.get(word)
                if index is not None and not has_vector[index]:
                    matrix[index] = _vector(numbers, f"{path}, line {number}")
                    has_vector[index] = True
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"the word vectors {path!r} cannot be read ({reason}): give a text file of GloVe, word2vec or fastText."
        ) from error
    if expected is not None and number - skipped != expected:
        raise UserError(
            f"{path} is damaged: its first line says {expected} vectors, but it has {number - skipped}: copy or "
            "download it again, or remove the first line if the vectors are complete."
        )
    if not line.endswith("\n"):
        logger.warning(f"the last line of {path} has no line end: if the file was cut, its last number is wrong.")
    words, num_known = len(dictionary) - dictionary.nspecial, int(has_vector[dictionary.nspecial :].sum())
    if not num_known:
        raise UserError(
            f"{path} has a vector for none of the {words} words of the dictionary: it is in another language, or its "
            "words are tokenised or cased differently."
        )
    logger.info(f"{path} has vectors for {num_known} of the {words} words of the dictionary ({num_known / words:.1%})")
    return torch.from_numpy(matrix), torch.from_numpy(has_vector)


def _open(path: str) -> BinaryIO:
    file = open_regular(path)
    return Unpacked(file) if path.endswith(".gz") else file  # type: ignore[return-value]


def _check_width(file: TextIO, path: str, dim: int) -> int | None:
    """Check that the vectors of the file have width ``dim``, and seek to the first vector.

    Return the number of vectors in the header, or None if the file has no header.
    """
    fields = file.readline(_LONGEST).rstrip(" \r\n").split(" ")
    # number of words, and width of the vectors
    header = len(fields) == 2 and all(field.isdecimal() and len(field) < _DIGITS for field in fields)
    width = int(fields[1]) if header else len(fields) - 1
    if width < 1:
        raise UserError(f"{path}, line 1 is not a word and its vector: give a text file of GloVe or word2vec.")
    if width != dim:
        raise UserError(
            f"{path} has vectors of width {width}, but the model's embeddings are {dim} wide: "
            "give vectors of that width, or make the model as wide."
        )
    if header:
        return int(fields[0])
    file.seek(0)
    return None


def _parts(line: str, where: str, dim: int) -> tuple[str, list[str]]:
    """Split a line into its word, which may contain spaces, and its ``dim`` numbers as text."""
    word, *numbers = line.rstrip(" \r\n").rsplit(" ", dim)
    surplus = word.split(" ")[1:]
    if len(numbers) != dim or not word or any(_is_number(field) for field in surplus):
        count = max(0, len(line.split()) - 1)
        raise UserError(f"{where} is broken: a word and {dim} numbers were expected, but it has {count}.")
    return word, numbers


def _vector(numbers: list[str], where: str) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # such a value becomes infinite
            vector = np.array(numbers, dtype=np.float32)
        if np.isfinite(vector).all() and not any("_" in number for number in numbers):  # Python reads 1_0 as 10
            return vector
    except ValueError:
        pass
    raise UserError(f"{where} is broken: not all of its {len(numbers)} values are finite numbers.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
