"""Attention, coverage and copying of some sentences, as figures need them; copy provenance is read back from its dump.

A dump of granularities is read by `wean_fairseq.evaluation.granularity.read_dump`.
"""

from typing import Any, NamedTuple

from ..evaluation.text_files import PathLike, decode_lines, parse_json, read_bytes, read_described

END = "</s>"


class Attention(NamedTuple):
    """Attention of each output word: ``weights[output word][source word]``."""

    source: list[str]
    output: list[str]
    weights: list[list[float]]


class Coverage(NamedTuple):
    """The rest of each topic after each output word: ``left[output word][topic]``.

    Attributes:
        left: MTA-LSTM's coverage C_t, which starts at 1, or SC-LSTM's keyword vector d_t.
        label: what the number is.
    """

    topics: list[str]
    output: list[str]
    left: list[list[float]]
    label: str


class CopiedWord(NamedTuple):
    """An output word, how probably it was copied, and from where: source position -> share."""

    word: str
    copied: float
    positions: dict[int, float]


class Provenance(NamedTuple):
    """The origin of the words of an output."""

    source: list[str]
    output: list[CopiedWord]

    @property
    def words(self) -> list[CopiedWord]:
        """The output without its end symbol."""
        return [word for word in self.output if word.word != END]


def read_provenance(path: PathLike) -> dict[int, Provenance]:
    """The sentences of a dump by number, in their order.

    Raises:
        UserError: if the file is no dump of copy provenance.
    """
    return read_described(path, _provenance, "has no copy provenance: give a file that --copy-provenance wrote")


def _provenance(entry: dict[str, Any]) -> Provenance:
    words = [
        CopiedWord(
            str(word["word"]),
            float(word["copied"]),
            {int(place): float(share) for place, share in word["positions"].items()},
        )
        for word in entry["output"]
    ]
    return Provenance([str(word) for word in entry["source"]], words)


def kind_of_dump(path: PathLike) -> str:
    """``granularity``, ``provenance``, or nothing where the first line of a file is neither."""
    lines = decode_lines(read_bytes(path).partition(b"\n")[0], path)
    try:
        entry = parse_json(lines[0]) if lines else {}
        if "source_granularity" in entry:
            return "granularity"
        return "provenance" if "copied" in entry["output"][0] else ""
    except (ValueError, LookupError, TypeError):
        return ""
