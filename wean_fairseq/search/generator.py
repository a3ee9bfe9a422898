"""fairseq's beam search with other stopping rules, and with alignments for ``--replace-unk``.

fairseq ends a sentence when the number of finished hypotheses reaches the beam size, however low their scores are.
Peaked models (for example, models that copy) fill the beam with hypotheses that ended too early, before the right
hypothesis has ended.

Legend: ``B`` sentences that are not finished, ``K`` beam size, ``S`` padded source length, ``T`` output length.
"""

import math
from traceback import walk_tb
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from ..errors import UserError
from .beam_sampling import CONTINUATIONS, BeamSampling

# If one of these modules raises an error during a search, the cause is a score that is not finite.
_SEARCHES = ("fairseq.sequence_generator", "fairseq.search", "wean_fairseq.search")


def log_known(log_unknown: Tensor) -> Tensor:
    """Return the log-probability of all words except ``<unk>``, from the log-probability of ``<unk>``.

    It is always finite.
    """
    return torch.log1p(-log_unknown.exp().clamp(max=1 - 1e-6))


def not_finite_error() -> UserError:
    """Return the error for a model whose outputs have no finite score."""
    return UserError(
        "the scores of the model are not finite, because its parameters are too large: its training diverged, and its "
        "outputs mean nothing; use an earlier checkpoint."
    )


class TopAwareBeamSearch(BeamSearch):
    """Beam search that records the values needed by the stopping rules.

    Attributes:
        top_ends: whether the best candidate of the step ends the sentence, (B,).
        best_open: score of the best candidate that does not end the sentence, (B,).
    """

    def __init__(self, tgt_dict: Dictionary) -> None:
        super().__init__(tgt_dict)
        self.top_ends: list[bool] = []
        self.best_open: list[float] = []

    def step(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
        scores, indices, beams = super().step(*args, **kwargs)
        self.observe(scores, indices.eq(self.eos))
        return scores, indices, beams

    def observe(self, scores: Tensor, ends: Tensor) -> None:
        """Record the M candidates of a step, best first: scores (B, M), and whether they end the sentence (B, M)."""
        self.top_ends = ends[:, 0].tolist()
        self.best_open = scores.masked_fill(ends, float("-inf")).amax(dim=1).tolist()


class _NGramBlock(NGramRepeatBlock):
    """A corrected version of ``--no-repeat-ngram-size``.

    If its CUDA extension is missing, fairseq compares n-grams with the end of the token buffer. This end contains
    padding until the longest output is written, so nothing is blocked.
    """

    def forward(self, tokens: Tensor, lprobs: Tensor, bsz: int, beam_size: int, step: int) -> Tensor:
        """Return log-probabilities (B * K, V), with -inf for words that would repeat an n-gram of their hypothesis."""
        written = tokens[:, : step + 1].contiguous()  # the extension requires contiguous memory
        if self.no_repeat_ngram_size > 1:
            blocked: Tensor = super().forward(written, lprobs, bsz, beam_size, step)
            return blocked
        # here n is 1, so no word may be repeated The first token is the start symbol, not a word
        return lprobs.scatter(1, written[:, 1:], float("-inf"))


class PaperSequenceGenerator(SequenceGenerator):
    """``SequenceGenerator`` with further options and a corrected block of repeated n-grams.

    Args:
        search_strategy: search strategy of fairseq, which is replaced if a stop rule or ``beam_sampling`` is set.
        stop_when_best_finished: end a sentence when its best candidate ends it and this number of hypotheses has
            finished. 0 = fairseq's rule. Without length normalisation, a sum of log-probabilities can only fall.
            Therefore no better hypothesis can follow, and the same best output is found sooner.
        stop_when_nothing_better: keep the n best finished hypotheses, where n is this number, and end a sentence when
            no unfinished hypothesis can become one of them. 0 = fairseq's rule. It cannot be combined with the other
            stop rule.
        source_positions: return for each hypothesis, as ``alignment``, the source position to which each of its words
            attends most. ``--replace-unk`` needs it.
        beam_sampling: sample candidates instead of ranking them. It cannot be combined with the stop rules.
        renormalise: never write ``<unk>``, and distribute its probability over the other words, as CopyNet's code does.

    Raises:
        UserError: if the beam is too wide for ``beam_sampling``.
    """

    def __init__(
        self,
        models: list[torch.nn.Module],
        tgt_dict: Dictionary,
        search_strategy: torch.nn.Module | None = None,
        stop_when_best_finished: int = 0,
        stop_when_nothing_better: int = 0,
        source_positions: bool = False,
        beam_sampling: bool = False,
        renormalise: bool = False,
        **kwargs: Any,
    ) -> None:
        if renormalise:
            kwargs["unk_penalty"] = math.inf
        if stop_when_best_finished or stop_when_nothing_better:
            search_strategy = TopAwareBeamSearch(tgt_dict)
        if beam_sampling:
            if kwargs.get("beam_size", 1) >= CONTINUATIONS:
                raise UserError(
                    f"beam sampling begins with draws from the {CONTINUATIONS} best words, so --beam must be less than "
                    f"{CONTINUATIONS}, but is {kwargs['beam_size']}."
                )
            search_strategy = BeamSampling(tgt_dict)
        super().__init__(models, tgt_dict, search_strategy=search_strategy, **kwargs)
        self.stop_when_best_finished = stop_when_best_finished
        self.stop_when_nothing_better = stop_when_nothing_better
        self._settled: set[int] = set()
        blocker: NGramRepeatBlock | None = getattr(self, "repeat_ngram_blocker", None)
        if blocker is not None:
            self.repeat_ngram_blocker = _NGramBlock(blocker.no_repeat_ngram_size)
        self.source_positions = source_positions
        self.renormalise = renormalise
        if renormalise:
            forward_decoder = self.model.forward_decoder

            def forward(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
                scores, attention = forward_decoder(*args, **kwargs)
                return scores - log_known(scores[:, self.unk]).unsqueeze(1), attention

            self.model.forward_decoder = forward

    def is_finished(self, step: int, unfin_idx: int, max_len: int, finalized_sent_len: int, beam_size: int) -> bool:
        """Return True if sentence ``unfin_idx`` (an index among unfinished sentences) is finished after this step."""
        if self.stop_when_nothing_better:
            return unfin_idx in self._settled or step == max_len
        enough = finalized_sent_len >= self.stop_when_best_finished > 0
        if enough and isinstance(self.search, TopAwareBeamSearch) and self.search.top_ends[unfin_idx]:
            return True
        return bool(super().is_finished(step, unfin_idx, max_len, finalized_sent_len, beam_size))

    def finalize_hypos(
        self, step: int, bbsz_idx: Tensor, eos_scores: Tensor, tokens: Tensor, scores: Tensor, *more: Any
    ) -> list[int]:
        """Store the hypotheses that end at this step.

        Without ``stop_when_nothing_better``, this is fairseq's method. With this option, the best hypotheses of all
        steps are kept.
        """
        arguments = (step, bbsz_idx, eos_scores, tokens, scores)
        if not self.stop_when_nothing_better:
            return list(super().finalize_hypos(*arguments, *more))
        finalized, finished, beam_size, *_, max_len = more
        # fairseq removes finished sentences from the batch, so a row must be translated to the index of its sentence.
        sentence = [number for number, done in enumerate(finished) if not done]  # sentence of each row of the batch
        values = (eos_scores / (step + 1) ** self.len_penalty if self.normalize_scores else eos_scores).tolist()
        # Collect the normalised scores of the hypotheses that end at this step, for each row.
        ended: dict[int, list[float]] = {}
        for row, value in zip(bbsz_idx.tolist(), values, strict=True):
            ended.setdefault(row // beam_size, []).append(value)
        # A sentence is settled if no unfinished hypothesis can beat its best finished hypotheses. ``is_finished``,
        # which fairseq calls below, reads this set.
        self._settled = {
            row
            for row, new_scores in ended.items()
            if self._cannot_improve(
                row, [*(float(h["score"]) for h in finalized[sentence[row]]), *new_scores], step, max_len
            )
        }
        # fairseq stores at most ``beam_size`` hypotheses and ignores later ones, so it gets an empty list at each step.
        # Afterwards, this method merges the new hypotheses with the earlier ones, and keeps only the best.
        new_hypotheses: list[list[dict[str, Any]]] = [[] for _ in finalized]
        done = super().finalize_hypos(*arguments, new_hypotheses, *more[1:])
        for hypotheses, ended_now in zip(finalized, new_hypotheses, strict=True):
            if ended_now:
                hypotheses[:] = sorted([*hypotheses, *ended_now], key=lambda hypothesis: -float(hypothesis["score"]))[
                    :beam_size
                ]
        return list(done)

    def _cannot_improve(self, row: int, scores: list[float], step: int, max_len: int) -> bool:
        """Return True if no unfinished hypothesis of a sentence can beat the worst of its best finished hypotheses.

        Log-probabilities can only fall. Therefore the best score that an unfinished hypothesis can reach is its current
        sum, divided by the most favourable length.
        """
        num_best = self.stop_when_nothing_better
        if len(scores) < num_best:
            return False
        reachable = self.search.best_open[row]
        if self.normalize_scores:
            reachable = max(reachable / length**self.len_penalty for length in (step + 2, max_len + 1))
        return bool(sorted(scores, reverse=True)[num_best - 1] >= reachable)

    @torch.no_grad()
    def generate(
        self, models: list[torch.nn.Module], sample: dict[str, Any], **kwargs: Any
    ) -> list[list[dict[str, Any]]]:
        """Run the search. The hypotheses of each sentence are sorted from best to worst.

        Raises:
            UserError: if every output of ``min_len`` words repeats an n-gram, no output can contain all constraints, no
                word can be drawn at the temperature, or no score is finite.
        """
        longest = self._longest(sample["net_input"])
        if self.min_len > longest:
            raise UserError(f"--min-len {self.min_len} is more than the {longest} words that an output may have.")
        try:
            finalized: list[list[dict[str, Any]]] = super().generate(models, sample, **kwargs)
        # fairseq fails if no hypothesis can end or no word can be drawn
        except (AssertionError, RuntimeError) as error:
            *_, (frame, _) = walk_tb(error.__traceback__)
            is_of_scores = isinstance(error, AssertionError) or "multinomial" in str(error)
            if not is_of_scores or not frame.f_globals.get("__name__", "").startswith(_SEARCHES):
                raise
            blocker = self.repeat_ngram_blocker
            is_constrained = kwargs.get("constraints") is not None
            is_cold = "multinomial" in str(error) and self.temperature < 1
            if not ((is_constrained or blocker or is_cold) and self._begins_finite(sample["net_input"])):
                raise not_finite_error() from error
            if is_constrained:
                repeats = "" if blocker is None else ", or repeat an n-gram of --no-repeat-ngram-size"
                raise UserError(
                    f"the constraints of a line do not fit into the {longest} words that an output may have{repeats}: "
                    "give fewer or shorter constraints, or raise --max-len-b."
                ) from error
            if is_cold:
                raise UserError(
                    f"at --temperature {self.temperature:g} all words to draw have the probability 0: raise it."
                ) from error
            raise UserError(
                f"every output of --min-len {self.min_len} words repeats an n-gram of --no-repeat-ngram-size "
                f"{blocker.no_repeat_ngram_size}: lower --min-len, or raise --no-repeat-ngram-size."
            ) from error
        if self.source_positions:
            for tokens, hypotheses in zip(sample["net_input"]["src_tokens"], finalized, strict=True):
                for hypothesis in hypotheses:
                    hypothesis["alignment"] = self._source_positions(tokens, hypothesis["attention"])
        return finalized

    def _begins_finite(self, net_input: dict[str, Any]) -> bool:
        """Return True if each sentence has a word with a finite score at the first step, even if options forbid it."""
        begin = torch.full_like(net_input["src_tokens"][:, :1], self.eos)
        encoded = self.model.forward_encoder(net_input)
        scores, _ = self.model.forward_decoder(begin, encoded, [{} for _ in self.model.models], self.temperature)
        return bool(scores.isfinite().any(dim=1).all())

    def _longest(self, net_input: dict[str, Any]) -> int:
        """Return the maximum number of words of an output, as in fairseq."""
        if self.match_source_len:
            return int(net_input["src_lengths"].max())
        words = int(self.max_len_a * net_input["src_tokens"].size(1) + self.max_len_b)
        return min(words, int(self.max_len) - 1)

    def _source_positions(self, src_tokens: Tensor, attention: Tensor) -> list[int]:
        """Return the T positions (from 0) of the source words with most attention: tokens (S,), attention (S, T)."""
        if attention.numel() == 0:
            raise UserError("--replace-unk needs a model that returns its attention, and this one does not.")
        no_word = src_tokens.eq(self.pad) | src_tokens.eq(self.eos)
        best = attention.masked_fill(no_word.unsqueeze(1), float("-inf")).argmax(dim=0)  # (T,)
        left = src_tokens.eq(self.pad).long().cumprod(dim=0).sum()
        positions: list[int] = (best - left).clamp(min=0).tolist()
        return positions
