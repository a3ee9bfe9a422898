"""The words that the hypotheses of a beam search have read, stored once for all hypotheses of a sentence.

During the search, hypotheses branch off from each other. The keys and values of a word stay at the same place during
the whole search, together with the words of all other hypotheses of the sentence. A mask shows which of these words
belong to a hypothesis. Therefore reordering hypotheses copies no keys or values, and all queries of a sentence read the
same keys in one product.

Legend: ``B`` sentences, ``N`` hypotheses: K of each sentence, ``T`` words read at a step, ``W`` words read so far by
all hypotheses of a sentence.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from .steps import State


@dataclass
class _Room:
    """Memory with spare capacity. Words can be added without moving the stored ones."""

    buffers: dict[str, Tensor]  # buffers of the tensors by name, (B, ..., capacity, ...)
    filled: int  # number of stored words


@dataclass(frozen=True)
class SharedWords(State):
    """Named tensors for the words of each sentence, (B, ..., W, ...), with the words in dimension ``axis``."""

    kept: dict[str, Tensor]
    axis: int = 2
    appended: bool = False  # True if the last change appended words, False if it selected sentences
    room: _Room | None = None  # memory that contains the tensors at its start

    def select(self, rows: Tensor, *more: Tensor | None) -> Self:
        """Select sentences. If all sentences remain, no tensor is copied."""
        sentences = more[0] if more else rows
        if sentences is None:
            return self
        return type(self)({name: tensor.index_select(0, sentences) for name, tensor in self.kept.items()}, self.axis)

    def append(self, new: dict[str, Tensor]) -> "SharedWords":
        """Append the tensors of further words. If words are appended repeatedly, the new ones are written in place."""
        if not self.kept:
            return SharedWords(new, self.axis, appended=True)
        if torch.is_grad_enabled() or not self.appended:
            tensors = {name: torch.cat([self.kept[name], tensor], dim=self.axis) for name, tensor in new.items()}
            return SharedWords(tensors, self.axis, appended=True)
        length, added = (next(iter(group.values())).size(self.axis) for group in (self.kept, new))
        room = self._room_for(length, added)
        for name, tensor in new.items():
            room.buffers[name].narrow(self.axis, length, added).copy_(tensor)
        room.filled = length + added
        tensors = {name: buffer.narrow(self.axis, 0, room.filled) for name, buffer in room.buffers.items()}
        return SharedWords(tensors, self.axis, appended=True, room=room)

    def _room_for(self, length: int, added: int) -> _Room:
        """Return the current memory if it has enough free space, otherwise new memory of twice the required size."""
        if self.room is not None and self.room.filled == length:
            capacity = next(iter(self.room.buffers.values())).size(self.axis)
            if capacity >= length + added:
                return self.room
        buffers = {}
        for name, tensor in self.kept.items():
            shape = list(tensor.shape)
            shape[self.axis] = 2 * (length + added)
            buffers[name] = tensor.new_empty(shape)
            buffers[name].narrow(self.axis, 0, length).copy_(tensor)
        return _Room(buffers, length)


@dataclass(frozen=True)
class WordsRead(State):
    """The words that each hypothesis has read."""

    seen: Tensor  # True at the words of the hypothesis, (N, W)
    place: Tensor  # position of each word in its hypothesis, from 0, (W,)
    count: Tensor  # number of words that are not padding, (N,)
    length: int  # number of words of each hypothesis, including padding

    @classmethod
    def empty(cls, like: Tensor) -> "WordsRead":
        """Return the state before the first word, for the rows of ``like`` (B, ...)."""
        count = torch.zeros(len(like), dtype=torch.long, device=like.device)
        return cls(count.new_zeros(len(like), 0, dtype=torch.bool), count[:0], count, 0)

    def select(self, rows: Tensor, *more: Tensor | None) -> Self:
        """See ``State``. All hypotheses share the places, so ``place`` is unchanged."""
        return type(self)(self.seen.index_select(0, rows), self.place, self.count.index_select(0, rows), self.length)

    def append(self, words: Tensor, sentences: int) -> "WordsRead":
        """Add words (N, T), where ``words`` is ``True`` if a word is not padding.

        T may be above 1 only in the first call, with one hypothesis per sentence (N = B).
        """
        length, together = words.size(1), len(words) // sentences
        if length > 1:
            assert together == 1, "only one hypothesis of a sentence can read several words at once"
            assert not self.length, "several words at once must be the first ones"
            seen = torch.ones_like(words)
            place = torch.arange(length, device=words.device)
        else:
            own = torch.eye(together, dtype=torch.bool, device=words.device).repeat(sentences, 1)  # (N, K)
            seen = torch.cat([self.seen, own], dim=1)
            place = torch.cat([self.place, self.place.new_full((together,), self.length)])
        return WordsRead(seen, place, self.count + words.sum(dim=1), self.length + length)

    def bias(self, sentences: int) -> Tensor | None:
        """Return a bias (B, 1, K, W) for one query per hypothesis, which is -inf at words of other hypotheses.

        Return ``None`` if each sentence has only one hypothesis.
        """
        if len(self.seen) == sentences:
            return None
        seen = self.seen.view(sentences, 1, -1, self.seen.size(1))
        return torch.zeros(seen.shape, device=seen.device).masked_fill(~seen, float("-inf"))
