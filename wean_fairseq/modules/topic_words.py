"""The topic words of a source, arranged in slots.

Topic j of a source is always in slot j, whether the padding is on the left or on the right.

Legend: ``B`` batch, ``S`` source length, ``T`` target length, ``k`` topic slots.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class TopicWords(NamedTuple):
    """The topic words of a batch, arranged in slots."""

    tokens: Tensor  # topic in each slot, or ``padding_idx`` in empty slots, (B, k)
    padding_mask: Tensor  # ``True`` at empty slots, (B, k)
    slot: Tensor  # slot of the topic at each source position, or -1 at other positions, (B, S)


def topic_words(src_tokens: Tensor, padding_idx: int, eos_idx: int, num_slots: int | None = None) -> TopicWords:
    """Put the topic words of each source into slots, and leave out end symbols and padding.

    Args:
        src_tokens: topic words and end symbols, padded on either side, (B, S).
        num_slots: ``k``. ``None`` = the source length of the batch.

    Raises:
        ValueError: if a source contains more topics than slots.
    """
    is_topic = src_tokens.ne(padding_idx) & src_tokens.ne(eos_idx)
    batch, length = src_tokens.shape
    slots = length if num_slots is None else num_slots
    if length > slots and (most := int(is_topic.sum(dim=1).max())) > slots:
        raise ValueError(f"a source has {most} topic words, but there are only {slots} slots for them.")
    slot = (is_topic.cumsum(dim=1) - 1).masked_fill(~is_topic, -1)
    # An additional column receives all tokens that are not topics. It is removed afterwards.
    tokens = src_tokens.new_full((batch, slots + 1), padding_idx)
    tokens = tokens.scatter(1, slot.masked_fill(~is_topic, slots), src_tokens)[:, :slots]
    return TopicWords(tokens, tokens.eq(padding_idx), slot)


def scatter_to_source(values: Tensor, slot: Tensor) -> Tensor:
    """Move values from topic slots to the source positions of the topics. Other positions are zero.

    Args:
        values: one value per step and slot, (B, T, k).
        slot: see ``TopicWords``, (B, S).

    Returns:
        Shape (B, T, S).
    """
    slot = slot.unsqueeze(1)  # (B, 1, S)
    index = slot.clamp(min=0).expand(-1, values.size(1), -1)
    return torch.gather(values, 2, index).masked_fill(slot < 0, 0.0)
