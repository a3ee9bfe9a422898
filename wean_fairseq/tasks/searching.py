"""The guarded translation task with the searches of the papers, and a faster search for models that support it."""

import logging
import sys
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import FairseqLanguageModel
from fairseq.search import DiverseBeamSearch

from ..capabilities import FAIRSEQ_MODELS, capabilities_of
from ..checkpoints.dictionaries import padding_words
from ..errors import UserError
from ..fields import option
from ..search.fast_generator import FastSequenceGenerator
from ..search.generator import PaperSequenceGenerator
from ..search.vocabulary_scores import BF16, EXACT, INT8
from ..storage.search import SEARCH_PRESETS, check_generation, kinds_of
from .guarded import GuardedConfig, GuardedTask

logger = logging.getLogger(__name__)


@dataclass
class SearchingConfig(GuardedConfig):
    """Options of the guarded task and of the search."""

    search_preset: ChoiceEnum(SEARCH_PRESETS) = option(  # type: ignore[valid-type]
        "fairseq",
        "wean: scores are plain sums of log-probabilities (without length penalty) and a sentence is done "
        "when its best hypothesis and --nbest hypotheses are finished; copynet: <unk> is never written, its "
        "probability is distributed over the other words, and a sentence continues until no unfinished hypothesis "
        "can become one of the --nbest; cdnpg-sampling: the candidates of a beam are sampled by their scores from the "
        "50 best continuations of each hypothesis; fairseq: search with fairseq's generation options",
    )
    stock_search: bool = option(
        False, "search with fairseq's own loop instead of the faster one; the outputs are the same"
    )
    bf16_scores: bool = option(
        False,
        "score words in bfloat16 in generation: not exact, but much faster on hardware with bfloat16 instructions; "
        "not for --query-score concat",
    )
    int8_scores: bool = option(
        False,
        "compute word scores and the model's large linear maps with 8-bit integers in generation on a CPU: not "
        "exact, but faster than --bf16-scores; not for --query-score concat",
    )


class SearchingTask(GuardedTask):
    """A guarded task whose search is selected by ``--search-preset``."""

    cfg: SearchingConfig

    def build_generator(
        self,
        models: list[torch.nn.Module],
        args: GenerationConfig | Namespace,
        seq_gen_cls: type | None = None,
        extra_gen_cls_kwargs: dict[str, Any] | None = None,
        prefix_allowed_tokens_fn: Any = None,
    ) -> Any:
        """Build the generator for ``--search-preset``, which is the faster generator if possible.

        The generator supports ``--replace-unk``.

        Raises:
            UserError: if a generation option is out of range, or if the options contradict the preset, the rounding of
                scores or the model.
        """
        extra = {"tokens_to_suppress": padding_words(self.target_dictionary), **(extra_gen_cls_kwargs or {})}
        preset = str(self.cfg.search_preset)
        if self.cfg.bf16_scores and self.cfg.int8_scores:
            raise UserError("--bf16-scores and --int8-scores round the same scores in different ways: choose one.")
        factors = BF16 if self.cfg.bf16_scores else INT8 if self.cfg.int8_scores else EXACT
        replaces_unk = getattr(args, "replace_unk", None) is not None
        if replaces_unk and getattr(args, "print_alignment", None):
            raise UserError("--replace-unk and --print-alignment use the attention in different ways: choose one.")
        if prefix_allowed_tokens_fn is not None and (preset != "fairseq" or kinds_of(args)):
            raise UserError("prefix_allowed_tokens_fn is for fairseq's beam search: remove the contradicting option.")
        _check_models(models, args, extra.get("lm_model"))
        # The options are checked here, because the maximum of --sampling-topk is the size of the dictionary, which is
        # known here.
        check_generation(args, len(self.target_dictionary), preset)
        if preset == "wean":
            logger.info("search preset wean: scores are sums of log-probabilities, length penalty 0")
            args = Namespace(**{**_options(args), "lenpen": 0.0})
        if preset == "copynet":
            logger.info("search preset copynet: <unk> is never written, no better hypothesis is cut off")
        # Our generators are subclasses of fairseq's generator. For --print-alignment, fairseq needs another class, so
        # such searches do not use our n-gram block.
        blocks = getattr(args, "no_repeat_ngram_size", 0) > 0 and not getattr(args, "print_alignment", None)
        fast = not self.cfg.stock_search and FastSequenceGenerator.supports(models)
        needs_own_generator = preset != "fairseq" or replaces_unk or blocks
        # A generator class that the caller passes has priority. Otherwise, our class is used if possible, because its
        # fast search finds the same outputs.
        if seq_gen_cls is None and (needs_own_generator or (fast and not getattr(args, "print_alignment", None))):
            seq_gen_cls = FastSequenceGenerator if fast else PaperSequenceGenerator
            num_best = getattr(args, "nbest", 1)
            extra.update(
                # A stopping rule may end a sentence only when it has at least as many outputs as ``--nbest`` shows.
                stop_when_best_finished=num_best if preset == "wean" else 0,
                stop_when_nothing_better=num_best if preset == "copynet" else 0,
                source_positions=replaces_unk,
                beam_sampling=preset == "cdnpg-sampling",
                renormalise=preset == "copynet",
            )
            if fast:  # the outputs are equal to fairseq's outputs
                extra.update(factors=factors)
        generator = super().build_generator(
            models,
            args,
            seq_gen_cls=seq_gen_cls,
            extra_gen_cls_kwargs=extra,
            prefix_allowed_tokens_fn=prefix_allowed_tokens_fn,
        )
        # Only the generator itself knows whether it can use its own loop, because this depends on all of its options.
        is_fast = getattr(generator, "is_fast", False) and getattr(args, "prefix_size", 0) == 0
        _check_own_loop(models, factors, preset, is_fast=is_fast)
        return generator

    def train_step(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Free the packed weights of the last validation (``--eval-bleu``), then run fairseq's training step."""
        if isinstance(generator := getattr(self, "sequence_generator", None), FastSequenceGenerator):
            generator.release()
        result: tuple[Any, Any, dict[str, Any]] = super().train_step(*args, **kwargs)
        return result

    def inference_step(
        self, generator: Any, models: list[torch.nn.Module], sample: dict[str, Any], *args: Any, **kwargs: Any
    ) -> list[list[dict[str, Any]]]:
        """Run the search.

        Diverse beam search gets batches without ids, because it would use the id of a sentence as its row.
        """
        if isinstance(getattr(generator, "search", None), DiverseBeamSearch):
            sample = {name: value for name, value in sample.items() if name != "id"}
        hypotheses: list[list[dict[str, Any]]] = super().inference_step(generator, models, sample, *args, **kwargs)
        return hypotheses


def _check_models(models: list[torch.nn.Module], args: Any, lm_model: Any) -> None:
    """Raise ``UserError`` for a language model that is none, and for dropout that the models cannot retain."""
    if not isinstance(lm_model, FairseqLanguageModel | None):
        raise UserError("--lm-path is not a language model: give one that was trained with this dictionary.")
    if getattr(args, "retain_dropout", False) and FAIRSEQ_MODELS not in map(capabilities_of, models):
        raise UserError("--retain-dropout is for fairseq's own archs and has no effect here: leave it out.")


def _check_own_loop(models: list[torch.nn.Module], factors: str, preset: str, *, is_fast: bool) -> None:
    """Raise ``UserError`` if the models or the rounding need the fast generator's loop, and it cannot be used."""
    ranks = any(capabilities_of(model).ranks for model in models)
    if ranks and not (is_fast and preset == "fairseq"):
        raise UserError(
            "--distract-attention, --distract-content and --distract-state are for plain beam search with one model "
            "and --search-preset fairseq, without --stock-search: set them to 0, or remove the contradicting options."
        )
    if factors != EXACT and not is_fast:
        raise UserError(
            f"--{factors}-scores is for plain beam search with one model of this package, without --stock-search: "
            "leave it out, or remove the contradicting option."
        )


def check_search(options: dict[str, Any]) -> None:
    """Check search options by name before a model exists. Raise ``UserError`` if they contradict each other."""
    args = Namespace(**{**vars(GenerationConfig()), **options})
    check_generation(args, sys.maxsize, options.get("search_preset", "fairseq"))


def _options(args: GenerationConfig | Namespace) -> dict[str, Any]:
    return dict(vars(args)) if isinstance(args, Namespace) else {str(key): args[key] for key in args}
