"""Common parts of all model families: a model with a loss, its encoder, and a decoder that runs step by step.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``M`` words, ``D`` width of the
features, ``E`` width of the embeddings, ``V`` dictionary size.
"""

from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import torch
from fairseq.data import Dictionary
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    register_model,
    register_model_architecture,
)
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..capabilities import Capabilities
from ..data.extended_vocabulary import num_base_words
from ..errors import UserError, user_errors
from ..fields import check_values
from ..modules import LossSums, Memory, OutputLayer, State, Step, base_ids

IncrementalState = dict[str, dict[str, Any]]
RENAMED = {"query_embedding.": "output."}  # name prefix in checkpoints of earlier versions -> current prefix


class LossModel(FairseqEncoderDecoderModel):
    """An encoder, and a decoder with ``loss(prev_output_tokens, encoder_out, target, label_smoothing)``."""

    family: str  # name of the family, set by register_family
    options: type  # config class of the family, set by register_family
    capabilities = Capabilities()
    decoder: "StepDecoder[Any, Any]"

    @classmethod
    def build_model(cls, cfg: Any, task: FairseqTask) -> Any:
        """Build the model that ``cfg`` describes for the dictionaries of ``task``.

        Raises:
            UserError: if the options contradict each other, or do not match the dictionaries or the task.
        """
        cls._check_task(task)
        check_values(cls.options, cfg)
        with user_errors():
            return cls.build(cfg, task)

    @classmethod
    def _check_task(cls, task: FairseqTask) -> None:
        """Reject tasks without dictionaries, unequal dictionaries for shared words, and left-padded targets."""
        source, target = task.source_dictionary, task.target_dictionary
        if source is None or target is None:
            raise UserError(f"{cls.family} needs a task with dictionaries, such as --task paraphrase.")
        if cls.capabilities.shares_words and source != target:
            raise UserError(
                f"{cls.family} shares its words between source and target, but the data has two dictionaries "
                f"({len(source)} and {len(target)} entries): run fairseq-preprocess again with --joined-dictionary."
            )
        if getattr(task.cfg, "left_pad_target", False):
            raise UserError(f"{cls.family} reads the target from the left: do not use --left-pad-target.")

    @classmethod
    def build(cls, cfg: Any, task: FairseqTask) -> Any:
        """Build the model, without the checks of ``build_model``.

        A ``ValueError`` in this method becomes a ``UserError``.
        """
        raise NotImplementedError

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        target: Tensor | None = None,
        label_smoothing: float = 0.0,
        **task_inputs: Any,
    ) -> tuple[Tensor, dict[str, Any]] | LossSums:
        """Score every possible next word at each position.

        With ``target``, compute only the loss, for which some of the scores are sufficient.

        Args:
            src_tokens: (B, S).
            src_lengths: (B,).
            prev_output_tokens: (B, T).
            target: (B, T).
            label_smoothing: only used with ``target``.
            task_inputs: further inputs for the encoder.

        Returns:
            The outputs of ``StepDecoder.forward``. With ``target``, the summed losses.
        """
        encoder_out = self.encoder(src_tokens, src_lengths, **task_inputs)
        result: tuple[Tensor, dict[str, Any]] | LossSums
        if target is None:
            result = self.decoder(prev_output_tokens, encoder_out)
        else:
            result = self.decoder.loss(prev_output_tokens, encoder_out, target, label_smoothing)
        return result

    def get_targets(self, sample: dict[str, Any], net_output: Any) -> Tensor:
        """Return the targets (B, T) for fairseq's own criterions. Words that the decoder cannot write are replaced."""
        return self.decoder.known_targets(sample["target"])


ModelT = TypeVar("ModelT", bound=type[LossModel])


def register_family(name: str, config: type, presets: Mapping[str, Any] | None = None) -> Callable[[ModelT], ModelT]:
    """Register a model under ``name``, which is also the name of an arch, and register its further archs.

    ``presets`` maps the name of each further arch to those option defaults that differ. The command line overrides
    them.
    """

    def register(model: ModelT) -> ModelT:
        register_model(name, dataclass=config)(model)
        model.family, model.options = name, config
        for arch, values in (presets or {}).items():
            register_model_architecture(name, arch)(partial(set_defaults, values))
        return model

    return register


def set_defaults(values: Mapping[str, Any], args: Namespace) -> None:
    """Set the options that were not given on the command line."""
    for key, value in values.items():
        setattr(args, key, getattr(args, key, value))


class SourceEncoder(FairseqEncoder):
    """An encoder whose outputs have one row per sentence.

    In an output whose name starts with ``final_``, the first dimension is the layer and the second is the row. A
    family's ``forward`` reads ``src_tokens`` (B, S), which may contain slots and be padded on either side, and the
    inputs that it needs from the task. ``src_lengths`` is ignored, because the padding determines the lengths.
    ``forward`` returns tensors by name. A mask is ``True`` at padding.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__(dictionary)
        self.padding_idx, self.eos_idx, self.unk_idx = dictionary.pad(), dictionary.eos(), dictionary.unk()
        self.num_base = num_base_words(dictionary)

    def known_words(self, tokens: Tensor) -> Tensor:
        """Return word ids of any shape for the embedding lookup. Slots in the dictionary become ``<unk>``."""
        has_slots = self.num_base < len(self.dictionary)
        return base_ids(tokens, self.num_base, self.unk_idx) if has_slots else tokens

    def reorder_encoder_out(self, encoder_out: dict[str, Tensor], new_order: Tensor) -> dict[str, Tensor]:
        """Select the sentences ``new_order`` (B',) of the batch, for fairseq's beam search.

        fairseq calls this method after every step. Usually, only hypotheses of the same sentence change places, and
        their rows are equal. In that case the input is returned without a copy.
        """
        previous = encoder_out.get("sentence")  # the sentence to which each row belongs
        sentence = new_order if previous is None else previous.index_select(0, new_order)
        if previous is not None and torch.equal(previous, sentence):
            return encoder_out
        picked = {
            name: tensor.index_select(1 if name.startswith("final_") else 0, new_order)
            for name, tensor in encoder_out.items()
        }
        return picked | {"sentence": sentence}


class WordScores(Protocol):
    """The methods of the search's word scores (search/vocabulary_scores.py) that model families use."""

    def fits(self, num_words: int, max_rows: int, factors: str) -> bool:
        """Return True if a search with these arguments can reuse this object while the weights stay the same."""

    def compute(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Score all words from the features (N, D). Return the log of the summed exponentials of the scores, (N,)."""

    def get(self, words: Tensor) -> Tensor:
        """Return the scores of the words (N, M) in float32, shape (N, M)."""

    def put(self, words: Tensor, scores: Tensor) -> None:
        """Replace the scores of ``words`` (N, M) by ``scores`` (N, M).

        If a row contains a word twice, its scores must be equal.
        """

    def best(
        self, normaliser: Tensor, sums: Tensor | None, sentences: int, count: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best M continuations of each sentence: their summed scores, words and hypotheses, each (B, M)."""

    def mix(self, weight: Tensor, other: Self, other_weight: Tensor) -> None:
        """Replace each score by log(exp(score + weight) + exp(score of ``other`` + other_weight)).

        Weights have shape (N,).
        """


BuildScores = Callable[[OutputLayer, Tensor], WordScores]  # creates scores from an output layer and embeddings (V, E)
MemoryT = TypeVar("MemoryT", bound=Memory)
StateT = TypeVar("StateT", bound=State)


class StepDecoder(FairseqIncrementalDecoder, Generic[MemoryT, StateT]):
    """A decoder that is defined by a step function, which reads a memory of the source and a state.

    Training, fairseq's loop and the fast search run the same steps. A family sets ``output`` and ``embed_tokens`` (V,
    E), and defines ``remember``, ``begin`` and ``step``. All knowledge about fairseq's decoder interface is in this
    class. See docs/architecture.md.
    """

    # names of tensors that can be displayed, from the ``extra`` of steps or from the encoder
    traced: ClassVar[tuple[str, ...]] = ()
    output: OutputLayer
    embed_tokens: nn.Embedding

    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__(dictionary)
        self.padding_idx = dictionary.pad()

    def remember(self, encoder_out: dict[str, Tensor]) -> MemoryT:
        """Turn the encoder's output into the memory for all steps."""
        raise NotImplementedError

    def begin(self, memory: MemoryT) -> StateT:
        """Return the state before the first step, with one row per sentence."""
        raise NotImplementedError(f"{type(self).__name__} must define begin.")

    def step(self, words: Tensor, memory: MemoryT, state: StateT) -> tuple[Step, StateT]:
        """Run one or more steps.

        Args:
            words: the word before each step, (N, T). T is 1, unless the words begin with the first word of the
                sentence.
            memory: memory of B sentences. In ``words``, the hypotheses of a sentence are next to each other, so N is a
                multiple of B.
            state: the state after the previous step.

        Returns:
            The results of the steps, and the state after the last step.
        """
        raise NotImplementedError

    def steps(self, words: Tensor, memory: MemoryT) -> Step:
        """Run the decoder from its initial state over the words (B, T), as in training, and return all steps."""
        return self.step(words, memory, self.begin(memory))[0]

    @property
    def word_embeddings(self) -> Tensor:
        """The embeddings (V, E) from which the output layer may compute word scores."""
        return self.embed_tokens.weight

    def scores(self, step: Step, memory: MemoryT) -> Tensor:
        """Return the scores of all words at every step, (N, T, V)."""
        return self.output.scores(step.features, self.word_embeddings)

    def search_scores(self, build: BuildScores) -> WordScores:
        """Create an object that computes the scores of all words from a step's features, for the fast search."""
        return build(self.output, self.word_embeddings)

    def finish(self, step: Step, memory: MemoryT, scores: WordScores, log_sum: Tensor) -> Tensor:
        """Adjust the word scores of one step by terms that do not depend on the features alone, such as copying.

        Args:
            step: the ``Step`` of one word, (N, 1, ...).
            memory: see ``step``.
            scores: scores of all words, computed from the features.
            log_sum: log of the summed exponentials of the scores, (N,).

        Returns:
            The values (N,) that must be subtracted from the scores to get log-probabilities.
        """
        return log_sum

    def trace(self, step: Step, memory: MemoryT, scores: WordScores, log_sum: Tensor) -> dict[str, Tensor]:
        """Return the tensors of one step that are displayed, by name. Each has the shape (N, ...).

        The method is called before ``finish``, with the same arguments.
        """
        return {name: step.extra[name][:, 0] for name in self.traced if name in step.extra}

    def step_loss(self, step: Step, memory: MemoryT, target: Tensor, label_smoothing: float) -> LossSums:
        """Return the summed losses of steps against ``target`` (B, T), without computing all scores.

        A family with auxiliary losses adds them here.
        """
        return self.output.loss(step.features, self.word_embeddings, target, self.padding_idx, label_smoothing)

    def known_targets(self, target: Tensor) -> Tensor:
        """Return targets in which all words that this decoder cannot write are replaced by ``<unk>``."""
        return self.output.known_targets(target)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Tensor],
        incremental_state: IncrementalState | None = None,
        **_unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return the scores of the next word after every step.

        Args:
            prev_output_tokens: previous words, (B, T). With ``incremental_state`` only the last step is computed.
            encoder_out: outputs of the encoder.
            incremental_state: state that fairseq's search keeps between steps.

        Returns:
            ``scores``, and ``{"attn": [weights (B, T, S) or None], "features": (B, T, D), **extra}``.
        """
        step, memory = self._run(prev_output_tokens, encoder_out, incremental_state)
        return self.scores(step, memory), {"attn": [step.attention], "features": step.features, **step.extra}

    def loss(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], target: Tensor, label_smoothing: float
    ) -> LossSums:
        """Return the summed losses against ``target`` (B, T)."""
        memory = self.remember(encoder_out)
        return self.step_loss(self.steps(prev_output_tokens, memory), memory, target, label_smoothing)

    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> None:
        """In the state that fairseq's search keeps, select the hypotheses ``new_order`` (B',)."""
        saved = self.get_incremental_state(incremental_state, "step")
        if saved is not None:
            saved["state"] = saved["state"].select(new_order, new_order)

    def max_positions(self) -> int:
        """Return a very large number.

        The task limits the length instead. fairseq's default is a float, which a search cannot use as a step count.
        """
        return int(1e5)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> dict[str, Tensor]:
        """Rename the parameters of old checkpoints (see ``RENAMED``)."""
        for key in list(state_dict):
            for old, new in RENAMED.items():
                if key.startswith(f"{name}.{old}"):
                    state_dict[f"{name}.{new}{key.removeprefix(f'{name}.{old}')}"] = state_dict.pop(key)
        return state_dict

    def _run(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Tensor], incremental_state: IncrementalState | None
    ) -> tuple[Step, MemoryT]:
        """Run all steps, or only the last step from the saved state. Return the steps and the memory.

        In the search, fairseq's ``encoder_out`` has one row per hypothesis. The memory is recomputed when
        ``encoder_out`` is a new object.
        """
        if incremental_state is None:
            memory = self.remember(encoder_out)
            return self.steps(prev_output_tokens, memory), memory
        saved = self.get_incremental_state(incremental_state, "step") or {}
        memory = saved["memory"] if saved.get("encoder_out") is encoder_out else self.remember(encoder_out)
        state = saved["state"] if saved else self.begin(memory)
        step, state = self.step(prev_output_tokens[:, -1:], memory, state)
        new_state = {"encoder_out": encoder_out, "memory": memory, "state": state}
        self.set_incremental_state(incremental_state, "step", new_state)
        return step, memory


def add_auxiliary(sums: LossSums, name: str, auxiliary: Tensor, weight: float) -> LossSums:
    """Add ``weight`` times an auxiliary loss, and log it under ``name``."""
    return LossSums(sums.loss + weight * auxiliary, sums.nll_loss, sums.logged | {name: auxiliary.detach()})


@torch.no_grad()
def init_uniform_(model: nn.Module, bound: float) -> None:
    """Initialise all weights uniformly in [-bound, bound], and padding with 0. A bound of 0 changes nothing."""
    if bound:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -bound, bound)
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight[module.padding_idx].zero_()
