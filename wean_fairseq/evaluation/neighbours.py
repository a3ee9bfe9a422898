"""Nearest neighbours of words in a trained embedding: WEAN's claim is that it learns what words mean.

    python -m wean_fairseq.evaluation.neighbours --checkpoint checkpoint_best.pt --dict dict.src.txt build big quickly

Prints for every word the most similar ones by cosine. With ``--synonyms`` (a file with a set of synonyms a line) it
also counts how often a word's nearest neighbours hold one of its synonyms. ``--checkpoint`` is loaded with torch's
safe loader.
"""

import argparse
import logging
import random
import sys
from collections.abc import Sequence

import torch
from torch import Tensor

from ..console import exit_status
from ..errors import UserError
from .text_files import read_lines

EMBEDDING = "encoder.embed_tokens.weight"
SPECIALS = 4  # what fairseq's dictionaries start with: <s>, <pad>, </s>, <unk>
PADDING_WORD = "madeupword"  # what they end with, to reach a round number


def load_words(path: str) -> list[str]:
    """The words of a fairseq dictionary file, in order.

    Raises:
        UserError: if the file is missing, or no dictionary.
    """
    words = []
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.removesuffix(" #fairseq:overwrite").rsplit(" ", 1)
        if len(fields) != 2 or not fields[1].isdigit():
            raise UserError(f"{path}, line {number}: {line[:40]!r} is not 'word count'; give a dict.*.txt of fairseq.")
        words.append(fields[0])
    return words


def load_embedding(checkpoint: str, dictionary: str, name: str = EMBEDDING) -> tuple[list[str], Tensor]:
    """The words of a checkpoint and their embedding, each row of length 1: shape (words, width).

    Raises:
        UserError: if a file cannot be read, there is no such embedding, or it has another number of words.
    """
    from ..checkpoints.export import read_model

    words = load_words(dictionary)
    weights: dict[str, Tensor] = read_model(checkpoint)["model"]
    if name not in weights:
        matrices = [key for key in weights if "embed" in key]
        raise UserError(f"{checkpoint} has no {name!r}; it has {', '.join(matrices) or 'no embedding at all'}.")
    embedding = weights[name]
    if embedding.size(0) != len(words) + SPECIALS:
        raise UserError(
            f"{checkpoint} embeds {embedding.size(0) - SPECIALS} words but the dictionary has {len(words)}; "
            "give the dictionary of that training."
        )
    rows = [row for row, word in enumerate(words) if not word.startswith(PADDING_WORD)]
    embedding = embedding[[SPECIALS + row for row in rows]]
    return [words[row] for row in rows], torch.nn.functional.normalize(embedding.float(), dim=1)


def nearest(embedding: Tensor, row: int, number: int) -> list[tuple[int, float]]:
    """The ``number`` rows most similar to ``row``, itself apart, with their cosines, most similar first."""
    cosines = embedding @ embedding[row]
    cosines[row] = -2.0
    values, rows = cosines.topk(min(number, len(embedding) - 1))
    return list(zip(rows.tolist(), values.tolist(), strict=True))


def synonyms_found(embedding: Tensor, words: Sequence[str], sets: Sequence[set[str]], number: int) -> tuple[int, int]:
    """The number of words with a synonym among their ``number`` nearest neighbours, and of words with synonyms."""
    rows = {word: row for row, word in enumerate(words)}
    synonyms: dict[str, set[str]] = {}
    for synonym_set in sets:
        known = synonym_set & rows.keys()
        for word in known:
            synonyms.setdefault(word, set()).update(known - {word})
    asked = [word for word, others in synonyms.items() if others]
    found = 0
    for word in asked:
        found += any(words[row] in synonyms[word] for row, _ in nearest(embedding, rows[word], number))
    return found, len(asked)


def chance_baseline(words: Sequence[str], sets: Sequence[set[str]], number: int) -> tuple[int, int]:
    """``synonyms_found`` of an embedding that knows nothing: the yardstick."""
    generator = torch.Generator().manual_seed(random.Random(1).getrandbits(32))
    noise = torch.nn.functional.normalize(torch.randn(len(words), 64, generator=generator), dim=1)
    return synonyms_found(noise, words, sets, number)


def find_neighbours(
    embedding: Tensor, words: Sequence[str], asked: Sequence[str], number: int
) -> list[tuple[str, list[tuple[str, float]]]]:
    """Each asked word with its neighbours and their cosines.

    Raises:
        UserError: if a word is not in the dictionary.
    """
    rows = {word: row for row, word in enumerate(words)}
    missing = [word for word in asked if word not in rows]
    if missing:
        raise UserError(f"the dictionary does not have {', '.join(map(repr, missing))}; ask for words it has.")
    return [(word, [(words[row], cosine) for row, cosine in nearest(embedding, rows[word], number)]) for word in asked]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m wean_fairseq.evaluation.neighbours",
        description="Print the nearest neighbours of words in a trained embedding, by cosine.",
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="words to look up")
    parser.add_argument("--checkpoint", required=True, help="checkpoint of fairseq-train")
    parser.add_argument(
        "--dict", required=True, dest="dictionary", help="its dictionary, dict.src.txt of the data directory"
    )
    parser.add_argument("--embedding", default=EMBEDDING, help="which matrix of the checkpoint (default: %(default)s)")
    parser.add_argument("--number", type=int, default=5, help="neighbours a word (default: %(default)s)")
    parser.add_argument("--synonyms", metavar="FILE", help="sets of synonyms, one a line: count how many are found")
    args = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)

    def work() -> str:
        words, embedding = load_embedding(args.checkpoint, args.dictionary, args.embedding)
        width = max((len(word) for word in args.words), default=0)
        lines = [
            f"{word:<{width}}  " + "  ".join(f"{neighbour} {cosine:.2f}" for neighbour, cosine in others)
            for word, others in find_neighbours(embedding, words, args.words, args.number)
        ]
        if args.synonyms:
            sets = [set(line.split()) for line in read_lines(args.synonyms)]
            found, asked = synonyms_found(embedding, words, sets, args.number)
            chance, _ = chance_baseline(words, sets, args.number)
            lines.append(
                f"{found} of {asked} words with synonyms have one of them among their {args.number} nearest neighbours "
                f"({chance} in a random embedding)"
            )
        return "".join(f"{line}\n" for line in lines)

    return exit_status("neighbours", work)


if __name__ == "__main__":
    sys.exit(main())
