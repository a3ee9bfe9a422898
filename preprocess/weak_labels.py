"""Write weak labels for DNPG (Li et al., ACL 2019, section 3.2).

They mark the words of a pair that belong to the phrase level.

    python preprocess/weak_labels.py --data data/quora --output data/quora-labels

The words of train and, if it exists, valid are aligned. In every pair, the words of the 1, 2 or 3 aligned phrases with
the rarest words get label 0 on both sides. All other words get label 1. The files ``{train,valid}.{src,tgt}.z`` have
one label for every word of the text. The task ``paraphrase`` reads them with ``--granularity-labels``. The text must be
the text that is given to fairseq-preprocess.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from corpus.alignment import Block, Links, align, number_words, smallest_blocks, symmetrise
from corpus.chance import between
from corpus.command import output_parser, run_once, whole_number
from corpus.output import SIDES, OutputFolder
from corpus.reading import read_words
from tqdm import tqdm

from wean_fairseq.errors import UserError

LABELLED = ("train", "valid")
_MOST_CELLS = 250_000  # maximum product of source and target length in a pair, because time and memory grow with it
PHRASE, SENTENCE = "0", "1"


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = output_parser("weak_labels", __doc__)
    options.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with train.src and train.tgt")
    count = whole_number(1, 1000)
    options.add_argument("--phrases", type=count, default=3, metavar="N", help="maximum number of phrases of a pair")
    options.add_argument(
        "--phrase-length", type=count, default=3, metavar="N", help="maximum number of words of a phrase"
    )
    options.add_argument(
        "--symmetrise",
        choices=("grow-diag", "intersection"),
        default="grow-diag",
        help="combination of both directions' links",
    )
    options.add_argument("--iterations", type=count, default=5, metavar="N", help="of the aligner")
    options.add_argument("--seed", type=whole_number(0), default=1, metavar="S", help="seed of the random numbers")
    return options


def files_of(options: Namespace) -> dict[str, list[Path]]:
    """Return the text files of both sides of each split."""
    files = {split: [options.data / f"{split}.{side}" for side in SIDES] for split in LABELLED}
    if not any(path.exists() for path in files["valid"]):
        del files["valid"]
    return files


def sources(options: Namespace) -> list[Path]:
    """Return the text files to read."""
    return [path for paths in files_of(options).values() for path in paths]


def write(options: Namespace, output: OutputFolder) -> str:
    """Align the text and write the labels. Return a description with the number of labels.

    Raises:
        UserError: if the sides have different lengths, or lines are empty.
    """
    files = files_of(options)
    links = list(align_both(files, options.iterations, grow=options.symmetrise == "grow-diag"))
    output.facts = write_labels(output, files, links, options)
    share = output.facts["phrase_words"] / output.facts["words"]
    return f"wrote labels of {output.sizes()} pairs to {options.output}; {share:.1%} of the words are of phrases"


def align_both(files: dict[str, list[Path]], iterations: int, *, grow: bool) -> Iterator[Links]:
    """Align all splits together, and yield the links of every pair."""
    numbers: dict[str, int] = {}
    # The files are read twice, so that the text does not have to fit into memory.
    sides = [
        number_words((pair[side] for paths in files.values() for _, pair in read_words(paths)), numbers)
        for side in range(len(SIDES))
    ]
    if not len(sides[0].words):
        raise UserError(f"{files['train'][0]} is empty.")
    cells = sides[0].lengths * sides[1].lengths
    if cells.max() > _MOST_CELLS:
        raise UserError(
            f"pair {cells.argmax() + 1} of the text has {sides[0].lengths[cells.argmax()]:,} and "
            f"{sides[1].lengths[cells.argmax()]:,} words, whose product must be at most {_MOST_CELLS:,}: prepare "
            "the text again with shorter pairs."
        )
    forward = align(sides[0], sides[1], iterations).tolist()
    backward = align(sides[1], sides[0], iterations).tolist()
    starts = zip(*(side.starts.tolist() for side in sides), strict=True)
    first = next(starts)
    for last in starts:
        yield symmetrise(forward[first[1] : last[1]], backward[first[0] : last[0]], grow=grow)
        first = last


def write_labels(
    output: OutputFolder, files: dict[str, list[Path]], links: list[Links], options: Namespace
) -> dict[str, int]:
    """Choose the phrases of every pair, write the labels, and count the words with each label."""
    counts = Counter(word for _, pair in read_words(files["train"]) for side in pair for word in side)
    rng, left = Random(options.seed), iter(tqdm(links, desc="labels", leave=False, file=sys.stderr, disable=None))
    words = Counter[str]()
    for split, paths in files.items():
        with output.split(split, [f"{side}.z" for side in SIDES]) as writer:
            for (_, (source, target)), pair_links in zip(read_words(paths), left, strict=False):
                number = between(rng, 1, options.phrases)
                blocks = rarest_blocks(source, target, pair_links, counts, number, options.phrase_length)
                labels = [
                    mark(len(source), [block.source for block in blocks]),
                    mark(len(target), [block.target for block in blocks]),
                ]
                for side in labels:
                    words.update(side)
                writer.write(*(" ".join(side) for side in labels))
    return {"words": words.total(), "phrase_words": words[PHRASE]}


def rarest_blocks(
    source: list[str], target: list[str], links: Links, counts: Counter[str], number: int, longest: int
) -> list[Block]:
    """Return ``number`` phrase pairs with the rarest words.

    They do not overlap and have at most ``longest`` words per side.
    """

    def rarity(block: Block) -> tuple[int, Block]:
        words = source[slice(*block.source)] + target[slice(*block.target)]
        return min(counts[word] for word in words), block

    short = {block for block in smallest_blocks(links) if max(map(length, block)) <= longest}
    chosen: list[Block] = []
    for block in sorted(short, key=rarity):
        if len(chosen) == number:
            break
        # No link leaves a block. Therefore blocks that overlap in the target also overlap in the source. Checking one
        # side is enough.
        if all(block.source[1] <= other.source[0] or other.source[1] <= block.source[0] for other in chosen):
            chosen.append(block)
    return chosen


def length(span: tuple[int, int]) -> int:
    """Return the number of words of a span."""
    return span[1] - span[0]


def mark(words: int, spans: list[tuple[int, int]]) -> list[str]:
    """Return one label for every word."""
    labels = [SENTENCE] * words
    for first, last in spans:
        labels[first:last] = [PHRASE] * (last - first)
    return labels


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_once(parser(), write, arguments, sources=sources, version="1.0")


if __name__ == "__main__":
    sys.exit(main())
