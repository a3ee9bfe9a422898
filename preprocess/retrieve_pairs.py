"""Append the most similar training pair to every sentence, for FSET (Kazemnejad et al., ACL 2020).

    python preprocess/retrieve_pairs.py --data data/quora --output data/quora-pairs

Each line x of {train,valid,test}.src becomes ``x <pair> p <pair> q``. Here, (p, q) is the training pair whose p is most
similar to x, by the cosine of their TF-IDF vectors. Targets are unchanged. A training sentence gets no pair that
contains it or its target, because that would reveal the answer. If a sentence shares no word with any p, it gets no
pair.

    python preprocess/retrieve_pairs.py --data data/new --pairs data/quora --output data/new-pairs

The second command appends training pairs from ``--pairs`` to the sentences in another directory, with or without
targets.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from corpus.command import one_word, output_parser, run_once, whole_number
from corpus.output import SIDES, SPLITS, OutputFolder
from corpus.reading import read_words
from sklearn.feature_extraction.text import TfidfVectorizer
from tqdm import tqdm

from wean_fairseq.errors import UserError

CELLS = 1 << 25  # maximum number of similarities in a block (128 MiB, and twice this amount during the computation)

Pair = tuple[str, ...]  # a sentence, and its target if it has one


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = output_parser("retrieve_pairs", __doc__)
    options.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="folder with tokenised {train,valid,test}.{src,tgt}"
    )
    options.add_argument("--pairs", type=Path, metavar="DIR", help="folder with train.{src,tgt}, if not in --data")
    options.add_argument(
        "--pair-symbol", type=one_word, default="<pair>", metavar="WORD", help="separator between the sentences"
    )
    options.add_argument(
        "--max-words",
        type=whole_number(0),
        default=0,
        metavar="N",
        help="truncate sources and training targets to N words first, 0 = no",
    )
    return options


class Retriever:
    """Finds the training pair whose source is most similar to a sentence.

    If several pairs are equally similar, the first one is chosen. Therefore equal pairs are searched only once.

    Args:
        pairs: training pairs to search.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        numbers: dict[Pair, int] = {}
        having: defaultdict[str, list[int]] = defaultdict(list)
        for number, pair in enumerate(pairs):
            if numbers.setdefault(pair, number) == number:
                for sentence in pair:
                    having[sentence].append(len(numbers) - 1)
        self.numbers = np.array(list(numbers.values()))  # index of the first of all equal pairs
        self.vectorizer = TfidfVectorizer(analyzer=str.split, dtype=np.float32)
        # All pairs count for the document frequencies.
        self.vectors = self.vectorizer.fit_transform([source for source, _ in pairs])[self.numbers]
        self.having = {sentence: np.array(rows) for sentence, rows in having.items()}  # pairs that contain a sentence

    def find(self, sentences: Sequence[Pair], *, training: bool) -> Iterator[int]:
        """Return the index of the pair for each sentence, or -1 if no pair shares a word with the sentence.

        Args:
            sentences: sentences, each with its target if it has one.
            training: leave out pairs that contain the sentence or its target.
        """
        rows = max(1, CELLS // self.vectors.shape[0])
        found: dict[Pair, int] = {}
        for start in range(0, len(sentences), rows):
            asked = [pair if training else pair[:1] for pair in sentences[start : start + rows]]
            if block := [pair for pair in dict.fromkeys(asked) if pair not in found]:
                likeness: Any = (self.vectorizer.transform([pair[0] for pair in block]) @ self.vectors.T).toarray()
                for row, sentence in ((row, sentence) for row, pair in enumerate(block) for sentence in pair):
                    if training:
                        likeness[row, self.having.get(sentence, [])] = 0
                best = likeness.argmax(axis=1)
                numbers = np.where(likeness[np.arange(len(block)), best] > 0, self.numbers[best], -1)
                found.update(zip(block, numbers.tolist(), strict=True))
            yield from (found[pair] for pair in asked)


def read_split(folder: Path, split: str, options: Namespace) -> list[Pair]:
    """Return the sentences of a split with their targets, if there are any.

    Raises:
        UserError: if a line is empty or contains the pair symbol, or if the sides have different lengths.
    """
    pairs: list[Pair] = []
    for where, sides in read_words(files_of(folder, split)):
        if any(options.pair_symbol in words for words in sides):
            raise UserError(f"{where} has the word {options.pair_symbol}: choose another --pair-symbol.")
        for side, words in enumerate(sides):
            if options.max_words and (side == 0 or split == "train"):
                del words[options.max_words :]
        pairs.append(tuple(" ".join(words) for words in sides))
    return pairs


def files_of(folder: Path, split: str) -> list[Path]:
    """Return the existing files of a split, the source first. Return an empty list if there is no source."""
    paths = [folder / f"{split}.{side}" for side in SIDES]
    return [path for path in paths if path.is_file()] if paths[0].is_file() else []


def write(options: Namespace, output: OutputFolder) -> str:
    """Write all splits. Return a description of their sizes.

    Raises:
        UserError: see ``read_split``.
    """
    pairs = read_split(options.pairs or options.data, "train", options)
    retriever = Retriever(pairs)
    without = 0
    for split in SPLITS:
        sentences = read_split(options.data, split, options)
        if not sentences:
            continue
        numbers = retriever.find(sentences, training=split == "train")
        progress = tqdm(numbers, total=len(sentences), desc=split, leave=False, disable=None)
        with output.split(split, SIDES[: len(sentences[0])]) as writer:
            for (source, *target), number in zip(sentences, progress, strict=True):
                line = source if number < 0 else f" {options.pair_symbol} ".join([source, *pairs[number]])
                writer.write(line, *target)
                without += number < 0
    output.facts["sentences_without_a_pair"] = without
    return f"wrote {output.sizes()} sentences with their pairs to {options.output}; {without} have none"


def sources(options: Namespace) -> list[Path]:
    """Return the text files to read.

    Raises:
        UserError: if there are no training pairs, or no sentences.
    """
    searched = options.pairs or options.data
    text = [path for split in SPLITS for path in files_of(options.data, split)]
    train = [searched / f"train.{side}" for side in SIDES]
    if not text or not all(path.is_file() and path.stat().st_size for path in train):
        missing = f"{searched} has no train.src and train.tgt" if text else f"{options.data} has no .src"
        raise UserError(f"{missing}: name directories that the scripts of this folder have written.")
    return [*text, *train]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_once(parser(), write, arguments, sources=sources, version="1", libraries=("scikit-learn",))


if __name__ == "__main__":
    sys.exit(main())
