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

from ..errors import UserError
from ..models.base import State
from ..modules.query_embedding import ConcatScore
from .decoder_steps import DecoderSteps, steps_of
from .generator import PaperSequenceGenerator, TopAwareBeamSearch
from .hypotheses import Finished, HypothesisTree
from .vocabulary_scores import NEVER, VocabularyScores

SPECIAL = 3  # words that may be forbidden at a step: padding, the end, <unk>


@dataclass
class _Beams:
    """The hypotheses before a step."""

    words: Tensor  # the last one, or all so far where the decoder reads them: (N, 1) or (N, T)
    totals: Tensor | None  # sums of log-probabilities, (N,); None at the first step
    encoder_out: Any
    state: State
    sentences: list[int]  # their numbers in the batch, B


@dataclass
class _Search:
    """What stays for a whole batch."""

    steps: DecoderSteps
    scores: VocabularyScores
    max_len: int
    tree: HypothesisTree = field(default_factory=HypothesisTree)
    finished: list[list[Finished]] = field(default_factory=list)  # of each sentence of the batch


class FastSequenceGenerator(PaperSequenceGenerator):
    """Beam search for one recurrent model; anything else is left to fairseq's own loop.

    That is: ensembles, language models, other searches than plain beam search, forced beginnings, blocked n-grams,
    suppressed words, outputs as long as the source, copying with a temperature, and beams that are wide for the
    vocabulary.

    Args:
        models: as fairseq's.
        tgt_dict: as fairseq's.
        bf16_scores: score words in bfloat16: faster where the hardware has it, and not exact. What fairseq's loop
            searches stays as it is.
        kwargs: as ``PaperSequenceGenerator``.

    Raises:
        UserError: if words are scored in a way that ``bf16_scores`` does not know.
    """

    def __init__(
        self, models: list[torch.nn.Module], tgt_dict: Dictionary, bf16_scores: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(models, tgt_dict, **kwargs)
        self.bf16_scores = bf16_scores
        # Whether batches are searched here, unless one of them asks for what is left to fairseq.
        steps = self._new_steps()
        self.is_fast = steps is not None
        if bf16_scores and steps is not None and isinstance(steps.output.score, ConcatScore):
            raise UserError(
                "--bf16-scores rounds the factors of matrix products, and --query-score concat scores words without "
                "them: leave --bf16-scores out."
            )

    @staticmethod
    def knows(models: list[torch.nn.Module]) -> bool:
        """Whether ``models`` is one model that this class can search with."""
        return len(models) == 1 and steps_of(models[0]) is not None

    def _is_plain(self) -> bool:
        """Whether the options ask for nothing that needs the log-probabilities of all words."""
        plain = type(self.search) in (BeamSearch, TopAwareBeamSearch)
        others = (self.repeat_ngram_blocker, self.lm_model, self.token_indices_to_suppress)
        return plain and all(other is None for other in others) and not self.match_source_len

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> list[list[dict[str, Any]]]:
        source = sample["net_input"].get("src_tokens")
        steps = self._new_steps() if prefix_tokens is None and constraints is None else None
        if source is None or steps is None:
            found: list[list[dict[str, Any]]] = super()._generate(sample, prefix_tokens, constraints, bos_token)
            return found
        max_len = min(int(self.max_len_a * source.size(1) + self.max_len_b), self.max_len - 1)
        assert self.min_len <= max_len, "min_len cannot be larger than max_len, please adjust these!"
        encoder_out = self.model.forward_encoder(sample["net_input"])[0]
        embeddings = steps.decoder.embed_tokens.weight
        rows = source.size(0) * self.beam_size
        scores = VocabularyScores(steps.output, embeddings, self.vocab_size, rows, self.bf16_scores)
        search = _Search(steps, scores, max_len, finished=[[] for _ in source])
        first = source.new_full((source.size(0), 1), self.eos if bos_token is None else bos_token)
        beams: _Beams | None = _Beams(first, None, encoder_out, {}, list(range(source.size(0))))
        for step in range(max_len + 1):
            assert beams is not None
            beams = self._step(search, beams, step)
            if beams is None:
                break
        return self._results(search, source.device)

    def _new_steps(self) -> DecoderSteps | None:
        """Steps for a search; ``None`` where it is left to fairseq's loop."""
        models = list(self.model.models)
        steps = steps_of(models[0]) if self.knows(models) and self._is_plain() else None
        if steps is None or (steps.normalises and self.temperature != 1.0):
            return None
        return steps if 2 * self.beam_size <= steps.output.num_candidates - SPECIAL else None

    def _step(self, search: _Search, beams: _Beams, step: int) -> _Beams | None:
        """Everything from one word to the next; ``None`` when all sentences are done."""
        normaliser = self._score(search, beams, step)
        sentences, wide = len(beams.sentences), 2 * self.beam_size
        if step == search.max_len:
            totals, words, parents = self._only_ends(search, beams, normaliser)
        else:
            totals, words, parents = search.scores.best(normaliser, beams.totals, sentences, wide)
        ends = words.eq(self.eos)
        done = self._finish(search, beams, step, totals, ends, parents)
        kept = [row for row in range(sentences) if row not in done]
        if not kept:
            return None
        assert step < search.max_len, "a sentence has no finite score for its end"
        # The best K that do not end, in their order.
        order = (
            (ends.long() * wide + torch.arange(wide, device=ends.device)).topk(self.beam_size, largest=False).indices
        )
        chosen = (part.gather(1, order) for part in (totals, words, parents))
        return self._go_on(search, beams, step, kept, *chosen)

    def _score(self, search: _Search, beams: _Beams, step: int) -> Tensor:
        """Score all words; returns what to take from the scores for log-probabilities, (N,)."""
        now = search.steps.run(beams.words, beams.encoder_out, beams.state)
        log_sum = search.scores.compute(now.features, self.temperature)
        normaliser = search.steps.finish(now, search.scores, log_sum, beams.encoder_out)
        if now.attention is not None:
            search.tree.attend(now.attention)
        special = torch.tensor([self.pad, self.unk, self.eos], device=log_sum.device).expand(len(log_sum), SPECIAL)
        ending = NEVER if step < self.min_len else 0.0
        change = log_sum.new_tensor([NEVER, -self.unk_penalty, ending])
        search.scores.put(special, search.scores.get(special) + change)
        return normaliser

    def _only_ends(self, search: _Search, beams: _Beams, normaliser: Tensor) -> tuple[Tensor, Tensor, Tensor]:
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

        Args:
            search: gets them.
            beams: before the step.
            step: from 0.
            totals: sums of the candidates, (B, M).
            ends: which of them end, (B, M).
            parents: their hypotheses within the sentence, (B, M).
        """
        if isinstance(self.search, TopAwareBeamSearch):
            self.search.look_at(totals, ends)
        ending = ends[:, : self.beam_size] & totals[:, : self.beam_size].ne(NEVER)
        rows, places = ending.nonzero(as_tuple=True)
        if not len(rows):
            return set()
        sums = totals[rows, places]
        scores = sums / (step + 1) ** self.len_penalty if self.normalize_scores else sums
        group = len(beams.words) // len(beams.sentences)
        starts = rows * group + parents[rows, places]
        new: dict[int, list[Finished]] = {}
        for row, start, total, score in zip(*(part.tolist() for part in (rows, starts, sums, scores)), strict=True):
            new.setdefault(row, []).append(Finished(step, start, total, score))
        return {row for row, found in new.items() if self._settle(search, beams.sentences[row], row, found, step)}

    def _settle(self, search: _Search, sentence: int, row: int, new: list[Finished], step: int) -> bool:
        """Add new finished hypotheses to a sentence's; returns whether it is done."""
        kept = search.finished[sentence]
        if self.stop_when_nothing_better:
            kept[:] = sorted([*kept, *new], key=lambda hypothesis: -hypothesis.score)
            scores = [hypothesis.score for hypothesis in kept]
            del kept[self.beam_size :]
            return self._nothing_better(row, scores, step, search.max_len) or step == search.max_len
        kept.extend(new[: self.beam_size - len(kept)])
        return self.is_finished(step, row, search.max_len, len(kept), self.beam_size)

    def _go_on(
        self, search: _Search, beams: _Beams, step: int, kept: list[int], totals: Tensor, words: Tensor, parents: Tensor
    ) -> _Beams:
        """The hypotheses of the sentences in rows ``kept`` with one more word: three (B, K) each."""
        sentences = len(beams.sentences)
        group = len(beams.words) // sentences
        rows = torch.arange(sentences, device=words.device).unsqueeze(1)
        parents = rows * group + parents
        dropped = len(kept) < sentences
        if dropped:
            rows = rows[kept]
            totals, words, parents = totals[kept], words[kept], parents[kept]
        totals, words, parents = totals.flatten(), words.flatten(), parents.flatten()
        search.tree.grow(words, totals, parents)
        search.steps.decoder.reorder_incremental_state_scripting(beams.state, parents)
        encoder_out = beams.encoder_out
        encoder = self.model.single_model.encoder
        if search.steps.shares_source:
            if dropped:
                encoder_out = encoder.reorder_encoder_out(encoder_out, rows.squeeze(1))
        elif dropped or step == 0:  # all hypotheses of a sentence have the same source
            encoder_out = encoder.reorder_encoder_out(encoder_out, (rows * group).repeat(1, self.beam_size).flatten())
        history = words.unsqueeze(1)
        if search.steps.reads_history:
            history = torch.cat([beams.words[parents], history], dim=1)
        return _Beams(history, totals, encoder_out, beams.state, [beams.sentences[row] for row in kept])

    def _results(self, search: _Search, device: torch.device) -> list[list[dict[str, Any]]]:
        """The finished hypotheses of each sentence, best first."""
        traced = iter(search.tree.trace([one for found in search.finished for one in found], self.eos, device))
        results = []
        for found in search.finished:
            hypotheses = [next(traced) for _ in found]
            order = torch.tensor([one.score for one in found]).sort(descending=True).indices.tolist()
            results.append([hypotheses[place] for place in order])
        return results
