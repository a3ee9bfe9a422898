"""Learn word vectors from text with word2vec (gensim), for --topic-vectors and other embeddings.

    python preprocess/word_vectors.py --text data/essays/train.src data/essays/train.tgt --output data/vectors --dim 300

In the papers, PC-SAN starts from GloVe vectors that are as wide as BERT, and MTA-LSTM starts from word2vec vectors.
Both were learnt from unpublished corpora. This script learns vectors from the given text and writes them to
vectors.txt. With one worker and a seed, the same options give identical bytes on one machine.
"""

import logging
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from corpus.command import run_once, whole_number
from corpus.learning import learner_parser, text_lines
from corpus.output import OutputFolder

from wean_fairseq.errors import UserError
from wean_fairseq.optional import LazyModule

gensim_models = LazyModule("gensim.models")  # optional, and it takes a second to import
METHODS = ("skip-gram", "cbow")


class _Sentences:
    """Iterates over the words of each line of the files. Each iteration starts from the beginning."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def __iter__(self) -> Iterator[list[str]]:
        for line in text_lines(self.paths):
            yield line.split(" ")


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = learner_parser("word_vectors", __doc__)
    options.add_argument("--dim", type=whole_number(1, 10_000), default=300, metavar="N", help="width of the vectors")
    options.add_argument("--method", choices=METHODS, default=METHODS[0], help="training method of word2vec")
    options.add_argument(
        "--window", type=whole_number(1, 1000), default=5, metavar="N", help="number of context words on either side"
    )
    options.add_argument(
        "--negative",
        type=whole_number(1, 1000),
        default=5,
        metavar="N",
        help="number of noise words drawn for each word",
    )
    options.add_argument("--min-count", type=whole_number(1), default=2, metavar="N", help="rarer words have no vector")
    options.add_argument(
        "--epochs", type=whole_number(1, 10_000), default=10, metavar="N", help="number of passes over the text"
    )
    return options


def write(options: Namespace, output: OutputFolder) -> str:
    """Learn the vectors and write them as text. Return a description with the number of vectors."""
    logging.getLogger("gensim").setLevel(logging.WARNING)
    sentences = _Sentences(options.text)
    model = gensim_models.Word2Vec(
        vector_size=options.dim,
        window=options.window,
        min_count=options.min_count,
        sg=int(options.method == "skip-gram"),
        negative=options.negative,
        seed=options.seed,
        workers=1,  # with several workers, the order of learning would be random
    )
    model.build_vocab(sentences)
    if not len(model.wv):
        raise UserError(f"no word of the text is seen {options.min_count} times: lower --min-count.")
    model.train(sentences, total_examples=model.corpus_count, epochs=options.epochs)
    if not np.isfinite(model.wv.vectors).all():
        raise UserError("the training diverged, so no vectors are written: lower --epochs.")
    model.wv.save_word2vec_format(str(output.folder / "vectors.txt"), binary=False)
    output.facts["vocabulary"] = len(model.wv)
    return (
        f"wrote {len(model.wv):,} words of {options.dim} numbers to {options.output}, "
        f"from {model.corpus_total_words:,} words"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    libraries = ("gensim", "numpy")
    return run_once(parser(), write, arguments, sources=lambda given: given.text, version="1", libraries=libraries)


if __name__ == "__main__":
    sys.exit(main())
