"""Check topic lines for too many topics, empty lines, unknown topics and the separator of the released format."""

import logging
from collections.abc import Iterable, Sequence

from fairseq.data import Dictionary
from torch import Tensor

from ..errors import UserError

logger = logging.getLogger(__name__)

#: This token separates essay and topics in the corpora that MTA-LSTM's authors released.
SEPARATOR = "</d>"


def check_topics(name: str, topics: Sequence[tuple[int, ...]], max_topics: int, separator: int, first: int = 1) -> None:
    """Reject lines without topics, with more than ``max_topics`` topics, or with an essay after the topics.

    Args:
        topics: ids of the topic words of each line.
        separator: id of ``</d>``.

    Raises:
        UserError: if a line is rejected. The message contains the number of the line.
    """
    numbered = list(enumerate(topics, start=first))
    empty = [number for number, line in numbered if not line]
    if empty:
        raise UserError(f"{name} has {len(empty)} line(s) without a topic (line {empty[0]}): remove these pairs.")
    with_essay = [number for number, line in numbered if separator in line]
    if with_essay:
        raise UserError(_separator_error(f"{name} has {len(with_essay)} topic line(s)", with_essay[0]))
    long = [(number, len(line)) for number, line in numbered if len(line) > max_topics]
    if long:
        raise UserError(
            f"{name} has {len(long)} line(s) with more than {max_topics} topics (line {long[0][0]} has {long[0][1]}): "
            "raise --max-topics, or leave these pairs out."
        )


def check_essays(name: str, essays: Iterable[Tensor], separator: int) -> None:
    """Reject essays that still contain their topics before the separator.

    Raise ``UserError`` with the number of the first such essay.
    """
    with_topics = [number for number, essay in enumerate(essays, start=1) if essay.eq(separator).any()]
    if with_topics:
        raise UserError(_separator_error(f"{name} has {len(with_topics)} essay(s)", with_topics[0]))


def _separator_error(which: str, line: int) -> str:
    return (
        f"{which} with {SEPARATOR} (line {line}), which separates an essay from its topics in the released corpora: "
        "split them with preprocess/essay.py and preprocess again."
    )


def check_known(
    name: str, topics: Sequence[tuple[int, ...]], dictionary: Dictionary, *, required: bool, lost_spellings: bool
) -> None:
    """Log the number of topic words that are not in the dictionary.

    Args:
        required: whether the model distinguishes topics only by their words in the dictionary.
        lost_spellings: whether BERT also reads the topics, but the spellings of unknown words are lost.

    Raises:
        UserError: if ``required`` is true and the dictionary contains none of the topic words.
    """
    words = sum(map(len, topics))
    unknown = sum(index == dictionary.unk() or index >= len(dictionary) for line in topics for index in line)
    if not unknown:
        return
    if unknown == words and required:
        raise UserError(
            f"none of the {words} topic words of {name} is in the dictionary, so that all topics are the same to a "
            "model: preprocess these files with the dictionary that belongs to them."
        )
    count = f"{name}: {unknown} of {words} topic words ({unknown / words:.1%}) are not in the dictionary"
    if lost_spellings:
        count += ", and binary data forgets how they are spelt, so that BERT reads [UNK]: run fairseq-preprocess "
        count += "again with --dataset-impl raw"
    logger.warning(count)
