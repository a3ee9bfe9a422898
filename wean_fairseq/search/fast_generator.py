"""A faster version of fairseq's beam search. It returns the same outputs and scores in the same order.

fairseq's generator normalises, masks and sums the scores of all words of all hypotheses in separate passes. It ranks
all words of a sentence at once, computes the first step for every hypothesis although all hypotheses are equal, and
reorders all tensors of the source after every step. This generator avoids these costs.

Legend: ``B`` = number of sentences that are not finished, ``K`` = beam size, ``N`` = number of hypotheses (B at the
first step, B * K afterwards), ``M`` = 2 * K candidates per sentence.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.search import BeamSearch
from torch import Tensor

from ..capabilities import capabilities_of
from ..errors import UserError
from ..models.base import StepDecoder
from ..modules import Memory, State
from ..modules.copying import NEVER
from .generator import PaperSequenceGenerator, TopAwareBeamSearch, log_known, not_finite_error
from .hypotheses import Finished, Grown, trace
from .packed_linear import int8_is_exact
from .packed_model import PackedModel
from .traces import add_traces
from .vocabulary_scores import EXACT, INT8, VocabularyScores

NUM_SPECIAL = 3  # number of words that a step may forbid: padding, <unk>, the end symbol


@dataclass
class _Beams:
    """The unfinished hypotheses before a step."""

    words: Tensor  # the last word of each hypothesis, (N, 1)
    totals: Tensor | None  # sums of log-probabilities, (N,). None at the first step
    memory: Memory
    state: State
    sentences: list[int]  # indices of the B sentences in the batch


@dataclass
class _Search:
    """The parts of a search that stay the same within a batch, and the results of the search."""

    decoder: StepDecoder[Any, Any]
    scores: VocabularyScores
    max_len: int
    special: Tensor  # SPECIAL words that a step may forbid: NUM_SPECIAL words, then suppressed words, (1, SPECIAL)
    # values to add to the scores of the ``special`` words, (2, SPECIAL): row 0 before an output may end, row 1
    # afterwards
    change: Tensor
    finished: list[list[Finished]]  # finished hypotheses of each sentence of the batch
    grown: list[Grown] = field(default_factory=list)  # hypotheses of each step
    tensors: list[dict[str, Tensor]] = field(default_factory=list)  # tensors of each step, for ``trace``


class FastSequenceGenerator(PaperSequenceGenerator):
    """Beam search for a single model with a ``StepDecoder``. Other searches use fairseq's own loop.

    Examples are searches with ensembles, language models, other search strategies, forced prefixes, blocked n-grams,
    outputs as long as the source, copying with a temperature, and beams that are wide relative to the vocabulary.

    Args:
        factors: number format of the factors in the matrix products that compute scores. ``EXACT`` does not round the
            factors. ``BF16`` is faster on hardware that supports it. ``INT8`` is even faster on a CPU, where it also
            applies to the model's large linear maps. In searches that use fairseq's loop, the factors are never
            rounded.
        kwargs: see ``PaperSequenceGenerator``.

    Attributes:
        traces: add a ``Trace`` to each hypothesis, unless the batch needs fairseq's loop (see ``traces.follow``).

    Raises:
        UserError: if this model or this machine does not support ``factors``.
    """

    traces = False

    def __init__(
        self, models: list[torch.nn.Module], tgt_dict: Dictionary, factors: str = EXACT, **kwargs: Any
    ) -> None:
        super().__init__(models, tgt_dict, **kwargs)
        self.factors = factors
        # True if this class runs the search itself (some batches may still need fairseq's loop).
        decoder = self._fast_decoder()
        self.is_fast = decoder is not None
        if factors != EXACT and decoder is not None:
            _check_rounding(factors, decoder)

    def release(self) -> None:
        """Free the packed weights. The next search packs them again."""
        self.__dict__.pop("_packed_model", None)

    @staticmethod
    def supports(models: list[torch.nn.Module]) -> bool:
        """Return True if ``models`` is a single model that this class supports."""
        return len(models) == 1 and isinstance(getattr(models[0], "decoder", None), StepDecoder)

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> list[list[dict[str, Any]]]:
        source = sample["net_input"].get("src_tokens")
        decoder = self._fast_decoder() if prefix_tokens is None and constraints is None else None
        if source is None or decoder is None:
            hypotheses: list[list[dict[str, Any]]] = super()._generate(sample, prefix_tokens, constraints, bos_token)
            return hypotheses
        # The encoder runs once per batch. Its output is prepared for the steps by ``remember``.
        max_len = self._longest(sample["net_input"])
        # The packed model is removed during the search, so that a concurrent search cannot use the same memory.
        packed: PackedModel | None = self.__dict__.pop("_packed_model", None)
        search_arguments = (self.model.models[0], self.vocab_size, source.size(0) * self.beam_size, self.factors)
        if packed is None or not packed.fits(*search_arguments):
            packed = None  # free the old weights before new ones are allocated
            packed = PackedModel(*search_arguments)
        encoder_out = packed.encoder.forward_torchscript(sample["net_input"])
        memory = packed.decoder.remember(encoder_out).contiguous()
        # Padding, <unk> and suppressed words get their penalties at every step. The end symbol is forbidden until the
        # minimum length.
        suppressed = self._suppressed
        special = torch.tensor([[self.pad, self.unk, self.eos, *suppressed]], device=source.device)
        never, unknown = [NEVER] * len(suppressed), -self.unk_penalty
        change = [[NEVER, unknown, NEVER, *never], [NEVER, unknown, 0.0, *never]]
        changes = torch.tensor(change, device=source.device)
        search = _Search(packed.decoder, packed.scores, max_len, special, changes, [[] for _ in source])
        # At the first step there is one hypothesis per sentence, because all hypotheses of a beam are still equal.
        first = source.new_full((source.size(0), 1), self.eos if bos_token is None else bos_token)
        beams: _Beams | None = _Beams(first, None, memory, search.decoder.begin(memory), list(range(source.size(0))))
        for step in range(max_len + 1):
            assert beams is not None
            beams = self._step(search, beams, step)
            if beams is None:
                break
        if packed.can_be_kept:
            self._packed_model = packed
        hypotheses, tensors = self._results(search, source.device)
        if self.traces:
            add_traces(self.model.models[0], sample, encoder_out, hypotheses, tensors)
        return hypotheses

    def _fast_decoder(self) -> StepDecoder[Any, Any] | None:
        """Return the decoder for the search, or ``None`` if fairseq's loop must be used."""
        models = list(self.model.models)
        # Other kinds of search and the following options need the log-probabilities of all words, so they use fairseq's
        # loop.
        other_searches = (self.repeat_ngram_blocker, self.lm_model)
        plain = all(search is None for search in other_searches) and not self.match_source_len
        if not (plain and self.supports(models) and type(self.search) in (BeamSearch, TopAwareBeamSearch)):
            return None
        decoder = models[0].decoder
        if capabilities_of(models[0]).normalises and self.temperature != 1.0:
            return None
        words = decoder.output.num_candidates - NUM_SPECIAL - len(self._suppressed)
        return decoder if 2 * self.beam_size <= words else None

    @property
    def _suppressed(self) -> list[int]:
        return [] if self.token_indices_to_suppress is None else self.token_indices_to_suppress.tolist()

    def _step(self, search: _Search, beams: _Beams, step: int) -> _Beams | None:
        """Advance by one word. Return the new beams, or ``None`` when all sentences are finished."""
        # Rank 2 * K candidates per sentence, so that K candidates remain even if K others end here.
        normaliser = self._score(search, beams, step)
        sentences, num_candidates = len(beams.sentences), 2 * self.beam_size
        if step == search.max_len:
            totals, words, parents = self._end_candidates(search, beams, normaliser)
        else:
            totals, words, parents = search.scores.best(normaliser, beams.totals, sentences, num_candidates)
        rows = torch.arange(sentences, device=words.device).unsqueeze(1)
        parents = parents + rows * (len(beams.words) // sentences)
        ends = words.eq(self.eos)
        done_rows = self._finish(search, beams, step, totals, ends, parents)
        open_rows = [row for row in range(sentences) if row not in done_rows]
        if not open_rows:
            return None
        assert step < search.max_len, "a sentence has no finite score for its end"
        # Select the K best candidates that do not end, without changing their order.
        order = ends.byte().sort(dim=1, stable=True).indices[:, : self.beam_size]
        chosen = (candidates.gather(1, order) for candidates in (totals, words, parents))
        return self._extend(search, beams, step, open_rows, *chosen)

    def _score(self, search: _Search, beams: _Beams, step: int) -> Tensor:
        """Score all words.

        Return the log-normalisers (N,), which are subtracted from the scores to get log-probabilities.
        """
        decoder_step, beams.state = search.decoder.step(beams.words, beams.memory, beams.state)
        log_sum = search.scores.compute(decoder_step.features[:, 0], self.temperature)
        arguments = (decoder_step, beams.memory, search.scores, log_sum)
        tensors = search.decoder.trace(*arguments) if self.traces else {}
        if decoder_step.attention is not None:
            tensors["attention"] = decoder_step.attention[:, 0]
        search.tensors.append(tensors)
        # ``finish`` adds copying or other scores, which changes the normaliser.
        normaliser = search.decoder.finish(*arguments)
        # As in fairseq, penalties change the scores but not the normaliser. Only ``renormalise`` redistributes the
        # probability of <unk>.
        special = search.special.expand(len(log_sum), -1)
        special_scores = search.scores.get(special)
        search.scores.put(special, special_scores + search.change[int(step >= self.min_len)])
        return normaliser + log_known(special_scores[:, 1] - normaliser) if self.renormalise else normaliser

    def _end_candidates(self, search: _Search, beams: _Beams, normaliser: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the candidates of the last step, at which every hypothesis must end.

        The tensors have the shape (B, K), or (B, 1) at the first step.
        """
        ends = torch.full_like(normaliser, self.eos, dtype=torch.long)
        totals = search.scores.get(ends.unsqueeze(1)).squeeze(1) - normaliser
        if beams.totals is not None:
            totals = totals + beams.totals
        totals, parents = totals.view(len(beams.sentences), -1).sort(dim=1, descending=True)
        return totals, ends.view_as(totals), parents

    def _finish(
        self, search: _Search, beams: _Beams, step: int, totals: Tensor, ends: Tensor, parents: Tensor
    ) -> set[int]:
        """Store the hypotheses that end among the K best candidates, and return the rows of finished sentences.

        The arguments describe the candidates: their sums, whether they end, and their hypotheses, each of shape (B, M).
        """
        if isinstance(self.search, TopAwareBeamSearch):
            self.search.observe(totals, ends)
        # Only the best K candidates may end a hypothesis, as in fairseq. -inf marks ends before the minimum length.
        ending = ends[:, : self.beam_size] & totals[:, : self.beam_size].ne(NEVER)
        rows, places = ending.nonzero(as_tuple=True)
        if not len(rows):
            return set()
        sums = totals[rows, places]
        scores = sums / (step + 1) ** self.len_penalty if self.normalize_scores else sums
        columns = (rows, parents[rows, places], sums, scores)
        ended_by_row: dict[int, list[Finished]] = {}
        for row, start, total, score in zip(*(column.tolist() for column in columns), strict=True):
            if math.isnan(total):
                raise not_finite_error()
            ended_by_row.setdefault(row, []).append(Finished(step, start, total, score))
        return {
            row
            for row, ended in ended_by_row.items()
            if self._add_finished(search, beams.sentences[row], row, ended, step)
        }

    def _add_finished(self, search: _Search, sentence: int, row: int, new: list[Finished], step: int) -> bool:
        """Add new finished hypotheses to a sentence. Return True if the sentence is finished."""
        hypotheses = search.finished[sentence]
        if self.stop_when_nothing_better:
            hypotheses[:] = sorted([*hypotheses, *new], key=lambda hypothesis: -hypothesis.score)
            scores = [hypothesis.score for hypothesis in hypotheses]
            del hypotheses[self.beam_size :]
            return self._cannot_improve(row, scores, step, search.max_len) or step == search.max_len
        hypotheses.extend(new[: self.beam_size - len(hypotheses)])
        return self.is_finished(step, row, search.max_len, len(hypotheses), self.beam_size)

    def _extend(
        self,
        search: _Search,
        beams: _Beams,
        step: int,
        open_rows: list[int],
        totals: Tensor,
        words: Tensor,
        parents: Tensor,
    ) -> _Beams:
        """Append one word to the hypotheses of the sentences in ``open_rows``.

        Sums, words and parents have shape (B, K).
        """
        row_index = None
        if len(open_rows) < len(beams.sentences):
            row_index = torch.tensor(open_rows, device=words.device)
            totals, words, parents = totals[row_index], words[row_index], parents[row_index]
        totals, words, parents = totals.flatten(), words.flatten(), parents.flatten()
        search.grown.append(Grown(words, totals, parents))
        memory = beams.memory if row_index is None else beams.memory.select(row_index)
        state = beams.state.select(parents, row_index)
        return _Beams(words.unsqueeze(1), totals, memory, state, [beams.sentences[row] for row in open_rows])

    def _results(
        self, search: _Search, device: torch.device
    ) -> tuple[list[list[dict[str, Any]]], list[dict[str, Tensor]]]:
        """Return the hypotheses of each sentence, best first, and the tensors of their steps for ``add_traces``."""
        finished = [
            sorted(hypotheses, key=lambda hypothesis: hypothesis.score, reverse=True) for hypotheses in search.finished
        ]
        all_finished = [hypothesis for hypotheses in finished for hypothesis in hypotheses]
        traced = trace(all_finished, search.grown, search.tensors, self.eos, device)
        results = iter(traced)
        return [[next(results)[0] for _ in hypotheses] for hypotheses in finished], [tensors for _, tensors in traced]


def _check_rounding(factors: str, decoder: StepDecoder[Any, Any]) -> None:
    flag = f"--{factors}-scores"
    if not decoder.output.by_product:
        raise UserError(
            f"{flag} rounds the factors of matrix products, and --query-score concat scores words without them: leave "
            f"{flag} out."
        )
    if factors == INT8 and not (decoder.word_embeddings.device.type == "cpu" and int8_is_exact()):
        raise UserError(
            "--int8-scores is for CPUs on which PyTorch multiplies 8-bit integers exactly, and this model is not on "
            "one: leave --int8-scores out."
        )
