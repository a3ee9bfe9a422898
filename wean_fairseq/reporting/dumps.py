"""Types for attention, coverage and copying in sentences, and a reader for dumps of copy provenance.

Dumps of granularities are read by `wean_fairseq.evaluation.granularity.read_dump`.
"""

from contextlib import suppress
from typing import Any, NamedTuple

from msgspec import Struct, ValidationError, convert

from ..evaluation.text_files import PathLike, decode_lines, read_bytes, read_described
from ..storage.files import parse_json

END = "</s>"


class Attention(NamedTuple):
    """Attention of each output word: ``weights[output word][source word]``."""

    source: list[str]
    output: list[str]
    weights: list[list[float]]


class Coverage(NamedTuple):
    """The remaining part of each topic after each output word: ``left[output word][topic]``.

    Attributes:
        left: MTA-LSTM's coverage C_t, which starts at 1, or SC-LSTM's keyword vector d_t.
        label: name of these numbers in the figure.
    """

    topics: list[str]
    output: list[str]
    left: list[list[float]]
    label: str


class CopiedWord(Struct):
    """An output word, the probability that it was copied, and its origins (source position -> share)."""

    word: str
    copied: float
    positions: dict[int, float]


class Provenance(Struct):
    """The origin of each word of an output."""

    source: list[str]
    output: list[CopiedWord]

    @property
    def words(self) -> list[CopiedWord]:
        """The output without its end symbol."""
        return [word for word in self.output if word.word != END]


def read_provenance(path: PathLike) -> dict[int, Provenance]:
    """Return the sentences of a dump by their numbers.

    Raises:
        UserError: if the file is not a dump of copy provenance.
    """
    return read_described(path, Provenance, "has no copy provenance: give a file that --copy-provenance wrote")


def kind_of_dump(path: PathLike) -> str:
    """Return the kind of a dump from its first line: ``granularity``, ``provenance`` or empty."""
    lines = decode_lines(read_bytes(path).partition(b"\n")[0], path)
    with suppress(ValueError, ValidationError):
        content = parse_json(lines[0]) if lines else {}
        if "source_granularity" in convert(content, dict[str, Any]):
            return "granularity"
        return "provenance" if convert(content, Provenance, str_keys=True).output else ""
    return ""
