"""Word vectors as GloVe and word2vec write them as text: a word and its numbers in each line, with a header or not.

Legend: ``V`` dictionary size, ``D`` width.
"""

import logging
from io import TextIOWrapper
from typing import TextIO

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..errors import UserError
from ..storage.files import open_regular

logger = logging.getLogger(__name__)
_LONGEST = 1 << 24  # characters of a line
_DIGITS = 12  # of a number of words; Python refuses to read one of thousands


def load_word_vectors(path: str, dictionary: Dictionary, dim: int) -> tuple[Tensor, Tensor]:
    """Read the vectors of the dictionary's words; how many have one is logged.

    A word that comes twice has its first vector; padding has none. Words with spaces in them, as GloVe's largest file
    has some, are passed over.

    Args:
        dim: ``D`` of the model.

    Returns:
        The vectors, 0 for words without one, (V, D); and which words have one, (V,).

    Raises:
        UserError: if the file is missing, of another width, broken, or has none of the words.
    """
    matrix = np.zeros((len(dictionary), dim), dtype=np.float32)
    found = np.zeros(len(dictionary), dtype=bool)
    wanted = {word: index for index, word in enumerate(dictionary.symbols) if index != dictionary.pad()}
    try:
        # Only \n ends a line: there are words with other line separators in them. No word has U+FFFD.
        with TextIOWrapper(open_regular(path), "utf-8-sig", "replace", newline="\n") as file:
            skipped = _check_width(file, path, dim)
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST), ""), start=1 + skipped):
                word, numbers = _parts(line, f"{path}, line {number}", dim)
                index = wanted.get(word)
                if index is not None and not found[index]:
                    matrix[index] = _vector(numbers, f"{path}, line {number}")
                    found[index] = True
    except OSError as error:
        raise UserError(
            f"the word vectors {path!r} cannot be read ({error.strerror}): give a text file of GloVe or word2vec."
        ) from error
    words, known = len(dictionary) - dictionary.nspecial, int(found[dictionary.nspecial :].sum())
    if not known:
        raise UserError(
            f"{path} has a vector for none of the {words} words of the dictionary: it is of another language, or its "
            "words are cut or cased in another way."
        )
    logger.info(f"{path} has vectors for {known} of the {words} words of the dictionary ({known / words:.1%})")
    return torch.from_numpy(matrix), torch.from_numpy(found)


def _check_width(file: TextIO, path: str, dim: int) -> int:
    """See that the file is of width ``dim`` and go to its first vector; return the number of lines before it."""
    fields = file.readline(_LONGEST).rstrip(" \r\n").split(" ")
    header = len(fields) == 2 and all(part.isdecimal() and len(part) < _DIGITS for part in fields)  # words and width
    width = int(fields[1]) if header else len(fields) - 1
    if width < 1:
        raise UserError(f"{path}, line 1 is not a word and its vector: give a text file of GloVe or word2vec.")
    if width != dim:
        raise UserError(
            f"{path} has vectors of width {width}, but the model's embeddings are {dim} wide: "
            "give vectors of that width, or make the model as wide."
        )
    if not header:
        file.seek(0)
    return int(header)


def _parts(line: str, where: str, dim: int) -> tuple[str, list[str]]:
    """The word of a line, with any spaces in it, and its ``dim`` numbers as text."""
    word, *numbers = line.rstrip(" \r\n").rsplit(" ", dim)
    surplus = word.split(" ")[1:]
    if len(numbers) != dim or not word or any(_is_number(part) for part in surplus):
        count = max(0, len(line.split()) - 1)
        raise UserError(f"{where} is broken: a word and {dim} numbers were expected, but it has {count}.")
    return word, numbers


def _vector(numbers: list[str], where: str) -> np.ndarray:
    try:
        vector = np.array(numbers, dtype=np.float32)
        if np.isfinite(vector).all():
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
