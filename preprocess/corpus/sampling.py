"""Drawing splits from one file, by the digests of the pairs and the seed.

Neither the order of the lines, nor the machine, nor the version of Python matters. A few bytes a pair are kept.
"""

import hashlib
from array import array
from collections.abc import Mapping

import numpy as np

from corpus.leaks import digest

NO_SPLIT = ""


class Draw:
    """Draws every pair's split: pass over the pairs with ``add``, call ``assign``, and pass over them again.

    Args:
        seed: another seed, another draw.
        disjoint: keep the pairs together that are linked by a shared sentence, so that no sentence is in two splits.
        key: when two sentences are the same (``leaks.digest``).
    """

    def __init__(self, seed: int, *, disjoint: bool = False, key: str = "line") -> None:
        self._seed = seed.to_bytes(8, "big")
        self._ranks = array("Q")
        self._disjoint = disjoint
        self._same = key
        self._numbers: dict[bytes, int] = {}  # digest of a sentence -> its number, if disjoint
        self._links = array("l")  # the numbers of each pair's sentences

    def __len__(self) -> int:
        return len(self._ranks)

    def add(self, source: str, target: str) -> None:
        """Note the next pair."""
        text = f"{source}\t{target}".encode()
        rank = hashlib.blake2b(text, digest_size=8, key=self._seed).digest()
        self._ranks.append(int.from_bytes(rank, "big"))
        if self._disjoint:
            for sentence in (source, target):
                self._links.append(self._numbers.setdefault(digest(sentence, self._same), len(self._numbers)))

    def assign(self, sizes: Mapping[str, int], rest: str = NO_SPLIT) -> list[str]:
        """The split of every pair in the order they were added.

        Args:
            sizes: pairs a split; those that come first are filled first.
            rest: the split of all others, or none.
        """
        ranks = np.frombuffer(self._ranks, dtype=np.uint64)
        groups = self._groups(ranks) if self._disjoint else np.argsort(ranks, kind="stable")[:, None]
        splits = [rest] * len(ranks)
        free = dict(sizes)
        for group in groups:
            for name, places in free.items():
                if len(group) <= places:
                    free[name] -= len(group)
                    for index in group:
                        splits[int(index)] = name
                    break
        return splits

    def _groups(self, ranks: "np.ndarray") -> list[list[int]]:
        """The connected components in random order: by the sum of their ranks, so that their size does not matter."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        links = np.array(self._links).reshape(-1, 2).T
        graph = coo_array((np.ones(len(ranks)), links), shape=(len(self._numbers), len(self._numbers)))
        _, components = connected_components(graph, directed=False)
        members: dict[int, list[int]] = {}
        for index, component in enumerate(components[links[0]].tolist()):
            members.setdefault(component, []).append(index)
        return sorted(members.values(), key=lambda group: int(ranks[group].sum()))  # which wraps around at 2 ** 64
