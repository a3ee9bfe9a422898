"""Prepare CommonGen (concept words -> a sentence that contains all of them) as {train,valid,test}.{src,tgt}.

    python preprocess/commongen.py --data DIR --output data/commongen

DIR contains commongen.{train,dev,test}.jsonl as released. Each line has a concept set (``ski#mountain#skier``) and its
sentences. The public test file has no sentences, so no test split is written for it. The sentences are split into Moses
tokens unless ``--unit`` selects another tokeniser. If DIR has {train,valid,test}.{src,tgt} instead of the released
files, they are used without tokenisation. With ``--references``, valid and test have one line per concept set, and the
sentences of that set are written to .ref0, .ref1, ... for scoring.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpus.command import preparation_parser, run_preparation
from corpus.json_values import parse_json_line
from corpus.plain import plain_files
from corpus.preparation import Preparation
from corpus.references import write_grouped
from msgspec import Struct, convert

from wean_fairseq.errors import UserError

RELEASED = {"test": "commongen.test.jsonl", "valid": "commongen.dev.jsonl", "train": "commongen.train.jsonl"}


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = preparation_parser("commongen", __doc__)
    options.set_defaults(unit=None)
    options.add_argument("--data", type=Path, required=True, metavar="DIR", help="directory with the released files")
    options.add_argument("--sort-concepts", action="store_true", help="put the concepts in alphabetical order")
    options.add_argument(
        "--references",
        action="store_true",
        help="valid and test: one line per concept set, its sentences in .ref0, ...",
    )
    return options


def released(options: Namespace) -> dict[str, Path]:
    """Return the released files that exist."""
    return {split: options.data / name for split, name in RELEASED.items() if (options.data / name).is_file()}


def inputs(options: Namespace) -> list[Path]:
    """Return the source files. The released sentences are untokenised. Existing splits are tokenised."""
    options.unit = options.unit or ("moses" if released(options) else "words")
    files = list(released(options).values()) or [path for paths in plain_files(options.data).values() for path in paths]
    if not files:
        raise UserError(f"{options.data} has neither {RELEASED['train']} nor {{train,valid}}.{{src,tgt}}.")
    return files


class ConceptSet(Struct):
    """A line of the released files: concepts joined by ``#``, and sentences that contain them."""

    concept_set: str
    scene: list[str] | None = None


def read_sets(preparation: Preparation, path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the concepts and the sentences of each line.

    Raises:
        UserError: if a line is invalid. The message names the first invalid line.
    """
    for number, line in enumerate(preparation.lines(path), start=1):
        _, entry, problem = parse_json_line(line, number)
        try:
            if problem:
                raise ValueError(problem)
            concept_set = convert(entry, ConceptSet)
        except ValueError as error:  # this includes values of a wrong type
            raise UserError(f"line {number} of {path} is not a concept set with sentences ({error}).") from error
        concepts = concept_set.concept_set.split("#")
        if preparation.options.sort_concepts:
            concepts.sort()
        yield " ".join(concepts), concept_set.scene or []


def read_pairs(preparation: Preparation, split: str, paths: list[Path]) -> Iterator[tuple[str, str]]:
    """Yield the concepts and the sentence of each pair of a split, from released or plain files."""
    if len(paths) > 1:
        for _, (source, target) in preparation.aligned_lines(paths):
            yield source, target
        return
    for concepts, sentences in read_sets(preparation, paths[0]):
        preparation.left_out[f"{split}_without_sentence"] += not sentences
        for sentence in sentences:
            yield concepts, sentence


def build(options: Namespace, preparation: Preparation) -> None:
    """Write the splits whose files exist."""
    files: dict[str, list[Path]] = {split: [path] for split, path in released(options).items()}
    for split, paths in (files or plain_files(options.data)).items():
        pairs = read_pairs(preparation, split, paths)
        if options.references and split != "train":
            write_grouped(preparation, split, pairs, required=split != "test")
            continue
        with preparation.split(split, required=split != "test") as writer:
            writer.add_all(pairs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_preparation(parser(), build, arguments, inputs=inputs)


if __name__ == "__main__":
    sys.exit(main())
