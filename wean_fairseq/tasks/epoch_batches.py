"""Batches of training epochs, with checkpoints that identify them.

A resumed training therefore neither repeats nor leaves out a pair.

fairseq's checkpoints store how many batches of an epoch are finished, but not which pairs these batches contain. If
``--batch-size``, ``--max-tokens``, ``--seed``, the number of processes or the text changes, the same number of batches
contains different pairs.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from fairseq.data.iterators import EpochBatchIterator
from numpy.typing import ArrayLike

from ..errors import UserError

logger = logging.getLogger(__name__)

_IN_WORDS = {
    "processes": "the number of processes",
    "seed": "--seed",
    "pairs": "the number of pairs in the data",
    "lengths": "the sentences of the data, or how they are cut",
    "batches": "an option that forms the batches (--batch-size, --max-tokens, limits of length)",
}


class EpochBatches(EpochBatchIterator):
    """Iterator over fairseq's batches. Its checkpoints also identify the batches of the epoch.

    This object replaces fairseq's iterator and shares its attributes.
    """

    def __init__(self, batches: EpochBatchIterator) -> None:
        self.__dict__ = vars(batches)

    @property
    def first_batch(self) -> Any:
        """The first batch of the epoch. Raise ``UserError`` if there is none."""
        if len(self.frozen_batches) == 0:
            raise UserError("all sentences of this data are longer than the model or the options allow.")
        return super().first_batch

    def state_dict(self) -> dict[str, Any]:
        """Return the state of fairseq's iterator. Within an epoch, it includes the composition of the batches."""
        state: dict[str, Any] = super().state_dict()
        return {**state, "made_of": self._composition()} if state["iterations_in_epoch"] else state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume within an epoch, or restart the epoch if its batches have changed.

        Old checkpoints do not record the batches.
        """
        saved = state_dict.get("made_of")
        if saved is not None and state_dict.get("iterations_in_epoch", 0) > 0:
            current = self._composition()
            changed = [words for name, words in _IN_WORDS.items() if saved.get(name) != current[name]]
            if changed and self.shard_id == 0:
                logger.warning(
                    f"EPOCH {state_dict['epoch']} STARTS AGAIN: {changed[0]} changed since the checkpoint was written, "
                    "so its batches differ; all pairs are trained on once more (to resume inside the epoch, restore "
                    "the options and the data)"
                )
            if changed:
                state_dict = {**state_dict, "iterations_in_epoch": 0}
        super().load_state_dict(state_dict)

    def padding(self, source_end: bool, multiple: int) -> list[float]:
        """Return the share of positions that are padding, for sources and for targets.

        The model also spends computing time on padding.

        Args:
            source_end: whether sources keep their end symbol.
            multiple: the length of a batch is a multiple of this number.
        """
        sizes = np.asarray(self.dataset.sizes) - [not source_end, 0]  # (pairs, 2)
        batches = [sizes[batch] for batch in self.frozen_batches]
        positions = sum(-(-batch.max(axis=0) // multiple) * multiple * len(batch) for batch in batches)
        tokens = sum(batch.sum(axis=0) for batch in batches)
        shares: list[float] = (1 - tokens / positions).tolist()
        return shares

    def _composition(self) -> dict[str, int | str]:
        """Return all values that determine which pairs the first batches of this epoch contain.

        They are equal in all processes.
        """
        return {
            "processes": self.num_shards,
            "seed": self.seed,
            "pairs": len(self.dataset),
            "lengths": _digest(self.dataset.sizes),
            "batches": _digest([len(batch) for batch in self.frozen_batches], *self.frozen_batches),
        }


class AnnouncedBatches(EpochBatches):
    """Iterator over fairseq's batches. It passes each batch to ``announce`` before the batch is decoded."""

    def __init__(self, batches: EpochBatchIterator, announce: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(batches)
        self._announce = announce

    def next_epoch_itr(self, *args: Any, **kwargs: Any) -> Iterator[dict[str, Any]]:
        """Return an iterator over the batches of the next epoch."""
        for batch in super().next_epoch_itr(*args, **kwargs):
            self._announce(batch)
            yield batch


def _digest(*numbers: ArrayLike) -> str:
    digest = hashlib.sha256()
    for array in numbers:
        digest.update(np.ascontiguousarray(array, dtype=np.int64).tobytes())
    return digest.hexdigest()
