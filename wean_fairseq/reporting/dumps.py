"""Types for attention, coverage and copying in sentences, and a reader for dumps of copy provenance.

Dumps of granularities are read by `wean_fairseq.evaluation.granularity.read_dump`.
"""

import re
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from ..evaluation.text_files import PathLike, read_bytes, read_described
from ..ranges import Count

END = "</s>"
#: A probability in a dump. The upper bound allows for rounding errors of the model's exponentials.
Share = Annotated[float, Meta(ge=0, le=1.001)]
#: Fields that only dumps have. Their names cannot occur in a string of JSON, which contains no quotation marks.
_DUMPED = re.compile(rb'"(?:(?P<granularity>source_granularity)|(?P<provenance>positions))"\s*:\s*\{')


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
    copied: Share
    positions: dict[Count, Share]


class Provenance(Struct):
    """The origin of each word of an output."""

    source: list[str]
    output: list[CopiedWord]

    def __post_init__(self) -> None:
        last = max((place for word in self.output for place in word.positions), default=-1)
        if last >= len(self.source):
            raise ValueError(f"a word was copied from position {last} of {len(self.source)} source words")

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
    """Return the kind of a dump from its first line: ``granularity``, ``provenance`` or empty.

    The line may have faults, which the reader of the dump reports.
    """
    found = _DUMPED.search(read_bytes(path).partition(b"\n")[0])
    return found.lastgroup or "" if found else ""
