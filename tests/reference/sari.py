"""SARI's definitions, written as loops over words without counters or arrays.

`corpus` follows Alva-Manchego et al. (2019), and `sentence` follows Xu's own program (2016).
"""

from collections.abc import Sequence

Words = Sequence[str]
Ngrams = list[tuple[str, ...]]


def ngrams(words: Words, order: int) -> Ngrams:
    """Return all n-grams of one order, with repetitions."""
    return [tuple(words[place : place + order]) for place in range(len(words) - order + 1)]


def harmonic(precision: float, recall: float) -> float:
    """Return F1, or 0 if both numbers are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def share(right: float, of: float) -> float:
    """Return the quotient, or 0 if the divisor is 0."""
    return right / of if of else 0.0


def added(source: Ngrams, output: Ngrams, pooled: Ngrams) -> tuple[int, int, int]:
    """Return the numbers of right, proposed and wanted additions, counting distinct n-grams."""
    proposed = {ngram for ngram in output if ngram not in source}
    wanted = {ngram for ngram in pooled if ngram not in source}
    return len(proposed & wanted), len(proposed), len(wanted)


def counts(
    source: Ngrams, output: Ngrams, pooled: Ngrams, weight: int
) -> list[tuple[tuple[int, int, int], tuple[int, int, int]]]:
    """Return (right, proposed, wanted) keeps and deletions for every distinct n-gram of the source."""
    found = []
    for ngram in set(source):
        given, written, asked = weight * source.count(ngram), weight * output.count(ngram), pooled.count(ngram)
        kept, keepable = min(given, written), min(given, asked)
        gone, removable = max(given - written, 0), max(given - asked, 0)
        found.append(((min(kept, keepable), kept, keepable), (min(gone, removable), gone, removable)))
    return found


def corpus(lines: Sequence[tuple[Words, Words, Sequence[Words]]], weight: int | None = None) -> list[float]:
    """Return the F1 of add, keep and delete, from counts summed over the corpus, averaged over the four orders."""
    scores = [0.0, 0.0, 0.0]
    for order in (1, 2, 3, 4):
        sums = [[0, 0, 0] for _ in scores]
        for source, output, references in lines:
            pooled = [ngram for reference in references for ngram in ngrams(reference, order)]
            first, second = ngrams(source, order), ngrams(output, order)
            rows = [(0, added(first, second, pooled))]
            for keep, delete in counts(first, second, pooled, weight or len(references)):
                rows += [(1, keep), (2, delete)]
            for operation, row in rows:
                for place in range(3):
                    sums[operation][place] += row[place]
        for operation, (right, proposed, wanted) in enumerate(sums):
            scores[operation] += 25 * harmonic(share(right, proposed), share(right, wanted))
    return scores


def sentence(source: Words, output: Words, references: Sequence[Words]) -> list[float]:
    """Return the scores of add, keep and delete for one sentence.

    The shares of n-grams are averaged, and the score of deletion is its precision.
    """
    scores = [0.0, 0.0, 0.0]
    for order in (1, 2, 3, 4):
        pooled = [ngram for reference in references for ngram in ngrams(reference, order)]
        first, second = ngrams(source, order), ngrams(output, order)
        right, proposed, wanted = added(first, second, pooled)
        scores[0] += 25 * harmonic(share(right, proposed), share(right, wanted))
        precisions, recalls, deletions = [], [], []
        for ngram in set(first):
            given, written = len(references) * first.count(ngram), len(references) * second.count(ngram)
            kept, keepable = min(given, written), min(given, pooled.count(ngram))
            if kept:
                precisions.append(min(kept, pooled.count(ngram)) / kept)
            if keepable:
                recalls.append(min(kept, pooled.count(ngram)) / keepable)
            if given > written:
                deletions.append(max(given - written - pooled.count(ngram), 0) / (given - written))
        means = [share(sum(values), len(values)) for values in (precisions, recalls, deletions)]
        scores[1] += 25 * harmonic(means[0], means[1])
        scores[2] += 25 * means[2]
    return scores
