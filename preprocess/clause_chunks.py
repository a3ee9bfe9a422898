"""Split essays into one chunk of clauses per topic. ``ppg`` writes the i-th chunk from the i-th topic.

    python preprocess/clause_chunks.py --data data/zhihu --output data/zhihu-chunks
    python preprocess/clause_chunks.py --generated LOG --output outputs.txt

The first command reads the topic words and tokenised essays in {train,valid,test}.{src,tgt}, and puts ``<chunk>``
between the chunks. Topics are sorted by their first occurrence in the essay. Topics that do not occur come last. Topics
of the test split keep their order, because its essays must not be used. The second command removes the symbol from
outputs. LOG is the output of fairseq-generate. ``--input`` takes plain text instead, with one output per line.
"""

import math
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path

from corpus.command import one_word, preparation_parser, run_preparation
from corpus.outputs import rewrite_outputs
from corpus.plain import plain_files, required_files
from corpus.preparation import MOST_TOPICS, Preparation

from wean_fairseq.errors import UserError
from wean_fairseq.ranges import flag

# The enumeration comma is not in this set, because it separates words.
CLAUSE_ENDS = frozenset(",.;:!?，。；：！？…")
CLOSERS = frozenset("'’”」』)）")


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = preparation_parser("clause_chunks", __doc__)
    group = options.add_mutually_exclusive_group(required=True)
    group.add_argument("--data", type=Path, metavar="DIR", help="directory with {train,valid,test}.{src,tgt}")
    group.add_argument("--generated", type=Path, metavar="LOG", help="remove the symbol from fairseq-generate's output")
    group.add_argument(
        "--input", type=Path, metavar="FILE", help="remove the symbol from a file with one output per line"
    )
    options.add_argument(
        "--chunk-symbol", type=one_word, default="<chunk>", metavar="WORD", help="separator between chunks"
    )
    options.add_argument("--given-order", action="store_true", help="do not change the order of topics")
    return options


def inputs(options: Namespace) -> list[Path]:
    """Return the source files."""
    if options.unit != "words" or options.bpe:
        raise UserError("the essays must be in tokens already: use --unit and --bpe in the script that prepares them.")
    return required_files(options.data)


def split_clauses(tokens: list[str]) -> list[int]:
    """Return the lengths of the clauses.

    A clause ends with its punctuation mark and the closing quotes or brackets that follow.
    """
    lengths, ended = [0], False
    for token in tokens:
        ends = set(token) <= CLAUSE_ENDS
        if ended and not ends and not set(token) <= CLOSERS:
            lengths.append(0)
            ended = False
        ended = ended or ends
        lengths[-1] += 1
    return lengths


def split_evenly(lengths: list[int], parts: int) -> list[int]:
    """Group neighbouring clauses into ``parts`` groups of nearly equal length, and return the lengths of the groups.

    The sum of the squared lengths, and therefore the variance of the lengths, is minimal. Among groupings with the same
    sum, the one with the longest last group is returned. If the last groups are equally long, the groups before them
    are compared in the same way. The time is proportional to the number of clauses multiplied by ``parts``.
    """
    place = [0, *accumulate(lengths)]
    best = [size * size for size in place]  # minimum sum for the first n clauses in one group, then in two groups, ...
    choices = []
    for group in range(2, parts + 1):
        sums, begins = [math.inf] * len(place), [0] * len(place)
        # For a last group from ``begin`` to x = place[end], the sum is x² - 2 x place[begin] + constants[begin]. All
        # groups share x², and the rest is a line in x. ``lowest`` contains the ``begin`` of each line that is the
        # lowest one for some x. Later lines are steeper and x grows, so the lowest line never moves back. Of equal
        # lines, the first one has the longer last group.
        constants = [least + before * before for least, before in zip(best, place, strict=True)]
        lowest, front = [group - 1], 0
        for end in range(group, len(place)):
            x = place[end]
            while front + 1 < len(lowest):
                now, later = lowest[front], lowest[front + 1]
                if constants[later] - constants[now] >= 2 * x * (place[later] - place[now]):
                    break
                front += 1
            begin = begins[end] = lowest[front]
            sums[end] = best[begin] + (x - place[begin]) ** 2
            while len(lowest) - front > 1:  # remove lines that the new line hides
                first, middle = lowest[-2], lowest[-1]
                rise, run = constants[end] - constants[first], place[end] - place[first]
                if rise * (place[middle] - place[first]) > (constants[middle] - constants[first]) * run:
                    break
                lowest.pop()
            lowest.append(end)
        best = sums
        choices.append(begins)
    groups, end = [], len(lengths)
    for begins in reversed(choices):
        groups.append(place[end] - place[begins[end]])
        end = begins[end]
    return [place[end], *reversed(groups)]


def cut(tokens: list[str], parts: int, symbol: str) -> tuple[list[str], bool]:
    """Return the essay with the symbol between its chunks, and True if clauses were split because there were too few.

    Args:
        tokens: the essay.
        parts: number of chunks. An essay with fewer words gets one chunk for each word.
        symbol: separator of the chunks.
    """
    clauses = split_clauses(tokens)
    inside = len(clauses) < parts
    pieces = [1] * len(tokens) if inside else clauses
    chunked, place = [], 0
    for size in split_evenly(pieces, min(parts, len(pieces))):
        chunked += [*tokens[place : place + size], symbol]
        place += size
    return chunked[:-1], inside


def order_topics(topics: list[str], essay: list[str]) -> list[str]:
    """Return the topics in the order of their first occurrence in the essay.

    Topics that do not occur come last, in their given order.
    """
    first = {token: place for place, token in reversed(list(enumerate(essay)))}
    return sorted(topics, key=lambda topic: first.get(topic, len(essay)))


def build(options: Namespace, preparation: Preparation) -> None:
    """Write the splits."""
    counts: Counter[str] = Counter()
    symbol = options.chunk_symbol
    for split, paths in plain_files(options.data).items():
        with preparation.split(split) as writer:
            for where, (source, target) in writer.until_full(preparation.aligned_lines(paths)):
                topics, essay = (preparation.clean(line).split() for line in (source, target))
                if symbol in essay or symbol in topics:
                    raise UserError(f"{where} has the word {symbol}: choose another --chunk-symbol.")
                if not topics or not essay:
                    writer.split.drop("empty_side")
                    continue
                if len(topics) > MOST_TOPICS:  # the time grows with their number multiplied by that of the clauses
                    raise UserError(
                        f"{where} has {len(topics):,} topics, but at most {MOST_TOPICS} are allowed: prepare the text "
                        "again with fewer topics."
                    )
                counts["topics"] += len(topics)
                counts["topics_in_their_essay"] += len([topic for topic in topics if topic in essay])
                chunked, inside = cut(essay, len(topics), symbol)
                counts["essays_cut_inside_of_clauses"] += inside
                if split != "test" and not options.given_order:
                    topics = order_topics(topics, essay)
                writer.add(" ".join(topics), " ".join(chunked))
    preparation.output.facts["chunks"] = dict(sorted(counts.items()))


def remove(options: Namespace) -> int:
    """Remove the symbol from outputs. Return the exit status."""

    def remove_symbol(line: str) -> str:
        return " ".join(token for token in line.split() if token != options.chunk_symbol)

    def change(outputs: list[str]) -> Iterable[str]:
        used, default = ("generated", "input", "output", "overwrite", "chunk_symbol"), parser().get_default
        for name, value in vars(options).items():
            if name not in used and value != default(name):
                raise UserError(f"{flag(name)} is for --data, not for removing the symbol: leave it out.")
        return map(remove_symbol, outputs)

    return rewrite_outputs("clause_chunks", options, change)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    options = parser().parse_args(arguments)
    if options.data is None:
        return remove(options)
    return run_preparation(parser(), build, arguments, inputs=inputs)


if __name__ == "__main__":
    sys.exit(main())
