"""Word alignment of sentence pairs: IBM model 1 with a diagonal prior (Dyer et al., NAACL 2013, "fast_align").

With probability ``NULL_SHARE``, a target word at position j of n comes from no source word. Otherwise, it comes from
the source word at position i of m with probability proportional to exp(-``TENSION`` |i / m - j / n|) t(target word |
source word). The table t is learnt by expectation maximisation. A symmetric Dirichlet prior on every row prevents rare
words from attracting spurious links (garbage collection). The tension is constant here, while the paper learns it, too.

The memory needed is about 20 bytes for every distinct pair of words in the same sentence pair, and 4 bytes for every
occurrence.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

NULL_SHARE = 0.08
TENSION = 4.0
ALPHA = 0.01  # parameter of the Dirichlet prior
_CELLS = 2_000_000  # approximate number of cells in a batch

Links = set[tuple[int, int]]


class NumberedText(NamedTuple):
    """One side of all pairs. ``words`` has the numbers of the words from 1, where 0 means no word.

    ``starts`` has the index of the first word of each sentence, and the end.
    """

    words: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Return the number of words of each sentence."""
        return np.diff(self.starts)


class _Batch(NamedTuple):
    """The cells of the alignment tables of some sentence pairs.

    A target word has one cell for each source word and one cell for no source word.
    """

    prior: NDArray[np.float64]
    groups: NDArray[np.int64]  # index of the first cell of each target word
    sizes: NDArray[np.int64]  # number of cells of each target word


def number_words(sentences: Iterable[list[str]], numbers: dict[str, int]) -> NumberedText:
    """Replace words of sentences by numbers. New words are added to ``numbers``."""
    words: list[int] = []
    starts = [0]
    for sentence in sentences:
        words.extend(numbers.setdefault(word, len(numbers) + 1) for word in sentence)
        starts.append(len(words))
    return NumberedText(np.array(words, dtype=np.int64), np.array(starts, dtype=np.int64))


def align(source: NumberedText, target: NumberedText, iterations: int) -> NDArray[np.int64]:
    """Learn the alignment model, and find the most likely source word of every target word.

    Args:
        source: sentences of one side, none of them empty.
        target: the other side of the same sentences.
        iterations: number of iterations of expectation maximisation.

    Returns:
        The position of the source word in its sentence, counted from 0, for every word of ``target``, or -1 for none.
    """
    vocabulary = int(target.words.max()) + 1
    bounds = _bounds(source, target)
    met = [_distinct(_keys(source, target, *bound, vocabulary)) for bound in bounds]
    table_keys = _distinct(np.concatenate(met))
    cells = [_indices(table_keys, _keys(source, target, *bound, vocabulary)) for bound in bounds]
    table = np.ones(len(table_keys))
    for _ in range(iterations):
        counts = np.zeros(len(table_keys))
        for bound, index in zip(bounds, cells, strict=True):
            batch = _batch(source, target, *bound)
            weights = batch.prior * table[index]
            weights /= np.repeat(np.add.reduceat(weights, batch.groups), batch.sizes)
            counts += np.bincount(index, weights, minlength=len(counts))
        table = _maximise(counts, table_keys // vocabulary)
    places = []
    for bound, index in zip(bounds, cells, strict=True):
        batch = _batch(source, target, *bound)
        weights = batch.prior * table[index]
        best = np.repeat(np.maximum.reduceat(weights, batch.groups), batch.sizes)
        first, where = np.unique(np.repeat(batch.groups, batch.sizes)[weights == best], return_index=True)
        places.append(np.flatnonzero(weights == best)[where] - first - 1)
    return np.concatenate(places)


def _bounds(source: NumberedText, target: NumberedText) -> list[tuple[int, int]]:
    """Return the index of the first pair of each batch, followed by the number of pairs."""
    cells = np.cumsum((source.lengths + 1) * target.lengths)
    edges = np.searchsorted(cells, np.arange(_CELLS, cells[-1], _CELLS), side="right")
    edges = np.unique(np.concatenate([[0], edges, [len(cells)]]))
    return list(pairwise(edges.tolist()))


def _batch(source: NumberedText, target: NumberedText, low: int, high: int) -> _Batch:
    """Return the cells of the pairs from ``low`` to ``high``.

    The first cell of a target word represents its alignment with no source word.
    """
    m, n = source.lengths[low:high], target.lengths[low:high]
    lengths = list(zip(m.tolist(), n.tolist(), strict=True))
    priors = {both: _prior(*both) for both in set(lengths)}
    sizes = np.repeat(m + 1, n)
    return _Batch(np.concatenate([priors[both] for both in lengths]), np.cumsum(sizes) - sizes, sizes)


def _prior(m: int, n: int) -> NDArray[np.float64]:
    """Return the prior of all cells of a pair with ``m`` source words and ``n`` target words."""
    prior = np.zeros((n, m + 1))
    prior[:, 1:] = np.exp(-TENSION * np.abs(np.arange(1, m + 1) / m - np.arange(1, n + 1)[:, None] / n))
    sums = np.add.reduceat(prior.ravel(), np.arange(n) * (m + 1))
    prior *= ((1 - NULL_SHARE) / sums)[:, None]
    prior[:, 0] = NULL_SHARE
    return prior.ravel()


def _keys(source: NumberedText, target: NumberedText, low: int, high: int, vocabulary: int) -> NDArray[np.int64]:
    """Return the source word and the target word of each cell, encoded as one number."""
    m, n = source.lengths[low:high], target.lengths[low:high]
    of_word = np.repeat(source.starts[low:high], n)  # the first source word of the pair of each target word
    sizes = np.repeat(m + 1, n)
    i = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # 0 = no source word, else from 1
    words = np.where(i == 0, 0, source.words[np.maximum(np.repeat(of_word, sizes) + i - 1, 0)])
    first, last = target.starts[low], target.starts[high]
    return words * vocabulary + np.repeat(target.words[first:last], sizes)


def _distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sorted distinct keys. np.unique of NumPy 2.4 takes ten times as long."""
    keys = np.sort(keys)
    return keys[np.flatnonzero(np.diff(keys, prepend=-1))]


def _indices(table_keys: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the index of each key in the table. The keys are sorted, because the search is faster in this order."""
    order = np.argsort(keys)
    indices = np.empty(len(keys), dtype=np.int32)
    indices[order] = np.searchsorted(table_keys, keys[order])
    return indices


def _maximise(counts: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return exp(E[log t]) under the posterior of t. Entries of the same row are next to each other."""
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    sizes = np.diff(starts, append=len(rows))
    totals = np.add.reduceat(counts, starts) + ALPHA * sizes
    table: NDArray[np.float64] = np.exp(digamma(counts + ALPHA) - np.repeat(digamma(totals), sizes))
    return table


def symmetrise(forward: Iterable[int], backward: Iterable[int], *, grow: bool) -> Links:
    """Return the links (i, j) found in both directions.

    With ``grow``, add neighbouring links that were found in one direction (grow-diag).

    A link found in only one direction is added if it touches an accepted link (also diagonally) and at least one of its
    words is unlinked (Koehn et al., IWSLT 2005).

    Args:
        forward: source position for each target word. -1 = none.
        backward: target position for each source word. -1 = none.
        grow: whether to add links.
    """
    there = {(i, j) for j, i in enumerate(forward) if i >= 0}
    back = {(i, j) for i, j in enumerate(backward) if j >= 0}
    links, candidates = there & back, sorted(there ^ back)
    while grow and candidates:
        linked_i, linked_j = {i for i, _ in links}, {j for _, j in links}
        for i, j in candidates:
            touches = any((i + di, j + dj) in links for di in (-1, 0, 1) for dj in (-1, 0, 1))
            if touches and (i not in linked_i or j not in linked_j):
                links.add((i, j))
                linked_i.add(i)
                linked_j.add(j)
        left = [link for link in candidates if link not in links]
        if len(left) == len(candidates):
            break
        candidates = left
    return links


class Block(NamedTuple):
    """A phrase pair: the words ``[source[0], source[1])`` of one side and ``[target[0], target[1])`` of the other."""

    source: tuple[int, int]
    target: tuple[int, int]


def smallest_blocks(links: Links) -> Iterator[Block]:
    """Yield, for every link, the smallest phrase pair around it that no link leaves (Koehn et al., NAACL 2003)."""
    targets = _extents(links)
    sources = _extents((j, i) for i, j in links)
    for i, j in sorted(links):
        block = Block((i, i + 1), (j, j + 1))
        while True:
            grown = Block(_union(sources, block.target), _union(targets, block.source))
            if grown == block:
                break
            block = grown
        yield block


def _extents(links: Iterable[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Return the first linked word of the other side, and the end of the last one, for each linked word."""
    extents: dict[int, tuple[int, int]] = {}
    for word, other in links:
        first, end = extents.get(word, (other, other + 1))
        extents[word] = min(first, other), max(end, other + 1)
    return extents


def _union(extents: dict[int, tuple[int, int]], words: tuple[int, int]) -> tuple[int, int]:
    """Return the first word and the end of the smallest span that contains the extents of all linked ``words``."""
    firsts, ends = zip(*(extents[word] for word in range(*words) if word in extents), strict=True)
    return min(firsts), max(ends)
