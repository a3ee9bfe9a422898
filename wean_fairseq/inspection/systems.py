"""Checkpoints that the page can use: loaded once, with this plugin's safe loader."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wean_fairseq.errors import UserError
from wean_fairseq.inspection.neighbourhood import Neighbourhoods, neighbourhoods
from wean_fairseq.reporting.trace import Loaded, load

#: What turns typed text into what a model reads.
Prepare = Callable[[str], str]


@dataclass(frozen=True)
class System:
    """A checkpoint, ready to decode, and its name on the page."""

    name: str
    loaded: Loaded
    prepare: Prepare
    near: Neighbourhoods

    @property
    def arch(self) -> str:
        """The name of the model's family."""
        from fairseq.models import MODEL_REGISTRY

        kind = type(self.loaded.model)
        return next((name for name, model in MODEL_REGISTRY.items() if model is kind), kind.__name__)

    @property
    def reads_topics(self) -> bool:
        """Whether its source is topic words."""
        return hasattr(self.loaded.task.cfg, "max_topics")

    @property
    def needs_length(self) -> bool:
        """Whether it plans its essay by length."""
        return bool(getattr(self.loaded.model, "needs_essay_length", False))

    @property
    def copies(self) -> bool:
        """Whether it can copy words."""
        model = self.loaded.model
        return bool(getattr(model, "copies_words", False) and getattr(model.decoder, "copies", False))

    @property
    def has_granularity(self) -> bool:
        """Whether its words have granularities."""
        return bool(getattr(self.loaded.model, "has_granularity", False))

    def describe(self) -> dict[str, Any]:
        """What the page has to know."""
        return {
            "name": self.name,
            "arch": self.arch,
            "topics": self.reads_topics,
            "needs_length": self.needs_length,
            "copies": self.copies,
            "granularity": self.has_granularity,
        }


def load_system(name: str, checkpoint: str, data: str, prepare: Prepare, **options: Any) -> System:
    """Load a checkpoint.

    Args:
        name: what the page calls it.
        checkpoint: its file.
        data: directory with the dictionaries of that training.
        prepare: what turns typed text into what it reads.
        options: of the task, in place of those it was trained with.

    Raises:
        UserError: if it cannot be loaded.
    """
    loaded = load(checkpoint, data, **options)
    task = loaded.task
    return System(name, loaded, prepare, neighbourhoods(loaded.model, task.source_dictionary, task.target_dictionary))


def preparation(lowercase: bool, moses: bool, bpe_codes: str | None) -> Prepare:
    """What turns typed text into what a model reads, by the tokenisers that fairseq-interactive uses.

    Args:
        lowercase: lower-case it.
        moses: cut it into English Moses tokens, as preprocess/ does with ``--unit moses``.
        bpe_codes: file of codes by which subword-nmt splits words.

    Raises:
        UserError: if the file is missing.
    """
    from fairseq.data import encoders

    steps: list[Prepare] = [str.lower] if lowercase else []
    if moses:
        options = Namespace(tokenizer="moses", moses_no_dash_splits=True, moses_no_escape=True)
        steps.append(encoders.build_tokenizer(options).encode)
    if bpe_codes is not None:
        if not Path(bpe_codes).is_file():
            raise UserError(f"there is no file {bpe_codes}: give the bpe.codes of the training's text.")
        steps.append(encoders.build_bpe(Namespace(bpe="subword_nmt", bpe_codes=bpe_codes)).encode)

    def prepare(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return prepare
