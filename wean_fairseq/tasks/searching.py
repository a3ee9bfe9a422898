"""The guarded translation task with the searches of the papers, and with a faster search where there is one."""

import logging
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.dataclass.configs import GenerationConfig
from fairseq.search import DiverseBeamSearch

from ..checkpoints.search import PRESETS
from ..errors import UserError
from ..fields import option
from ..options import check_generation
from ..search import FastSequenceGenerator, PaperSequenceGenerator
from ..search.vocabulary_scores import BF16, EXACT, INT8
from .guarded import GuardedConfig, GuardedTask

logger = logging.getLogger(__name__)

# Ways of searching whose scores the stop rules say nothing about.
_OTHER_SEARCHES = ("sampling", "match_source_len", "constraints", "print_alignment", "score_reference")


@dataclass
class SearchingConfig(GuardedConfig):
    """The guarded task's options, and how to search."""

    search_preset: ChoiceEnum(PRESETS) = option(  # type: ignore[valid-type]
        "fairseq",
        "wean: scores are plain sums of log-probabilities (whatever --lenpen says) and a sentence is done "
        "when its best hypothesis is and --nbest are; copynet: <unk> is never written, its probability goes to the "
        "other words, and a sentence continues until no unfinished hypothesis can be one of the --nbest; "
        "cdnpg-sampling: candidates of a beam are drawn by their scores from the 50 best continuations of each "
        "hypothesis; fairseq: as the generation options say",
    )
    stock_search: bool = option(
        False, "search with fairseq's own loop: the same outputs, slower, where there is a faster one"
    )
    bf16_scores: bool = option(
        False,
        "score words in bfloat16 in generation, not with --query-score concat: "
        "much faster where the hardware has it, and not exact",
    )
    int8_scores: bool = option(
        False,
        "score words by products of 8-bit integers in generation on a CPU, and compute the decoder's large linear "
        "maps so, not with --query-score concat: faster than --bf16-scores, and not exact",
    )


class SearchingTask(GuardedTask):
    """Searches as ``--search-preset`` says."""

    cfg: SearchingConfig

    def build_generator(
        self,
        models: list[torch.nn.Module],
        args: GenerationConfig | Namespace,
        seq_gen_cls: type | None = None,
        extra_gen_cls_kwargs: dict[str, Any] | None = None,
        prefix_allowed_tokens_fn: Any = None,
    ) -> Any:
        """Build the search of ``--search-preset``, the faster one where there is one; ``--replace-unk`` works.

        Raises:
            UserError: if a generation option is out of range, contradicts the preset or the rounding of scores, or
                those the model.
        """
        extra = dict(extra_gen_cls_kwargs or {})
        preset = str(self.cfg.search_preset)
        if self.cfg.bf16_scores and self.cfg.int8_scores:
            raise UserError("--bf16-scores and --int8-scores round the same scores in different ways: choose one.")
        factors = BF16 if self.cfg.bf16_scores else INT8 if self.cfg.int8_scores else EXACT
        replaces_unk = getattr(args, "replace_unk", None) is not None
        if replaces_unk and getattr(args, "print_alignment", None):
            raise UserError("--replace-unk and --print-alignment use the attention in different ways: choose one.")
        if preset != "fairseq":
            _check_plain_beam_search(preset, args, prefix_allowed_tokens_fn)
        check_generation(args, len(self.target_dictionary))
        if preset == "wean":
            logger.info("search preset wean: scores are sums of log-probabilities, length penalty 0")
            args = Namespace(**{**_options(args), "lenpen": 0.0})
        if preset == "copynet":
            logger.info("search preset copynet: <unk> is never written, no better hypothesis is cut off")
        blocks = getattr(args, "no_repeat_ngram_size", 0) > 0 and not getattr(args, "print_alignment", None)
        fast = not self.cfg.stock_search and FastSequenceGenerator.supports(models)
        own = preset != "fairseq" or replaces_unk or blocks
        if seq_gen_cls is None and (own or (fast and not getattr(args, "print_alignment", None))):
            seq_gen_cls = FastSequenceGenerator if fast else PaperSequenceGenerator
            wanted = getattr(args, "nbest", 1)
            extra.update(
                stop_when_best_finished=wanted if preset == "wean" else 0,
                stop_when_nothing_better=wanted if preset == "copynet" else 0,
                source_positions=replaces_unk,
                beam_sampling=preset == "cdnpg-sampling",
                renormalise=preset == "copynet",
            )
            if fast:
                extra.update(factors=factors)
        generator = super().build_generator(
            models,
            args,
            seq_gen_cls=seq_gen_cls,
            extra_gen_cls_kwargs=extra,
            prefix_allowed_tokens_fn=prefix_allowed_tokens_fn,
        )
        is_fast = getattr(generator, "is_fast", False) and getattr(args, "prefix_size", 0) == 0
        ranks = any(getattr(getattr(model, "decoder", None), "ranks_hypotheses", False) for model in models)
        if ranks and not (is_fast and preset == "fairseq"):
            raise UserError(
                "--distract-attention, --distract-content and --distract-state are for plain beam search with one "
                "model and --search-preset fairseq, without --stock-search: set them to 0, or leave out what "
                "contradicts them."
            )
        if factors != EXACT and not is_fast:
            raise UserError(
                f"--{factors}-scores is for plain beam search with one model of this package, without --stock-search: "
                "leave it out, or what contradicts it."
            )
        return generator

    def inference_step(
        self, generator: Any, models: list[torch.nn.Module], sample: dict[str, Any], *args: Any, **kwargs: Any
    ) -> list[list[dict[str, Any]]]:
        """Search; diverse beams, which take a sentence's number in the data for its row, get batches without."""
        if isinstance(getattr(generator, "search", None), DiverseBeamSearch):
            sample = {name: value for name, value in sample.items() if name != "id"}
        found: list[list[dict[str, Any]]] = super().inference_step(generator, models, sample, *args, **kwargs)
        return found


def _options(args: GenerationConfig | Namespace) -> dict[str, Any]:
    return dict(vars(args)) if isinstance(args, Namespace) else {str(key): args[key] for key in args}


def _check_plain_beam_search(preset: str, args: GenerationConfig | Namespace, prefix_allowed_tokens_fn: Any) -> None:
    if getattr(args, "unkpen", 0) < 0:
        raise UserError(f"--search-preset {preset} needs scores that only fall, so no negative --unkpen.")
    if prefix_allowed_tokens_fn is not None:
        raise UserError(f"--search-preset {preset} is plain beam search: it takes no prefix_allowed_tokens_fn.")
    if preset == "wean" and getattr(args, "lenpen", 1) not in (0, 1):
        raise UserError(
            f"--search-preset wean sums log-probabilities, which --lenpen {args.lenpen} contradicts: "
            "leave --lenpen out, or use --search-preset fairseq."
        )
    others = [name for name in _OTHER_SEARCHES if getattr(args, name, None)]
    others += ["diverse_beam_groups"] if getattr(args, "diverse_beam_groups", -1) > 0 else []
    others += ["diversity_rate"] if getattr(args, "diversity_rate", -1) > -1 else []
    if others:
        flag = "--" + others[0].replace("_", "-")
        raise UserError(f"--search-preset {preset} is plain beam search and does not go with {flag}.")
