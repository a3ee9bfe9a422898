"""A text of chunks, each ended by a separator, taken apart into one row a chunk and put together again.

What is planned chunk by chunk (Wang et al., COLING 2016) needs of the text before a chunk only the words, so that in
training all chunks of a batch can be worked on at once.

Legend: ``B`` batch, ``T`` length of the text, ``R`` chunks of all texts, ``L`` length of the longest chunk, ``M``
longest text before a chunk.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Chunks(NamedTuple):
    """The places of the chunks of a batch of texts."""

    text: Tensor  # which text each chunk belongs to, (R,)
    number: Tensor  # which of its text's chunks each is, from 0, (R,)
    start: Tensor  # the step at which each begins, (R,)
    row: Tensor  # the chunk that each step belongs to, (B, T)
    real: Tensor  # ``True`` at steps that are not padding, (B, T)
    length: int  # of the longest chunk, ``L``
    before: int  # steps before the last chunk of a text, of the text that has most

    def split(self, values: Tensor) -> Tensor:
        """Give each chunk a row: (B, T, ...) -> (R, L, ...), zero after a chunk's end."""
        text = self.text.unsqueeze(1)
        step = self.start.unsqueeze(1) + torch.arange(self.length, device=values.device)  # (R, L)
        inside = step < self.row.size(1)
        step = step.clamp(max=self.row.size(1) - 1)
        own = torch.arange(len(self.text), device=values.device).unsqueeze(1) == self.row[text, step]
        return _zero_outside(values[text, step], own & inside & self.real[text, step])

    def join(self, rows: Tensor) -> Tensor:
        """The way back: (R, L, ...) -> (B, T, ...), zero at padding."""
        offset = torch.arange(self.row.size(1), device=rows.device) - self.start[self.row]  # (B, T)
        return _zero_outside(rows[self.row, offset.clamp(max=self.length - 1)], self.real)


def _zero_outside(values: Tensor, inside: Tensor) -> Tensor:
    """``values`` (X, Y, ...) where ``inside`` (X, Y) is ``True``, 0 elsewhere."""
    return values.masked_fill(~inside.view(*inside.shape, *(1,) * (values.dim() - 2)), 0.0)


def find_chunks(words: Tensor, padding_idx: int, separator: int) -> Chunks:
    """Find the chunks among the words that a decoder reads, (B, T).

    These are a start symbol, then words and separators, then padding. A step that reads a separator is the first of a
    new chunk, as the very first step is.
    """
    real = words.ne(padding_idx)
    real[:, 0] = True
    begins = words.eq(separator)
    begins[:, 0] = True
    place = torch.arange(words.size(1), device=words.device)
    offset = place - (place * begins).cummax(dim=1).values
    # All that the host must know, in one copy from the device.
    sizes = torch.stack([begins.sum(), (offset * real).max() + 1, (place * begins).max()]).tolist()
    count, length, before = map(int, sizes)
    first = begins.flatten().byte().sort(descending=True, stable=True).indices[:count]  # by text, then by step
    row = begins.flatten().cumsum(dim=0).view_as(words) - 1
    number = begins.cumsum(dim=1).flatten()[first] - 1
    return Chunks(first // words.size(1), number, first % words.size(1), row, real, length, before)


def text_before(words: Tensor, chunks: Chunks, padding_idx: int) -> Tensor:
    """The text before each chunk, separators included, start symbol not: (B, T) -> (R, M), padded on the right."""
    # At least one word, be it padding: then whatever reads the text is in use in every batch of distributed training.
    longest = max(1, chunks.before)
    before = words[:, 1 : longest + 1][chunks.text]  # (R, M)
    place = torch.arange(before.size(1), device=words.device)
    return before.masked_fill(place >= chunks.start.unsqueeze(1), padding_idx)
