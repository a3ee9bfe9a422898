"""Compute the scores of all words for all hypotheses of a step, and find the best ones with little memory traffic.

The scores are computed in chunks of words that fit into the cache of a CPU, and each chunk is normalised while it is in
the cache. The log-normaliser of each row is stored, so that each score is read only once. The maximum of each block of
64 words is also stored. The n best words of a sentence are in the n blocks with the highest maxima, so only these
blocks are searched for them. On a GPU, kernel launches cost more than a pass over the scores, so all scores are ranked
at once.

Legend: ``N`` hypotheses of all sentences, ``B`` sentences, ``D`` width of the features, ``V`` words that are scored,
``W`` words including those that can only be copied, ``C`` chunks, ``M`` candidates.
"""

from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..modules import OutputLayer
from ..modules.additive_scores import AdditiveScorer
from ..modules.copying import NEVER
from ..modules.query_embedding import Additive, ConcatScore, Product
from .packed_linear import Int8Linear, PackedLinear

BLOCK = 64
CPU_CHUNK = 2**21  # number of scores in a chunk. They take 8 MiB in float32
GPU_CHUNK = 2**27
# Precision of the factors in the products that compute scores.
EXACT, BF16, INT8 = "exact", "bf16", "int8"


def build_scores(
    output: OutputLayer, embeddings: Tensor, *, num_words: int, max_rows: int, factors: str = EXACT
) -> "VocabularyScores":
    """Create the scores object for the device of the embeddings. The arguments are those of ``VocabularyScores``."""
    whole = embeddings.device.type != "cpu" and max_rows * num_words <= GPU_CHUNK
    return (WholeScores if whole else VocabularyScores)(output.prepared(), embeddings, num_words, max_rows, factors)


class VocabularyScores:
    """Scores of the vocabulary for all steps of a search and for later searches (see ``fits``).

    Each step starts with ``compute``.

    Args:
        output: the model's output layer.
        embeddings: embeddings of the words, with width E, (V or more, E).
        num_words: ``W``.
        max_rows: maximum number of hypotheses of a step.
        factors: number format of the factors in the matrix products, ``EXACT``, ``BF16`` or ``INT8``. Computations
            after the products use float32. The additive scores of ``concat`` are not products and always use float32.
    """

    def __init__(
        self,
        output: OutputLayer,
        embeddings: Tensor,
        num_words: int,
        max_rows: int,
        factors: str = EXACT,
    ) -> None:
        self.output = output
        self.embeddings = embeddings[: output.num_candidates]
        self.num_scored = output.num_candidates
        self.num_words = num_words
        self.factors = factors
        self._products: list[PackedLinear | Int8Linear] = []  # one product for each chunk of words
        self._scorers: list[AdditiveScorer] = []  # one scorer for each chunk of words, only for the additive score
        # for the additive score: projected embeddings of the words. They are the same at every step
        self._candidate_part: Tensor | None = None
        # The chunks stay the same when finished sentences are removed.
        limit = CPU_CHUNK if embeddings.device.type == "cpu" else GPU_CHUNK
        blocks = -(-num_words // BLOCK)
        self.num_chunks = min(blocks, -(-max_rows * blocks * BLOCK // limit))
        self.width = -(-blocks // self.num_chunks) * BLOCK  # number of words in a chunk
        self.max_rows = max_rows
        self._memory = embeddings.new_empty(0, dtype=torch.float)
        self._scores = self._shift = self._maxima = self._memory  # values of the current step, see ``_allocate``

    def fits(self, num_words: int, max_rows: int, factors: str) -> bool:
        """Return True if this object can serve a search with these arguments, as long as the weights are unchanged."""
        same_arguments = self.num_words == num_words and self.max_rows >= max_rows and self.factors == factors
        # the memory is written to, which requires that it was created in the current inference mode
        return same_arguments and self._memory.is_inference() == torch.is_inference_mode_enabled()

    def compute(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Score all words from the features (N, D). Return the log of the summed exponentials of the V scores, (N,)."""
        parts = self._parts(features)
        self._allocate(features.size(0))
        for number, normalised in enumerate(self._scores):
            start = number * self.width
            # number of words that have a score. Other words can only be copied
            count = min(self.width, self.num_scored - start)
            if count < self.width:
                normalised[:, max(count, 0) :] = NEVER
            if count > 0:
                scores = self._chunk(parts, number, slice(start, start + count)).float()  # (N, count)
                if temperature != 1.0:
                    scores.div_(temperature)
                # One fused pass normalises the chunk. A score minus its log-probability is the log-normaliser of the
                # row.
                torch.log_softmax(scores, dim=1, out=normalised[:, :count])
                self._shift[number] = scores[:, 0] - normalised[:, 0]
            # With the maxima of blocks, ``best`` can skip nearly all scores.
            maxima = normalised.view(len(features), -1, BLOCK).amax(dim=2)
            self._maxima[:, number] = maxima
        scored = -(-self.num_scored // self.width)
        return torch.logsumexp(self._shift[:scored], dim=0)

    def get(self, words: Tensor) -> Tensor:
        """Return the scores of the words (N, M) in float32, with the same shape."""
        chunk, rows, place = self._places(words)
        return self._scores[chunk, rows, place] + self._shift[chunk, rows]

    def put(self, words: Tensor, scores: Tensor) -> None:
        """Replace the scores of the words, both of shape (N, M).

        If a row contains a word twice, its scores must be equal.
        """
        chunk, rows, place = self._places(words)
        # The stored scores are relative to the normaliser of the chunk. The maxima of blocks must be updated after
        # every change.
        self._scores[chunk, rows, place] = scores - self._shift[chunk, rows]
        blocks = words // BLOCK
        self._maxima.flatten(1)[rows, blocks] = self._blocks(rows, blocks).amax(dim=2)

    def best(
        self, normaliser: Tensor, sums: Tensor | None, sentences: int, count: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best continuations of each sentence. The hypotheses of a sentence must be next to each other.

        Args:
            normaliser: value to subtract from the scores to get log-probabilities, (N,).
            sums: summed log-probabilities of the hypotheses so far, (N,). ``None`` at the first step.
            sentences: ``B``.
            count: ``M``.

        Returns:
            The sums (best first), words, and hypotheses (numbered within the sentence) of the continuations, each of
            shape (B, M).
        """
        # First, rank the blocks of all hypotheses of a sentence by their best total. The M best words must be in the M
        # best blocks, because each of these blocks contains a word that is better than every word in the other blocks.
        num_blocks = self._maxima[0].numel()
        group = len(normaliser) // sentences
        # values to subtract from the scores in each chunk to get log-probabilities, (N, C)
        normalisers = (normaliser - self._shift).t()
        totals = _totals(self._maxima, normalisers, None if sums is None else sums.unsqueeze(1)).view(sentences, -1)
        best_blocks = totals.topk(min(count, totals.size(1)), sorted=False).indices  # (B, m)
        # Then rank the words in these blocks, and translate each result back into its block, word and hypothesis.
        beams, blocks = best_blocks // num_blocks, best_blocks % num_blocks
        rows = beams + torch.arange(sentences, device=beams.device).unsqueeze(1) * group
        normalisers = normalisers[rows, blocks * BLOCK // self.width]
        block_totals = _totals(
            self._blocks(rows, blocks), normalisers, None if sums is None else sums[rows]
        )  # totals of the words in the best blocks, (B, number of blocks, BLOCK)
        best, places = block_totals.flatten(1).topk(count)
        chosen = places // BLOCK
        words = blocks.gather(1, chosen) * BLOCK + places % BLOCK
        if words.is_cpu:  # if all scores are NaN, a selected position may be after the last word
            words.clamp_(max=self.num_words - 1)
        return best, words, beams.gather(1, chosen)

    def mix(self, weight: Tensor, other: Self, other_weight: Tensor) -> None:
        """Replace each score by log(exp(score + weight) + exp(score of ``other`` + other_weight)).

        Weights have shape (N,).

        ``other`` must have been created with the same arguments and must also have computed a step. Its scores are
        overwritten.
        """
        for number, scores in enumerate(self._scores):
            scores.add_((self._shift[number] + weight).unsqueeze(1))
            other_scores = other._scores[number].add_((other._shift[number] + other_weight).unsqueeze(1))
            torch.logaddexp(scores, other_scores, out=scores)
            self._maxima[:, number] = scores.view(len(weight), -1, BLOCK).amax(dim=2)
        self._shift.zero_()

    def _parts(self, features: Tensor) -> Product | Additive:
        score = getattr(self.output, "score", None)
        if isinstance(score, ConcatScore):
            if self._candidate_part is None:
                self._candidate_part = score.embed_proj(self.embeddings)
            return Additive(score.query_proj(features), self._candidate_part, score.vector)
        return self.output.parts(features, self.embeddings)

    def _chunk(self, parts: Product | Additive, number: int, words: slice) -> Tensor:
        """Return the scores of a chunk of words: (N, words)."""
        if isinstance(parts, Additive):
            return self._additive_chunk(parts, number, words)
        if number == len(self._products):  # the product is created at the first step and used at every later step
            weight, bias = parts.weight[words], None if parts.bias is None else parts.bias[words]
            if self.factors == BF16:
                weight, bias = weight.bfloat16(), None if bias is None else bias.bfloat16()
            product = Int8Linear if self.factors == INT8 else PackedLinear
            self._products.append(product(weight, bias, self.max_rows))
        return self._products[number](parts.query)

    def _additive_chunk(self, parts: Additive, number: int, words: slice) -> Tensor:
        query, candidates, vector = parts
        with torch.autocast(query.device.type, enabled=False):
            if number == len(self._scorers):
                self._scorers.append(AdditiveScorer(query, candidates[words], vector, wants_grad=False))
            else:
                self._scorers[number].set_queries(query)
            return self._scorers[number].scores(slice(None)).to(query.dtype)

    def _allocate(self, rows: int) -> None:
        if not len(self._memory):
            self._memory = self._memory.new_empty(self.num_chunks * self.max_rows * self.width)
        size = (self.num_chunks, rows, self.width)
        # scores relative to the normalisers in ``_shift``
        self._scores = self._memory[: self.num_chunks * rows * self.width].view(size)
        self._shift = self._memory.new_zeros(self.num_chunks, rows)
        self._maxima = self._memory.new_empty(rows, self.num_chunks, self.width // BLOCK)

    def _places(self, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the chunks, the rows, and the positions within the chunks of words (N, M).

        They broadcast to (N, M).
        """
        rows = torch.arange(len(words), device=words.device).unsqueeze(1)
        return words // self.width, rows, words % self.width

    def _blocks(self, rows: Tensor, blocks: Tensor) -> Tensor:
        """Return the scores of some hypotheses in some blocks of words.

        The arguments broadcast to (..., M), and the result has shape (..., M, BLOCK).
        """
        each = self.width // BLOCK
        scores = self._scores.view(*self._scores.shape[:2], each, BLOCK)
        return scores[blocks // each, rows, blocks % each]


class WholeScores(VocabularyScores):
    """``VocabularyScores`` without chunks and blocks.

    Its methods consist of few operations, but each operation reads all scores.
    """

    def compute(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """See ``VocabularyScores``."""
        scores = self._chunk(self._parts(features), 0, slice(0, self.num_scored)).float()  # (N, V)
        if temperature != 1.0:
            scores = scores / temperature
        never = self.num_words - self.num_scored  # number of words that can only be copied
        self._scores = pad(scores, (0, never), value=NEVER) if never else scores  # (N, W)
        return torch.logsumexp(scores, dim=1)

    def get(self, words: Tensor) -> Tensor:
        """See ``VocabularyScores``."""
        return self._scores.gather(1, words)

    def put(self, words: Tensor, scores: Tensor) -> None:
        """See ``VocabularyScores``."""
        self._scores.scatter_(1, words, scores)

    def mix(self, weight: Tensor, other: Self, other_weight: Tensor) -> None:
        """See ``VocabularyScores``."""
        weights = weight.unsqueeze(1), other_weight.unsqueeze(1)
        self._scores = torch.logaddexp(self._scores + weights[0], other._scores + weights[1])

    def best(
        self, normaliser: Tensor, sums: Tensor | None, sentences: int, count: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``VocabularyScores``."""
        best, places = _totals(self._scores, normaliser, sums).view(sentences, -1).topk(count)
        return best, places % self.num_words, places // self.num_words


def _totals(scores: Tensor, taken: Tensor, sums: Tensor | None) -> Tensor:
    """Return summed log-probabilities after one more word, in fairseq's order: ``(scores - taken) + sums``.

    Shapes (..., M), (...), (...) -> (..., M).
    """
    totals = scores - taken.unsqueeze(-1)
    if sums is not None:
        totals += sums.unsqueeze(-1)
    return totals.nan_to_num_(nan=NEVER, posinf=torch.inf, neginf=-torch.inf)
