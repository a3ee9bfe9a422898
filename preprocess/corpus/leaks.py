"""Check for leaks between training and held-out data: whole pairs, sources, targets, and sentences on either side.

Only digests of the held-out lines are stored, so the memory depends on the small valid and test sets and not on the
training data. Therefore the held-out splits must be written first, then the training data. Two lines count as equal if
they differ only in case or white space. With ``loose``, they may also differ in all characters other than letters and
digits (``-lrb-`` and ``lrb`` count as brackets).
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

KEYS = ("line", "loose")
DROPPABLE = ("pairs", "sources", "any")
_NOT_LETTERS = re.compile(r"-?[lr][rcs]b-?|[\W_]+")


class LeakCheck:
    """Counts, for every two splits, the lines of one split that share a pair or a sentence with the other.

    Args:
        key: how lines are compared: ``line`` or ``loose``.
        drop: drop a training pair if a held-out split contains the whole pair (``pairs``), its source (``sources``) or
            any of its sides (``any``). Empty = drop no pair.
    """

    def __init__(self, key: str = "line", drop: str = "") -> None:
        self.key = key
        self.drop = drop
        self.counts: dict[str, Counter[str]] = {}
        self._held: dict[str, dict[str, set[bytes]]] = {}
        self._ignored: set[str] = set()

    def ignore(self, split: str) -> None:
        """Do not compare training pairs with a split that shares pairs with them on purpose."""
        self._ignored.add(split)

    def hold_out(self, split: str, source: str, targets: Sequence[str]) -> None:
        """Count the overlap of a held-out line with earlier held-out splits, and store the line."""
        keys = self._keys(source, targets)
        self._compare(split, keys)
        held = self._held.setdefault(split, {name: set() for name in keys})
        for name, digests in keys.items():
            held[name] |= digests

    def leaks(self, split: str, source: str, targets: Sequence[str]) -> bool:
        """Count the overlap of a training line with the held-out splits. Return True if the line must be dropped."""
        if not self._held:
            return False
        return self._compare(split, self._keys(source, targets))

    def report(self) -> dict[str, dict[str, int]]:
        """Return the counts of shared lines for every two splits, with keys such as ``train / test``."""
        return {both: dict(counts) for both, counts in self.counts.items()}

    def _keys(self, source: str, targets: Sequence[str]) -> dict[str, set[bytes]]:
        first = sentence_digest(source, self.key)
        others = [sentence_digest(target, self.key) for target in targets]
        return {
            "pairs": {first + other for other in others},
            "sources": {first},
            "targets": set(others),
            "any": {first, *others},
        }

    def _compare(self, split: str, keys: dict[str, set[bytes]]) -> bool:
        drop = False
        for other, held in self._held.items():
            if other == split or other in self._ignored:
                continue
            counts = self.counts.setdefault(f"{split} / {other}", Counter(dict.fromkeys(keys, 0)))
            for name, digests in keys.items():
                if not digests.isdisjoint(held[name]):
                    counts[name] += 1
                    drop = drop or name == self.drop
        return drop


def sentence_digest(line: str, key: str = "line") -> bytes:
    """Return the digest of a line. Lines that count as equal have equal digests."""
    line = "".join(line.lower().split())
    if key == "loose":
        line = _NOT_LETTERS.sub("", line) or line  # a line of only punctuation is kept
    return hashlib.blake2b(line.encode(), digest_size=12).digest()
