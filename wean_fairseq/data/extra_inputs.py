"""Inputs that some model families read in addition to the words of a pair.

A task creates the inputs from its options, and then uses only their interface ``ExtraInputs``. A model declares the
names of the inputs that it reads (``Capabilities.inputs``).
"""

from typing import Any, ClassVar

from fairseq.data import Dictionary, LanguagePairDataset


class ExtraInputs:
    """The inputs that one option of a task requests. The base class provides no inputs.

    Args:
        cfg: options of the task.
        dictionary: dictionary of the source.

    Attributes:
        option: name of the option that requests the inputs.
        names: names of the inputs in ``net_input``.
        are_required: whether the option can only be used with models that read the inputs.
        read_words: whether the inputs depend on the spelling of words that are not in the dictionary.
        attributes: attributes of the task that models read when they are built.
    """

    option: ClassVar[str]
    names: ClassVar[tuple[str, ...]]
    are_required: ClassVar[bool] = False
    read_words: ClassVar[bool] = False

    def __init__(self, cfg: Any, dictionary: Dictionary) -> None:
        self.cfg = cfg
        self.dictionary = dictionary
        self.attributes: dict[str, Any] = {}

    @classmethod
    def check(cls, cfg: Any) -> None:
        """Raise ``UserError`` if the options contradict each other."""

    def extend(self, split: str, pairs: LanguagePairDataset, uncut: LanguagePairDataset, training: bool) -> Any:
        """Return the pairs of a split with the inputs added. ``uncut`` contains the pairs before truncation."""
        return pairs

    def complete(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return a batch with the inputs added.

        At this point, the batch still contains the ids of the real words instead of slots.
        """
        return batch

    def fill(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return a batch with placeholder inputs for a process that has no pairs in this step.

        The gradients of this batch do not count.
        """
        return batch
