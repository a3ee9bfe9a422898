"""A model that is ready to write: running text in, running text out, by the search of its own task.

    import wean_fairseq

    model = wean_fairseq.load("model/")
    model.generate("What's the best way to learn Python?")

Threads: a model may be used by several; they wait for one another, as one search runs at a time.
"""

import copy
import logging
import threading
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any, NamedTuple, overload

import torch
from fairseq.data.data_utils import batch_by_size
from fairseq.utils import move_to_cuda, resolve_max_positions
from torch import Tensor

from ..data import SEPARATOR
from ..errors import UserError
from ..options import check_generation
from ..text import Text
from .outputs import Generated, describe

BATCH = 64  # sentences
_TOKENS = 8192  # of a batch, padding included, unless a line alone has more


@contextmanager
def quiet() -> Iterator[None]:
    """Let fairseq and the tasks log warnings alone, unless somebody has said what they are to log."""
    loggers = [logging.getLogger(name) for name in ("fairseq", "wean_fairseq")]
    unset = [logger for logger in loggers if logger.level == logging.NOTSET]
    for logger in unset:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger in unset:
            logger.setLevel(logging.NOTSET)


def _sentences(text: object) -> list[str]:
    sentences: list[Any] = list(text) if isinstance(text, Iterable) and not isinstance(text, str | bytes) else [text]
    for sentence in sentences:
        if not isinstance(sentence, str):
            raise UserError(f"the text is {sentence!r:.40}: give a string, or a list of strings.")
    return sentences


class Found(NamedTuple):
    """Outputs found for a batch of lines.

    Attributes:
        lines: which ones, from 0.
        sample: the batch as the model reads it.
        spelt: its source tokens as they are spelt, (B, S).
        hypotheses: of each line, best first.
    """

    lines: list[int]
    sample: dict[str, Any]
    spelt: Tensor
    hypotheses: list[list[dict[str, Any]]]


class TextModel:
    """A loaded model, its text steps and its search; made by ``wean_fairseq.load``.

    Args:
        model: in evaluation mode, where it is to run.
        task: of the model.
        text: how running text becomes its tokens, and back.
        search: generation options of fairseq by name, such as ``beam``, and ``replace_unk``: whether the source word
            with most attention stands for an ``<unk>`` (``None``: unless the model copies).

    Attributes:
        essay_length: words that it plans an essay for if none are given; 0 if it has no such length.
    """

    def __init__(self, model: Any, task: Any, text: Text, search: Mapping[str, Any]) -> None:
        self.model = model
        self.task = task
        self.text = text
        self.search_options = dict(search)
        check_generation(Namespace(**search), len(task.target_dictionary))
        replace = self.search_options.pop("replace_unk", None)
        self.replaces_unknown = not self.copies if replace is None else replace is not False
        self.essay_length = int(getattr(task.cfg, "essay_length", 0))
        self._generator: tuple[dict[str, Any], Any] | None = None  # the last one, and its options
        self._lock = threading.Lock()

    # --- about the model

    @property
    def arch(self) -> str:
        """The name of the model's family."""
        from fairseq.models import MODEL_REGISTRY

        kind = type(self.model)
        return next((name for name, model in MODEL_REGISTRY.items() if model is kind), kind.__name__)

    @property
    def reads_topics(self) -> bool:
        """Whether its source is topic words."""
        return hasattr(self.task.cfg, "max_topics")

    @property
    def needs_length(self) -> bool:
        """Whether it plans its essay by length."""
        return bool(getattr(self.model, "needs_essay_length", False))

    @property
    def beam(self) -> int:
        """The width of its own search."""
        return int(self.search_options.get("beam", 5))

    @property
    def copies(self) -> bool:
        """Whether it can copy words."""
        return bool(getattr(self.model, "copies_words", False) and getattr(self.model.decoder, "copies", False))

    @property
    def has_granularity(self) -> bool:
        """Whether its words have granularities."""
        return bool(getattr(self.model, "has_granularity", False))

    @property
    def longest(self) -> int:
        """Words or topics that it reads at most."""
        most = resolve_max_positions(self.task.max_positions(), self.model.max_positions())
        most = int(most[0] if isinstance(most, tuple) else most) - 1  # the end symbol
        return min(most, int(self.task.cfg.max_topics)) if self.reads_topics else most

    # --- using it

    @overload
    def generate(self, text: str, n_best: None = None, **options: Any) -> str: ...
    @overload
    def generate(self, text: str, n_best: int, **options: Any) -> list[str]: ...
    @overload
    def generate(self, text: Sequence[str], n_best: None = None, **options: Any) -> list[str]: ...
    @overload
    def generate(self, text: Sequence[str], n_best: int, **options: Any) -> list[list[str]]: ...
    def generate(
        self, text: str | Sequence[str], n_best: int | None = None, **options: Any
    ) -> str | list[str] | list[list[str]]:
        """Rewrite a sentence, or several; topics become an essay.

        Args:
            text: running text, a sentence or a list of them.
            n_best: how many outputs of each, best first; ``None`` = the best one, as a string.
            options: ``beam``, ``essay_length`` and ``batch_size`` of ``explain``.

        Returns:
            What is asked for of ``text``, or for each of a list in its order. An empty line has an empty output.

        Raises:
            UserError: if the text is not what the model reads.
        """
        found = self.explain(text, 1 if n_best is None else n_best, details=False, **options)
        texts = [[output.text for output in item.outputs] for item in found]
        if n_best is None:
            best = [item[0] if item else "" for item in texts]
            return best[0] if isinstance(text, str) else best
        return texts[0] if isinstance(text, str) else texts

    def explain(
        self,
        text: str | Sequence[str],
        n_best: int = 1,
        *,
        beam: int | None = None,
        essay_length: int | None = None,
        batch_size: int = BATCH,
        details: bool = True,
        cut: bool = False,
        first: int = 1,
    ) -> list[Generated]:
        """As ``generate``, with scores, tokens, attention, copies and granularities.

        Args:
            text: a sentence or a list of them.
            n_best: how many outputs of each.
            beam: width of the search (default: the model's own), at least ``n_best``.
            essay_length: words to plan for, for models with ``needs_length`` (default: the model's own).
            batch_size: sentences that are searched for together.
            details: add what takes another pass through the model: copies and granularities.
            cut: cut what is longer than the model reads, in place of refusing it.
            first: number of the first sentence, for what is said about one.

        Returns:
            One for each sentence.

        Raises:
            UserError: if the text is not what the model reads.
        """
        numbers: list[Any] = [n_best, batch_size, *(number for number in (beam, essay_length) if number is not None)]
        if not all(isinstance(number, Integral) and int(number) >= 1 for number in numbers):
            raise UserError("n_best, beam, essay_length and batch_size must be whole numbers of 1 or more.")
        lines = _sentences(text)
        with self._lock:
            tokens = [self.text.prepare(line) for line in lines]
            whole = [
                self._fitting(line, "" if isinstance(text, str) else f"line {n}: ", cut)
                for n, line in enumerate(tokens, first)
            ]
            results = [Generated()] * len(lines)
            for found in self.search(whole, n_best, beam=beam, essay_length=essay_length, batch_size=batch_size):
                for line, spelt, hypotheses in zip(found.lines, found.spelt, found.hypotheses, strict=True):
                    was_cut = whole[line] != tokens[line]
                    results[line] = describe(self, spelt, hypotheses[:n_best], details=details, cut=was_cut)
            for dictionary in (self.task.source_dictionary, self.task.target_dictionary):
                dictionary.forget_spellings()
        return results

    def _fitting(self, tokens: str, where: str, cut: bool) -> str:
        """Tokens that are not more than the model reads, and no essay beside topics."""
        words = tokens.split(" ")
        if self.reads_topics and SEPARATOR in words:
            raise UserError(f"{where}{SEPARATOR} parts an essay from its topics: give the topics alone.")
        limits = getattr(self.task, "limits", None)
        if len(words) <= self.longest or (limits is not None and limits.truncates and limits.length <= self.longest):
            return tokens
        if cut:
            return " ".join(words[: self.longest])
        kind = "topics" if self.reads_topics else "words"
        raise UserError(
            f"{where}the text has {len(words)} {kind}, and the model reads at most {self.longest}: shorten it."
        )

    @torch.no_grad()
    def search(
        self,
        lines: Sequence[str],
        n_best: int = 1,
        *,
        beam: int | None = None,
        essay_length: int | None = None,
        batch_size: int = BATCH,
    ) -> Iterator[Found]:
        """Search as the task does, in batches of lines of similar length.

        Args:
            lines: tokens between spaces; those that are empty are left out.
            n_best: as in ``explain``, and all that follows.

        Raises:
            UserError: if a line is not what the task takes.
        """
        task = self.task
        words = (essay_length or self.essay_length) if self.needs_length else 0
        if self.needs_length:
            task.cfg.essay_length = words
        generator = self._build_generator(n_best, beam, words)
        numbers = [number for number, line in enumerate(lines) if line]
        dictionary = task.source_dictionary
        tokens = [dictionary.encode_line(lines[number], add_if_not_exist=False).long() for number in numbers]
        if not tokens:
            return
        reader = copy.copy(task)  # the task itself would go on counting lines from one text to the next
        lengths = [len(line) for line in tokens]
        dataset = reader.build_dataset_for_inference(tokens, lengths)
        device = next(self.model.parameters()).device
        longest_first = sorted(range(len(tokens)), key=lambda member: -lengths[member])
        fitting = [min(length, _TOKENS) for length in lengths]  # a longer line is a batch by itself
        for members in batch_by_size(longest_first, fitting.__getitem__, max_tokens=_TOKENS, max_sentences=batch_size):
            sample = dataset.collater([dataset[member] for member in members])
            if device.type == "cuda":
                sample = move_to_cuda(sample, device)
            recorder = _Recorder(generator)
            hypotheses = task.inference_step(recorder, [self.model], sample)
            found = [numbers[member] for member in sample["id"].tolist()]
            yield Found(found, recorder.sample, sample["net_input"]["src_tokens"], hypotheses)

    def _build_generator(self, n_best: int, beam: int | None, length: int) -> Any:
        options = dict(self.search_options)
        options["beam"] = max(beam or self.beam, n_best)
        options["nbest"] = n_best
        options["max_len_b"] = max(options.get("max_len_b", 200), length)
        if self._generator is None or self._generator[0] != options:
            with quiet():
                self._generator = options, self.task.build_generator([self.model], Namespace(**options))
        return self._generator[1]


class _Recorder:
    """A generator that keeps the batch as the task hands it to the models: slots and topic features are in it."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator
        self.sample: dict[str, Any] = {}

    def generate(self, models: Sequence[Any], sample: dict[str, Any], **kwargs: Any) -> Any:
        self.sample = sample
        return self.generator.generate(models, sample, **kwargs)
