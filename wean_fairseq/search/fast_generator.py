"""fairseq's beam search, faster: the same outputs, scores and order from far fewer passes over the vocabulary.

What fairseq's generator does and this one does not: normalise, mask and sum over all words of all hypotheses in turn,
rank all words of a sentence at once, compute the first step once for each hypothesis of the beam although they are all
the same, and reorder everything that depends on the source after every step.

Legend: ``B`` sentences still searched, ``K`` beam, ``N`` hypotheses (B at the first step, B * K afterwards), ``M``
candidates of a sentence, 2 * K.
"""

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
from .generator import PaperSequenceGenerator, TopAwareBeamSearch, log_known
from .hypotheses import Finished, Grown, trace
from .laid_out import LaidOut
from .packed_linear import int8_is_exact
from .vocabulary_scores import EXACT, INT8, VocabularyScores

SPECIAL = 3  # words that may be forbidden at a step: padding, the end, <unk>


@dataclass
class _Beams:
    """The hypotheses before a step."""

    words: Tensor  # the last one, (N, 1)
    totals: Tensor | None  # sums of log-probabilities, (N,); None at the first step
    memory: Memory
    state: State
    sentences: list[int]  # their numbers in the batch, B


@dataclass
class _Search:
    """The parts of a search that stay for a whole batch."""

    decoder: StepDecoder[Any, Any]
    scores: VocabularyScores
    max_len: int
    special: Tensor  # words that may be forbidden at a step, (1, SPECIAL)
    change: Tensor  # what is added to their scores: before an output may end, and from then on, (2, SPECIAL)
    finished: list[list[Finished]]  # of each sentence of the batch
    grown: list[Grown] = field(default_factory=list)  # of each step
    attention: list[Tensor] = field(default_factory=list)  # of each step, (N, S)


class FastSequenceGenerator(PaperSequenceGenerator):
    """Beam search for one model with a ``StepDecoder``; anything else is left to fairseq's own loop.

    That is: ensembles, language models, other searches than plain beam search, forced beginnings, blocked n-grams,
    suppressed words, outputs as long as the source, copying with a temperature, and beams that are wide for the
    vocabulary.

    Args:
        factors: ``EXACT``, or what the factors of the scores' products are rounded to: ``BF16`` is faster where the
            hardware has it, ``INT8`` faster still on a CPU, for the decoder's large linear maps too. What fairseq's
            loop searches stays as it is.
        kwargs: as ``PaperSequenceGenerator``.

    Raises:
        UserError: if the words of this model, or on this machine, cannot be scored so.
    """

    def __init__(
        self, models: list[torch.nn.Module], tgt_dict: Dictionary, factors: str = EXACT, **kwargs: Any
    ) -> None:
        super().__init__(models, tgt_dict, **kwargs)
        self.factors = factors
        # Whether batches are searched here, unless one of them asks for what is left to fairseq.
        decoder = self._fast_decoder()
        self.is_fast = decoder is not None
        if factors != EXACT and decoder is not None:
            _check_rounding(factors, decoder)

    def release(self) -> None:
        """Free the packed weights, which the next search packs again."""
        self.__dict__.pop("_laid_out", None)

    @staticmethod
    def supports(models: list[torch.nn.Module]) -> bool:
        """Whether ``models`` is one model that this class can search with."""
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
            found: list[list[dict[str, Any]]] = super()._generate(sample, prefix_tokens, constraints, bos_token)
            return found
        max_len = min(int(self.max_len_a * source.size(1) + self.max_len_b), self.max_len - 1)
        assert self.min_len <= max_len, "min_len cannot be larger than max_len, please adjust these!"
        encoder_out = self.model.forward_encoder(sample["net_input"])[0]
        # Taken in one operation: a search in another thread finds none and packs its own.
        laid_out: LaidOut | None = self.__dict__.pop("_laid_out", None)
        wanted = (decoder, self.vocab_size, source.size(0) * self.beam_size, self.factors)
        if laid_out is None or not laid_out.fits(*wanted):
            laid_out = None  # before the next takes as much memory
            laid_out = LaidOut(*wanted)
        memory = laid_out.decoder.remember(encoder_out)
        special = torch.tensor([[self.pad, self.unk, self.eos]], device=source.device)
        never, unknown = NEVER, -self.unk_penalty
        change = torch.tensor([[never, unknown, never], [never, unknown, 0.0]], device=source.device)
        search = _Search(laid_out.decoder, laid_out.scores, max_len, special, change, [[] for _ in source])
        first = source.new_full((source.size(0), 1), self.eos if bos_token is None else bos_token)
        beams: _Beams | None = _Beams(first, None, memory, search.decoder.begin(memory), list(range(source.size(0))))
        for step in range(max_len + 1):
            assert beams is not None
            beams = self._step(search, beams, step)
            if beams is None:
                break
        if laid_out.can_be_kept:
            self._laid_out = laid_out
        return self._results(search, source.device)

    def _fast_decoder(self) -> StepDecoder[Any, Any] | None:
        """The decoder that is searched here; ``None`` where that is left to fairseq's loop."""
        models = list(self.model.models)
        # Other searches and these options need the log-probabilities of all words.
        others = (self.repeat_ngram_blocker, self.lm_model, self.token_indices_to_suppress)
        plain = all(other is None for other in others) and not self.match_source_len
        if not (plain and self.supports(models) and type(self.search) in (BeamSearch, TopAwareBeamSearch)):
            return None
        decoder = models[0].decoder
        if capabilities_of(models[0]).normalises and self.temperature != 1.0:
            return None
        return decoder if 2 * self.beam_size <= decoder.output.num_candidates - SPECIAL else None

    def _step(self, search: _Search, beams: _Beams, step: int) -> _Beams | None:
        """Everything from one word to the next; ``None`` when all sentences are done."""
        normaliser = self._score(search, beams, step)
        sentences, wide = len(beams.sentences), 2 * self.beam_size
        if step == search.max_len:
            totals, words, parents = self._end_candidates(search, beams, normaliser)
        else:
            totals, words, parents = search.scores.best(normaliser, beams.totals, sentences, wide)
        rows = torch.arange(sentences, device=words.device).unsqueeze(1)
        parents = parents + rows * (len(beams.words) // sentences)
        ends = words.eq(self.eos)
        done = self._finish(search, beams, step, totals, ends, parents)
        kept = [row for row in range(sentences) if row not in done]
        if not kept:
            return None
        assert step < search.max_len, "a sentence has no finite score for its end"
        # The best K that do not end, in their order.
        order = ends.byte().sort(dim=1, stable=True).indices[:, : self.beam_size]
        chosen = (part.gather(1, order) for part in (totals, words, parents))
        return self._extend(search, beams, step, kept, *chosen)

    def _score(self, search: _Search, beams: _Beams, step: int) -> Tensor:
        """Score all words; returns what to take from the scores for log-probabilities, (N,)."""
        now, beams.state = search.decoder.step(beams.words, beams.memory, beams.state)
        log_sum = search.scores.compute(now.features[:, 0], self.temperature)
        normaliser = search.decoder.finish(now, beams.memory, search.scores, log_sum)
        if now.attention is not None:
            search.attention.append(now.attention[:, 0])
        special = search.special.expand(len(log_sum), SPECIAL)
        given = search.scores.get(special)
        search.scores.put(special, given + search.change[int(step >= self.min_len)])
        return normaliser + log_known(given[:, 1] - normaliser) if self.renormalise else normaliser

    def _end_candidates(self, search: _Search, beams: _Beams, normaliser: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Candidates of the last step, at which every hypothesis must end: (B, K) each, at the first step (B, 1)."""
        ends = torch.full_like(normaliser, self.eos, dtype=torch.long)
        totals = search.scores.get(ends.unsqueeze(1)).squeeze(1) - normaliser
        if beams.totals is not None:
            totals = totals + beams.totals
        totals, parents = totals.view(len(beams.sentences), -1).sort(dim=1, descending=True)
        return totals, ends.view_as(totals), parents

    def _finish(
        self, search: _Search, beams: _Beams, step: int, totals: Tensor, ends: Tensor, parents: Tensor
    ) -> set[int]:
        """Keep the hypotheses that end among the best K candidates; returns the rows of the sentences that are done.

        Of the candidates come their sums, which of them end, and their hypotheses, (B, M) each.
        """
        if isinstance(self.search, TopAwareBeamSearch):
            self.search.observe(totals, ends)
        ending = ends[:, : self.beam_size] & totals[:, : self.beam_size].ne(NEVER)
        rows, places = ending.nonzero(as_tuple=True)
        if not len(rows):
            return set()
        sums = totals[rows, places]
        scores = sums / (step + 1) ** self.len_penalty if self.normalize_scores else sums
        found = (rows, parents[rows, places], sums, scores)
        new: dict[int, list[Finished]] = {}
        for row, start, total, score in zip(*(part.tolist() for part in found), strict=True):
            new.setdefault(row, []).append(Finished(step, start, total, score))
        return {row for row, ended in new.items() if self._add_finished(search, beams.sentences[row], row, ended, step)}

    def _add_finished(self, search: _Search, sentence: int, row: int, new: list[Finished], step: int) -> bool:
        """Add new finished hypotheses to a sentence's; returns whether it is done."""
        kept = search.finished[sentence]
        if self.stop_when_nothing_better:
            kept[:] = sorted([*kept, *new], key=lambda hypothesis: -hypothesis.score)
            scores = [hypothesis.score for hypothesis in kept]
            del kept[self.beam_size :]
            return self._cannot_improve(row, scores, step, search.max_len) or step == search.max_len
        kept.extend(new[: self.beam_size - len(kept)])
        return self.is_finished(step, row, search.max_len, len(kept), self.beam_size)

    def _extend(
        self, search: _Search, beams: _Beams, step: int, kept: list[int], totals: Tensor, words: Tensor, parents: Tensor
    ) -> _Beams:
        """The hypotheses of the sentences in rows ``kept`` with one more word: three (B, K) each."""
        going = None
        if len(kept) < len(beams.sentences):
            going = torch.tensor(kept, device=words.device)
            totals, words, parents = totals[going], words[going], parents[going]
        totals, words, parents = totals.flatten(), words.flatten(), parents.flatten()
        search.grown.append(Grown(words, totals, parents))
        memory = beams.memory if going is None else beams.memory.select(going)
        state = beams.state.select(parents, going)
        return _Beams(words.unsqueeze(1), totals, memory, state, [beams.sentences[row] for row in kept])

    def _results(self, search: _Search, device: torch.device) -> list[list[dict[str, Any]]]:
        finished = [sorted(found, key=lambda one: one.score, reverse=True) for found in search.finished]
        every = [one for found in finished for one in found]
        traced = iter(trace(every, search.grown, search.attention, self.eos, device))
        return [[next(traced) for _ in found] for found in finished]


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
