"""Draw figures of granularities and of copying from the dumps that decoding has written."""

from collections.abc import Iterator
from functools import partial

from ..errors import UserError
from ..evaluation import granularity
from ..evaluation.tables import Table
from . import figures
from .document import Block, Write
from .dumps import read_provenance
from .runs import TrainedSystem

_SENTENCES = 6  # maximum number of sentences drawn from a dump
_LONGEST = 60  # maximum number of words of a drawn sentence


def from_dumps(system: TrainedSystem, write: Write, problems: list[str]) -> Iterator[Block]:
    """Yield figures drawn from the dumps of a system. Append a sentence to ``problems`` for each broken dump."""
    for kind, draw in (("granularity", _granularities), ("provenance", _provenance)):
        if kind in system.dumps:
            try:
                yield from draw(system, write)
            except UserError as error:
                problems.append(f"{system.name}: {error}")


def _granularities(system: TrainedSystem, write: Write) -> Iterator[Block]:
    sentences = granularity.read_dump(str(system.dumps["granularity"]))
    short = [sentence for sentence in sentences if 0 < len(sentence.words) <= _LONGEST]
    shown = granularity.spread(short, _SENTENCES)
    caption = f"{system.name}: granularity z of source words by layer"
    if shown:
        yield write(partial(figures.granularity, shown), f"{system.name} granularity", caption)
    table = granularity.layer_table(sentences)
    head = [name.replace("_", " ") for name in table.head]
    caption = f"{system.name}: mean z of function and content words"
    yield Table(head, [[text or "–" for text in row] for row in table.rows], caption=caption)


def _provenance(system: TrainedSystem, write: Write) -> Iterator[Block]:
    written = [item for item in read_provenance(system.dumps["provenance"]).values() if item.words]
    small = [item for item in written if max(len(item.source), len(item.output)) <= _LONGEST]
    copied = granularity.spread(small, _SENTENCES // 2)
    caption = f"{system.name}: where the words of some outputs came from"
    if copied:
        yield write(partial(figures.provenance, copied), f"{system.name} provenance", caption)
