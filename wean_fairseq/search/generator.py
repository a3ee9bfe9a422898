"""fairseq's beam search with the stop rule of early OpenNMT, which WEAN used, and alignments for ``--replace-unk``.

Legend: ``B`` sentences still searched, ``K`` beam, ``S`` padded source length, ``T`` output length.
"""

from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from ..errors import UserError


class _TopAwareBeamSearch(BeamSearch):
    """Beam search that remembers for which sentences the best candidate of the step ends the sentence."""

    def __init__(self, tgt_dict: Dictionary) -> None:
        super().__init__(tgt_dict)
        self.top_ends: list[bool] = []

    def step(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
        scores, indices, beams = super().step(*args, **kwargs)
        self.top_ends = indices[:, 0].eq(self.eos).tolist()  # candidates come best first
        return scores, indices, beams


class PaperSequenceGenerator(SequenceGenerator):
    """``SequenceGenerator`` with two options.

    Args:
        models: as fairseq's.
        tgt_dict: as fairseq's.
        search_strategy: fairseq's plain beam search where ``stop_when_best_finished`` is set.
        stop_when_best_finished: end a sentence when its best candidate ends it and this many hypotheses are finished;
            0 = never early. Without length normalisation a sum of log-probabilities only falls, so nothing better can
            follow: the first output is the same, sooner.
        source_positions: give each hypothesis as ``alignment`` the source word each of its words attends to most,
            which is what ``--replace-unk`` needs.
        kwargs: as fairseq's.
    """

    def __init__(
        self,
        models: list[torch.nn.Module],
        tgt_dict: Dictionary,
        search_strategy: torch.nn.Module | None = None,
        stop_when_best_finished: int = 0,
        source_positions: bool = False,
        **kwargs: Any,
    ) -> None:
        if stop_when_best_finished:
            search_strategy = _TopAwareBeamSearch(tgt_dict)
        super().__init__(models, tgt_dict, search_strategy=search_strategy, **kwargs)
        self.stop_when_best_finished = stop_when_best_finished
        self.source_positions = source_positions

    def is_finished(self, step: int, unfin_idx: int, max_len: int, finalized_sent_len: int, beam_size: int) -> bool:
        """Whether sentence ``unfin_idx`` (of those still searched) is done after this step."""
        enough = finalized_sent_len >= self.stop_when_best_finished
        if isinstance(self.search, _TopAwareBeamSearch) and self.search.top_ends[unfin_idx] and enough:
            return True
        return bool(super().is_finished(step, unfin_idx, max_len, finalized_sent_len, beam_size))

    @torch.no_grad()
    def generate(
        self, models: list[torch.nn.Module], sample: dict[str, Any], **kwargs: Any
    ) -> list[list[dict[str, Any]]]:
        """Search; hypotheses of each sentence come best first."""
        finalized = super().generate(models, sample, **kwargs)
        if self.source_positions:
            for tokens, hypotheses in zip(sample["net_input"]["src_tokens"], finalized, strict=True):
                for hypothesis in hypotheses:
                    hypothesis["alignment"] = self._source_positions(tokens, hypothesis["attention"])
        return finalized

    def _source_positions(self, src_tokens: Tensor, attention: Tensor) -> list[int]:
        """Most attended source word of each output word: tokens (S,), attention (S, T) -> T positions from 0."""
        if attention.numel() == 0:
            raise UserError("--replace-unk needs a model that returns its attention, and this one does not.")
        no_word = src_tokens.eq(self.pad) | src_tokens.eq(self.eos)
        best = attention.masked_fill(no_word.unsqueeze(1), float("-inf")).argmax(dim=0)  # (T,)
        left = src_tokens.eq(self.pad).long().cumprod(dim=0).sum()
        positions: list[int] = (best - left).clamp(min=0).tolist()
        return positions
