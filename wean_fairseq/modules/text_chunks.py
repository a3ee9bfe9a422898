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
    """The places of the chunks of a batch of texts.

    Attributes:
        text: which text each chunk belongs to, (R,).
        number: which of its text's chunks each is, from 0, (R,).
        start: the step at which each begins, (R,).
        row: the chunk that each step belongs to, (B, T).
        offset: the place of each step in its chunk, (B, T).
        real: ``True`` at steps that are not padding, (B, T).
    """

    text: Tensor
    number: Tensor
    start: Tensor
    row: Tensor
    offset: Tensor
    real: Tensor

    def split(self, values: Tensor) -> Tensor:
        """Give each chunk a row: (B, T, ...) -> (R, L, ...), zero after a chunk's end."""
        real, offset = self.real, self.offset[self.real]
        longest = int(offset.max()) + 1 if offset.numel() else 1
        rows = values.new_zeros(self.text.numel(), longest, *values.shape[2:])
        return rows.index_put((self.row[real], offset), values[real])

    def join(self, rows: Tensor) -> Tensor:
        """The way back: (R, L, ...) -> (B, T, ...), zero at padding."""
        real = self.real
        values = rows.new_zeros(*real.shape, *rows.shape[2:])
        joined: Tensor = values.index_put((real,), rows[self.row[real], self.offset[real]])
        return joined


def find_chunks(words: Tensor, padding_idx: int, separator: int) -> Chunks:
    """Find the chunks among the words that a decoder reads.

    Args:
        words: the words before each step: a start symbol, then words and separators, then padding, shape (B, T). A
            step that reads a separator is the first of a new chunk, as the very first step is.
        padding_idx: id of padding.
        separator: id of the separator.
    """
    real = words.ne(padding_idx)
    real[:, 0] = True
    begins = words.eq(separator)
    begins[:, 0] = True
    text, start = begins.nonzero(as_tuple=True)  # in the order of texts, then of steps
    row = begins.flatten().cumsum(dim=0).view_as(words) - 1
    number = (begins.cumsum(dim=1) - 1)[text, start]
    offset = torch.arange(words.size(1), device=words.device) - start[row]
    return Chunks(text, number, start, row, offset, real)


def text_before(words: Tensor, chunks: Chunks, padding_idx: int) -> Tensor:
    """The text before each chunk, its separators included: (B, T) -> (R, M), padded on the right.

    Args:
        words: as in ``find_chunks``; the start symbol is not part of the text.
        chunks: from ``find_chunks``.
        padding_idx: fills the rows up.
    """
    # At least one word, be it padding: then whatever reads the text is in use in every batch of distributed training.
    longest = max(1, int(chunks.start.max()))
    before = words[:, 1 : longest + 1][chunks.text]  # (R, M)
    place = torch.arange(before.size(1), device=words.device)
    return before.masked_fill(place >= chunks.start.unsqueeze(1), padding_idx)
