"""A model that reads and writes untokenised text.

It prepares the input text, runs the task's search, and converts the outputs back to text.

    import wean_fairseq

    model = wean_fairseq.load("model/")
    model.generate("What's the best way to learn Python?")

Several threads may use one model. Their calls wait for each other, because only one search can run at a time.
"""

import copy
import logging
import threading
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, overload

import torch
from fairseq.data.data_utils import batch_by_size
from fairseq.models import MODEL_REGISTRY
from fairseq.token_generation_constraints import pack_constraints
from fairseq.utils import move_to_cuda, resolve_max_positions
from torch import Tensor

from ..capabilities import capabilities_of
from ..checkpoints.dictionaries import padding_words
from ..checkpoints.loading import Loaded, chosen_search
from ..data.topics import SEPARATOR
from ..data.typed_text import are_known, check_forced
from ..errors import UserError
from ..storage.search import TASK_OPTIONS, kinds_of, options_line
from ..text import Text
from ..text.casing import CASE_MARK
from .arguments import OF_CALLS, check_names, check_numbers
from .ctranslate2_engine import CTranslate2Engine
from .outputs import Generated, describe_outputs

BATCH = 64  # number of sentences per batch, by default
_TOKENS = 8192  # maximum number of tokens in a batch, including padding A longer line forms a batch alone
_LISTS_OF_WORDS = "give a list of words or phrases, and for several sentences a list of such lists"


@contextmanager
def quiet() -> Iterator[None]:
    """Let fairseq and the tasks log only warnings, unless the user has set their log levels."""
    loggers = [logging.getLogger(name) for name in ("fairseq", "wean_fairseq")]
    unset = [logger for logger in loggers if logger.level == logging.NOTSET]
    for logger in unset:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger in unset:
            logger.setLevel(logging.NOTSET)


# one lock for all models, because all of them use the random number generator of the process
_SEARCHING = threading.Lock()


def _sentences(text: object) -> list[str]:
    # Iterating over a dictionary or a data frame would yield the names of its columns instead of texts.
    is_table = isinstance(text, Mapping) or hasattr(text, "columns")
    is_one = is_table or isinstance(text, str | bytes) or getattr(text, "ndim", 1) == 0
    sentences: list[Any] = list(text) if isinstance(text, Iterable) and not is_one else [text]
    for sentence in sentences:
        if not isinstance(sentence, str):
            raise UserError(f"the text is {sentence!r:.40}: give a string, or a list of strings.")
    return sentences


@contextmanager
def _seeded(seed: int | None) -> Iterator[None]:
    """Seed PyTorch's generators, and restore their states afterwards. With ``None``, nothing is changed."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


class SearchedBatch(NamedTuple):
    """Hypotheses for a batch of lines.

    Attributes:
        lines: indices of the lines, from 0.
        spelt: source tokens (B, S), in which unknown words have their spelling ids.
        hypotheses: hypotheses of each line, best first.
    """

    lines: list[int]
    spelt: Tensor
    hypotheses: list[list[dict[str, Any]]]


class TextModel:
    """A loaded model with its text steps and its search. ``wean_fairseq.load`` creates it.

    Args:
        loaded: the model on its device, its task and its search options by name. The search options are fairseq's
            generation options such as ``beam``. ``replace_unk`` says whether an ``<unk>`` is replaced by the source
            word with most attention (``None`` = unless the model copies).
        text: the steps that turn plain text into tokens and back.
        engine: an engine that replaces PyTorch's search, if any.

    Attributes:
        essay_length: default length in words of a planned essay. It is 0 for models that plan no length.

    Raises:
        UserError: if a search option is out of range, or contradicts the model or another option.
    """

    def __init__(self, loaded: Loaded, text: Text, engine: CTranslate2Engine | None = None) -> None:
        self.model, self.task, search, self._arch = loaded
        self.text = text
        self.engine = engine
        self.search_options = dict(search)
        known = {"n_best" if name == "nbest" else name: value for name, value in search.items() if value is not None}
        check_numbers(known)
        replace = self.search_options.pop("replace_unk", None)
        self.replaces_unknown = not self.copies if replace is None else replace is not False
        self.essay_length = int(getattr(self.task.cfg, "essay_length", 0))
        self._generator: tuple[dict[str, Any], Any] | None = None  # the generator that was used last, with its options
        self._build_generator(1, None, self.essay_length, {})  # building a generator checks the options

    def __repr__(self) -> str:
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        device = next(self.model.parameters()).device
        text = self.text.settings.describe()
        return f"TextModel({self.arch}, {parameters:,} parameters on {device}; {text}; {self.describe_search()})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a loaded model can be neither copied nor pickled: load it again with wean_fairseq.load")

    # --- properties of the model

    @property
    def arch(self) -> str:
        """The name of the model's arch, or of its family if the arch is not recorded."""
        kind = type(self.model)
        return self._arch or next((name for name, model in MODEL_REGISTRY.items() if model is kind), kind.__name__)

    @cached_property  # this and ``longest`` are read for every line, and the settings of a task are slow
    def reads_topics(self) -> bool:
        """Return True if the model's source consists of topic words."""
        return hasattr(self.task.cfg, "max_topics")

    @property
    def needs_length(self) -> bool:
        """Return True if the model plans an essay for a given length."""
        return capabilities_of(self.model).needs_length

    @property
    def beam(self) -> int:
        """The default beam size."""
        return int(self.search_options.get("beam", 5))

    @property
    def copies(self) -> bool:
        """Return True if the model can copy words."""
        return capabilities_of(self.model).copies

    @property
    def has_granularity(self) -> bool:
        """Return True if the model computes granularities of words."""
        return capabilities_of(self.model).granular_from > 0

    @cached_property
    def longest(self) -> int:
        """Maximum number of words or topics that the model reads."""
        maximum = resolve_max_positions(self.task.max_positions(), self.model.max_positions())
        maximum = int(maximum[0] if isinstance(maximum, tuple) else maximum) - 1  # without the end symbol
        return min(maximum, int(self.task.cfg.max_topics)) if self.reads_topics else maximum

    def describe_search(self, n_best: int = 1, beam: int | None = None, **generation: Any) -> str:
        """Return the beam and the other search options that differ from fairseq's defaults, as command-line options.

        Args:
            n_best: all arguments have the same meaning as in ``explain``.
        """
        given = {"n_best": n_best, **({} if beam is None else {"beam": beam}), **generation}
        check_numbers(given)
        options = self._search_options(n_best, beam, generation)
        task = {name: getattr(self.task.cfg, name, None) for name in TASK_OPTIONS if not kinds_of(Namespace(**options))}
        replace = {} if self.replaces_unknown != self.copies else {"replace_unk": self.replaces_unknown}
        chosen = {"beam": options["beam"], **chosen_search(options | replace, task)}
        return " ".join([*options_line(chosen), *["--constraints"] * bool(options.get("constraints"))])

    def _search_options(self, n_best: int, beam: int | None, generation: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a search in the form that fairseq reads."""
        options = {**self.search_options, **generation, "nbest": n_best}
        return options | {"beam": max(beam or (1 if options.get("sampling") else self.beam), n_best)}

    # --- use

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
        """Rewrite one or several sentences, or write essays from topics.

        Args:
            text: untokenised text, either a sentence or a list of sentences.
            n_best: number of outputs per sentence, which are sorted from best to worst. ``None`` = only the best
                output, as a string.
            options: ``beam``, ``essay_length``, ``batch_size``, ``seed`` and the generation options of ``explain``.

        Returns:
            The outputs for ``text``. For a list, there is one element per sentence, in the same order. The output of an
            empty line is empty.

        Raises:
            UserError: if the model cannot read the text.
        """
        results = self.explain(text, 1 if n_best is None else n_best, **{"details": False, **options})
        texts = [[output.text for output in item.outputs] for item in results]
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
        seed: int | None = None,
        constraints: Sequence[Any] | None = None,
        ordered: bool = False,
        **generation: Any,
    ) -> list[Generated]:
        """Rewrite like ``generate``, and return scores, tokens, attention, copies and granularities.

        Args:
            text: a sentence or a list of sentences.
            n_best: number of outputs per sentence.
            beam: beam size (default: the model's own), at least ``n_best``.
            essay_length: length in words for which the model plans the essay, if it ``needs_length`` (default: the
                model's own).
            batch_size: number of sentences per batch.
            details: whether to return copies and granularities.
            cut: truncate sentences that are too long instead of rejecting them.
            first: number of the first sentence, for messages.
            seed: random seed of ``sampling``. With ``None``, PyTorch's generator continues from its current state.
            constraints: words and phrases that an output must contain. Give a list for a single sentence, and a list of
                lists for a list of sentences. fairseq's constrained beam search replaces the search preset.
            ordered: whether the constraints must appear in the given order.
            generation: generation options of fairseq, which override the model's own: ``sampling``, ``sampling_topk``,
                ``sampling_topp``, ``temperature``, ``max_len_a``, ``max_len_b``, ``min_len``, ``lenpen``, ``unkpen``,
                ``no_repeat_ngram_size``, ``diverse_beam_groups`` and ``diverse_beam_strength``. Sampling draws
                ``n_best`` outputs if no ``beam`` is given. Sampling and diverse beams replace the search preset.

        Returns:
            One result per sentence.

        Raises:
            UserError: if the model cannot read the text.
        """
        optional = {"beam": beam, "essay_length": essay_length, "seed": seed}
        given = {name: number for name, number in optional.items() if number is not None}
        check_names(generation, OF_CALLS, "generate")
        check_numbers({"details": details, "cut": cut, "ordered": ordered})
        options = check_numbers({"n_best": n_best, "batch_size": batch_size, "first": first, **given, **generation})
        n_best, first, seed = options.pop("n_best"), options.pop("first"), options.pop("seed", None)
        if essay_length is not None and not self.needs_length:
            raise UserError("essay_length is for models that plan an essay by length: leave it out.")
        lines = _sentences(text)
        if constraints is not None and not isinstance(constraints, Sequence):
            raise UserError(f"the constraints are {constraints!r:.40}: {_LISTS_OF_WORDS}.")
        forced = None if constraints is None else [constraints] if isinstance(text, str) else constraints
        if forced is not None:
            if len(forced) != len(lines):
                raise UserError(
                    f"there are {len(lines)} sentences, and constraints for {len(forced)}: give one list each."
                )
            if kinds_of(Namespace(**{**self.search_options, **options})):
                raise UserError("constraints are for beam search, without sampling and diverse beams: leave these out.")
            options["constraints"] = "ordered" if ordered else "unordered"
        # Only one search runs at a time in the whole process, because sampling uses the random numbers of the process,
        # and the dictionaries store the unknown words of the sentences.
        with _SEARCHING, _seeded(seed):
            tokens = [self.text.prepare(line) for line in lines]
            places = ["" if isinstance(text, str) else f"line {n}: " for n in range(first, first + len(lines))]
            fitting = [self._fitting(line, place, cut) for line, place in zip(tokens, places, strict=True)]
            ids = None if forced is None else [*map(self._constraints, forced, tokens, places)]
            # Batches are sorted by length, so each result is stored at the index of its line. Empty lines are in no
            # batch, so their results stay empty.
            results = [Generated()] * len(lines)
            for batch in self.search(fitting, n_best, traces=details, forced=ids, **options):
                for line, spelt, hypotheses in zip(batch.lines, batch.spelt, batch.hypotheses, strict=True):
                    was_cut = fitting[line] != tokens[line]
                    results[line] = describe_outputs(self, spelt, hypotheses[:n_best], cut=was_cut)
            # If the words were not forgotten, a server's dictionaries would grow with every unknown word.
            for dictionary in (self.task.source_dictionary, self.task.target_dictionary):
                dictionary.forget_spellings()
        return results

    def _fitting(self, tokens: str, where: str, cut: bool) -> str:
        """Return the tokens. With ``cut``, shorten them to the model's maximum length.

        Refuse a line that contains an essay after its topics.
        """
        words = tokens.split(" ")
        if self.reads_topics and SEPARATOR in words:
            raise UserError(f"{where}{SEPARATOR} separates an essay from its topics: give only the topics.")
        limits = getattr(self.task, "limits", None)
        if len(words) <= self.longest or (limits is not None and limits.truncates and limits.length <= self.longest):
            return tokens
        if cut:
            return " ".join(words[: self.longest])
        kind = "topics" if self.reads_topics else "words"
        raise UserError(
            f"{where}the text has {len(words)} {kind}, and the model reads at most {self.longest}: shorten it."
        )

    def _constraints(self, phrases: Sequence[str], sentence: str, where: str) -> list[Tensor]:
        """Return the ids of the tokens of each phrase.

        Raise ``UserError`` if the sentence is empty, a word is not in the dictionary, or there are too many words.
        """
        if (
            isinstance(phrases, str)
            or not isinstance(phrases, Sequence)
            or not all(isinstance(phrase, str) for phrase in phrases)
        ):
            raise UserError(f"{where}the constraints are {phrases!r:.40}: {_LISTS_OF_WORDS}.")
        if phrases and not sentence:
            raise UserError(f"{where}there are constraints, but the sentence has no words: give it some.")
        dictionary, found = self.task.target_dictionary, []
        padding = set(padding_words(dictionary))
        for phrase in phrases:
            tokens = self.text.tokens(self.text.clean(phrase)).removeprefix(f"{CASE_MARK} ")
            ids = dictionary.encode_line(tokens, append_eos=False, add_if_not_exist=False).long()
            if not tokens or not all(are_known(ids, dictionary)) or not padding.isdisjoint(tokens.split()):
                raise UserError(
                    f"{where}the constraint {phrase!r:.60} has no word, or one that is not in the dictionary of the "
                    "model: choose other words."
                )
            found.append(ids)
        check_forced(sum(map(len, found)), where)
        return found

    @torch.no_grad()
    def search(
        self,
        lines: Sequence[str],
        n_best: int = 1,
        *,
        beam: int | None = None,
        essay_length: int | None = None,
        batch_size: int = BATCH,
        traces: bool = True,
        forced: Sequence[list[Tensor]] | None = None,
        **generation: Any,
    ) -> Iterator[SearchedBatch]:
        """Run the task's search on batches of lines with similar lengths.

        Args:
            lines: one text per line, as tokens separated by spaces. Empty lines are skipped.
            n_best: it and the arguments without description have the same meaning as in ``explain``.
            traces: add a ``trace`` to each hypothesis, if the model supports traces.
            forced: the token ids of the constraints of each line.

        Raises:
            UserError: if the task rejects a line.
        """
        task = self.task
        words = (essay_length or self.essay_length) if self.needs_length else 0
        if self.needs_length:
            task.cfg.essay_length = words
        generator = self._build_generator(n_best, beam, words, generation)
        generator.traces = traces
        # Empty lines are skipped, so line numbers in the data set differ from indices in ``lines``. They are translated
        # back below.
        numbers = [number for number, line in enumerate(lines) if line]
        dictionary = task.source_dictionary
        tokens = [dictionary.encode_line(lines[number], add_if_not_exist=False).long() for number in numbers]
        if not tokens:
            return
        reader = copy.copy(task)  # the task counts lines over several texts, so each text gets a new copy of the task
        lengths = [len(line) for line in tokens]
        packed = None if forced is None else pack_constraints([forced[number] for number in numbers])
        dataset = reader.build_dataset_for_inference(tokens, lengths, constraints=packed)
        device = next(self.model.parameters()).device
        # Lines of similar length need little padding. The longest lines come first, so that a lack of memory is noticed
        # early.
        longest_first = sorted(range(len(tokens)), key=lambda member: -lengths[member])
        fitting = [min(length, _TOKENS) for length in lengths]  # a line that is longer than the limit has its own batch
        for members in batch_by_size(longest_first, fitting.__getitem__, max_tokens=_TOKENS, max_sentences=batch_size):
            sample = dataset.collater([dataset[member] for member in members])
            if device.type == "cuda":
                sample = move_to_cuda(sample, device)
            hypotheses = task.inference_step(generator, [self.model], sample, constraints=sample.get("constraints"))
            batch_lines = [numbers[member] for member in sample["id"].tolist()]
            yield SearchedBatch(batch_lines, sample["net_input"]["src_tokens"], hypotheses)

    def _build_generator(self, n_best: int, beam: int | None, length: int, generation: Mapping[str, Any]) -> Any:
        options = self._search_options(n_best, beam, generation)
        # lenpen is the power of a length, which may need more than 64 bits as an integer
        options["lenpen"] = float(options.get("lenpen", 1))
        options.setdefault("max_len_b", 200)
        if length:
            options["max_len_b"] = max(options["max_len_b"], length)
        if self._generator is None or self._generator[0] != options:
            task = copy.copy(self.task)
            if kinds_of(Namespace(**options)):
                task.cfg = copy.copy(task.cfg)
                task.cfg.search_preset = "fairseq"
            with quiet():
                # building a generator checks the options
                generator = task.build_generator([self.model], Namespace(**options))
            if self.engine is not None:
                generator = self.engine.build_generator(options)
            self._generator = options, generator
        return self._generator[1]
