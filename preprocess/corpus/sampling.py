"""Draw splits from one file, using digests of the pairs and the seed.

The result does not depend on the order of the lines, the machine or the version of Python. The draw needs about 100
bytes of memory per pair.
"""

import hashlib
from array import array
from collections.abc import Iterator, Mapping

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from corpus.leaks import sentence_digest

NO_SPLIT = ""


class Draw:
    """Draws a split for every pair. Call ``add`` for each pair, then ``assign``, and then read the pairs again.

    Args:
        seed: seed of the draw.
        disjoint: put pairs that share a sentence into the same split, so that no sentence is in two splits.
        key: how sentences are compared (``leaks.sentence_digest``).
    """

    def __init__(self, seed: int, *, disjoint: bool = False, key: str = "line") -> None:
        self._seed = seed.to_bytes(8, "big")
        self._ranks = array("Q")
        self._disjoint = disjoint
        self._same = key
        self._sentences = array("Q")  # digests of both sentences of each pair, if splits are disjoint

    def __len__(self) -> int:
        return len(self._ranks)

    def add(self, source: str, target: str) -> None:
        """Add the next pair."""
        text = f"{source}\t{target}".encode()
        rank = hashlib.blake2b(text, digest_size=8, key=self._seed).digest()
        self._ranks.append(int.from_bytes(rank, "big"))
        if self._disjoint:
            for sentence in (source, target):
                self._sentences.append(int.from_bytes(sentence_digest(sentence, self._same)[:8], "big"))

    def assign(self, sizes: Mapping[str, int], rest: str = NO_SPLIT) -> list[str]:
        """Return the split of every pair, in the order in which they were added.

        Args:
            sizes: number of pairs for each split. Earlier splits in this mapping are filled first.
            rest: the split of all remaining pairs, if any.
        """
        ranks = np.frombuffer(self._ranks, dtype=np.uint64)
        groups = self._groups(ranks) if self._disjoint else iter(np.argsort(ranks, kind="stable")[:, None])
        splits = [rest] * len(ranks)
        free = dict(sizes)
        for group in groups:
            if not any(free.values()):
                break
            for name, places in free.items():
                if len(group) <= places:
                    free[name] -= len(group)
                    for index in group:
                        splits[int(index)] = name
                    break
        return splits

    def _groups(self, ranks: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the connected components of pairs that share sentences, sorted by the sum of their ranks.

        The order is random for components of any size.
        """
        digests, numbers = np.unique(np.frombuffer(self._sentences, dtype=np.uint64), return_inverse=True)
        links = numbers.astype(np.int32).reshape(-1, 2).T
        graph = coo_array((np.ones(len(ranks), dtype=np.int8), tuple(links)), shape=(len(digests), len(digests)))
        _, components = connected_components(graph, directed=False)
        of_pair = components[links[0]]
        members = np.argsort(of_pair, kind="stable")
        starts = np.flatnonzero(np.diff(of_pair[members], prepend=-1))
        sums = np.add.reduceat(ranks[members], starts)  # the sum wraps around at 2 ** 64
        ends = np.append(starts[1:], len(members))
        for group in np.argsort(sums, kind="stable"):
            yield members[starts[group] : ends[group]]
