"""Split texts into chunks that end with a separator, put each chunk into a row, and join the rows again.

In separate planning (Wang et al., COLING 2016), a chunk depends on the words of the previous text, but not on the
decoder states there. Therefore training can process all chunks of a batch at once.

Legend: ``B`` batch, ``T`` length of the text, ``R`` chunks of all texts, ``L`` length of the longest chunk, ``M``
longest text before a chunk.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Chunks(NamedTuple):
    """Positions of the chunks in a batch of texts."""

    text: Tensor  # index of the text that contains each chunk, (R,)
    number: Tensor  # index of each chunk in its text, from 0, (R,)
    start: Tensor  # first step of each chunk, (R,)
    row: Tensor  # index of the chunk that contains each step, (B, T)
    real: Tensor  # True at steps that are not padding, (B, T)
    length: int  # length of the longest chunk, ``L``
    before: int  # number of steps before the last chunk, maximised over the texts

    def split(self, values: Tensor) -> Tensor:
        """Give each chunk its own row: (B, T, ...) -> (R, L, ...), with zeros after the end of a chunk."""
        text = self.text.unsqueeze(1)
        step = self.start.unsqueeze(1) + torch.arange(self.length, device=values.device)  # (R, L)
        inside = step < self.row.size(1)
        step = step.clamp(max=self.row.size(1) - 1)
        own = torch.arange(len(self.text), device=values.device).unsqueeze(1) == self.row[text, step]
        return _zero_outside(values[text, step], own & inside & self.real[text, step])

    def join(self, rows: Tensor) -> Tensor:
        """Undo ``split``: (R, L, ...) -> (B, T, ...), with zeros at padding."""
        offset = torch.arange(self.row.size(1), device=rows.device) - self.start[self.row]  # (B, T)
        return _zero_outside(rows[self.row, offset.clamp(max=self.length - 1)], self.real)


def _zero_outside(values: Tensor, inside: Tensor) -> Tensor:
    """Return ``values`` (X, Y, ...) where ``inside`` (X, Y) is ``True``, and 0 elsewhere."""
    return values.masked_fill(~inside.view(*inside.shape, *(1,) * (values.dim() - 2)), 0.0)


def find_chunks(words: Tensor, padding_idx: int, separator: int) -> Chunks:
    """Find the chunks among the words (B, T) that a decoder reads.

    The decoder reads a start symbol, then words and separators, then padding. The first step and every step that reads
    a separator start a new chunk.
    """
    real = words.ne(padding_idx)
    real[:, 0] = True
    begins = words.eq(separator)
    begins[:, 0] = True
    place = torch.arange(words.size(1), device=words.device)
    # Distance between each step and the start of its chunk.
    offset = place - (place * begins).cummax(dim=1).values
    # Copy all values that the CPU needs in one transfer from the device.
    sizes = torch.stack([begins.sum(), (offset * real).max() + 1, (place * begins).max()]).tolist()
    count, length, before = map(int, sizes)
    # Each start of a chunk gets one row in the result. Sorting the flags ``begins`` in descending order yields the
    # positions of these starts.
    first = begins.flatten().byte().sort(descending=True, stable=True).indices[:count]  # sorted by text, then by step
    row = begins.flatten().cumsum(dim=0).view_as(words) - 1
    number = begins.cumsum(dim=1).flatten()[first] - 1
    return Chunks(first // words.size(1), number, first % words.size(1), row, real, length, before)


def text_before(words: Tensor, chunks: Chunks, padding_idx: int) -> Tensor:
    """Return the text before each chunk, without the start symbol: (B, T) -> (R, M), padded on the right."""
    # Return at least one word, even if it is padding, because distributed training requires that every batch uses the
    # module that reads the text.
    longest = max(1, chunks.before)
    previous_text = words[:, 1 : longest + 1][chunks.text]  # (R, M)
    place = torch.arange(previous_text.size(1), device=words.device)
    return previous_text.masked_fill(place >= chunks.start.unsqueeze(1), padding_idx)
