"""The words that the hypotheses of a beam search have read, kept once for all that share them.

Hypotheses grow out of one another. What self-attention keeps of a word stays where it is for as long as its sentence is
searched, beside that of the words of all other hypotheses; a mask says which of them a hypothesis has read. So nothing
is copied when hypotheses are reordered, and the queries of a sentence read the same keys in one product.

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
    """Memory for more words than there are, so that those that are there stay where they are."""

    buffers: dict[str, Tensor]  # (B, ..., capacity, ...)
    filled: int  # words


@dataclass(frozen=True)
class SharedWords(State):
    """The tensors kept of the words of a sentence, by name: (B, ..., W, ...), the words in ``axis``."""

    kept: dict[str, Tensor]
    axis: int = 2
    appended: bool = False  # words came last, and no other selection of sentences
    room: _Room | None = None  # of which the tensors are the beginning

    def select(self, rows: Tensor, *more: Tensor | None) -> Self:
        """Nothing moves as long as all sentences stay."""
        sentences = more[0] if more else rows
        if sentences is None:
            return self
        return type(self)({name: part.index_select(0, sentences) for name, part in self.kept.items()}, self.axis)

    def append(self, new: dict[str, Tensor]) -> "SharedWords":
        """With more words; in place where words are appended again and again."""
        if not self.kept:
            return SharedWords(new, self.axis, appended=True)
        if torch.is_grad_enabled() or not self.appended:
            kept = {name: torch.cat([self.kept[name], part], dim=self.axis) for name, part in new.items()}
            return SharedWords(kept, self.axis, appended=True)
        length, added = (next(iter(parts.values())).size(self.axis) for parts in (self.kept, new))
        room = self._room_for(length, added)
        for name, part in new.items():
            room.buffers[name].narrow(self.axis, length, added).copy_(part)
        room.filled = length + added
        kept = {name: buffer.narrow(self.axis, 0, room.filled) for name, buffer in room.buffers.items()}
        return SharedWords(kept, self.axis, appended=True, room=room)

    def _room_for(self, length: int, added: int) -> _Room:
        """The same memory if nobody else has gone on in it and it is large enough, else twice what is wanted."""
        if self.room is not None and self.room.filled == length:
            capacity = next(iter(self.room.buffers.values())).size(self.axis)
            if capacity >= length + added:
                return self.room
        buffers = {}
        for name, part in self.kept.items():
            shape = list(part.shape)
            shape[self.axis] = 2 * (length + added)
            buffers[name] = part.new_empty(shape)
            buffers[name].narrow(self.axis, 0, length).copy_(part)
        return _Room(buffers, length)


@dataclass(frozen=True)
class WordsRead(State):
    """Which words each hypothesis has read."""

    seen: Tensor  # True at the words of the hypothesis, (N, W)
    place: Tensor  # of each word in its hypothesis, from 0, (W,)
    count: Tensor  # words that are not padding, (N,)
    length: int  # words, padding included

    @classmethod
    def empty(cls, like: Tensor) -> "WordsRead":
        """Before the first word, for the rows of ``like`` (B, ...)."""
        count = torch.zeros(len(like), dtype=torch.long, device=like.device)
        return cls(count.new_zeros(len(like), 0, dtype=torch.bool), count[:0], count, 0)

    def select(self, rows: Tensor, *more: Tensor | None) -> Self:
        """See ``State``; the places are those of all."""
        return type(self)(self.seen.index_select(0, rows), self.place, self.count.index_select(0, rows), self.length)

    def append(self, words: Tensor, sentences: int) -> "WordsRead":
        """With more words, ``True`` where they are not padding, (N, T).

        That is one, or where nothing was read and N = B as many as there are.
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
        """For one query of each hypothesis: -inf at words of others, (B, 1, K, W); ``None`` if there are none."""
        if len(self.seen) == sentences:
            return None
        seen = self.seen.view(sentences, 1, -1, self.seen.size(1))
        return torch.zeros(seen.shape, device=seen.device).masked_fill(~seen, float("-inf"))
