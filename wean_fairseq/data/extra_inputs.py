"""Inputs that some model families read besides the words of a pair.

A task creates them from its options, and uses only the interface ``ExtraInputs``. A model declares the names of the
inputs that it reads (``Capabilities.inputs``).
"""

from typing import Any, ClassVar

from fairseq.data import Dictionary, LanguagePairDataset


class ExtraInputs:
    """The inputs of one option of a task. The base class has no inputs.

    Args:
        cfg: options of the task.
        dictionary: dictionary of the source.

    Attributes:
        option: name of the option that requests them.
        names: names of the inputs in ``net_input``.
        are_required: whether the option can only be used with models that read the inputs.
        read_words: whether the inputs distinguish words that are not in the dictionary.
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
        """Return the pairs of a split with the inputs added. ``uncut`` are the pairs before they were truncated."""
        return pairs

    def complete(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return a batch with the inputs added. The batch contains the ids of real words."""
        return batch

    def fill(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the batch for a process that has no pairs in this step. The gradients of this batch do not count."""
        return batch
