"""The topic words of a source: wherever padding stands, topic j is in slot j, as a list and not as a sentence.

Legend: ``B`` batch, ``S`` source length, ``T`` target length, ``k`` topic slots.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class TopicWords(NamedTuple):
    """The topics of a batch."""

    tokens: Tensor  # the topic in each slot, ``padding_idx`` in the slots that are left over, (B, k)
    padding_mask: Tensor  # ``True`` at the slots that are left over, (B, k)
    slot: Tensor  # where the topic of a source position stands, -1 where there is none, (B, S)


def topic_words(src_tokens: Tensor, padding_idx: int, eos_idx: int, num_slots: int | None = None) -> TopicWords:
    """Put the words of each source (B, S), end symbol and padding on either side left out, into ``num_slots`` slots.

    Without a number there are as many slots as the batch may need. More topics than slots are a ``ValueError``.
    """
    is_topic = src_tokens.ne(padding_idx) & src_tokens.ne(eos_idx)
    batch, length = src_tokens.shape
    slots = length if num_slots is None else num_slots
    if length > slots and (most := int(is_topic.sum(dim=1).max())) > slots:
        raise ValueError(f"a source has {most} topic words, but there are only {slots} slots for them.")
    slot = (is_topic.cumsum(dim=1) - 1).masked_fill(~is_topic, -1)
    # One column more takes whatever is no topic, and is cut off again.
    tokens = src_tokens.new_full((batch, slots + 1), padding_idx)
    tokens = tokens.scatter(1, slot.masked_fill(~is_topic, slots), src_tokens)[:, :slots]
    return TopicWords(tokens, tokens.eq(padding_idx), slot)


def scatter_to_source(values: Tensor, slot: Tensor) -> Tensor:
    """Move what belongs to topics, (B, T, k), to where ``slot`` (B, S) has them in the source: (B, T, S), else 0."""
    slot = slot.unsqueeze(1)  # (B, 1, S)
    index = slot.clamp(min=0).expand(-1, values.size(1), -1)
    return torch.gather(values, 2, index).masked_fill(slot < 0, 0.0)
