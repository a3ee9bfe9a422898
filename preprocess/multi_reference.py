"""Prepare sets with several references, such as TurkCorpus and ASSET, as {valid,test}.{src,tgt,ref0,ref1,...}.

    python preprocess/multi_reference.py --data path/to/turkcorpus --output data/turk
    python preprocess/multi_reference.py --test SOURCE REFERENCE REFERENCE ... --output data/mine

``--data`` finds {tune,test}.8turkers.tok.{norm,turk.0,...} or asset.{valid,test}.{orig,simp.0,...}. The first reference
is also the target. ``--train-on-valid`` also writes every validation sentence with each of its references as a training
pair.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from corpus.command import preparation_parser, run_preparation
from corpus.preparation import Preparation
from corpus.references import ASSET, TURK, write_references

from wean_fairseq.errors import UserError

HELD_OUT = ("test", "valid")


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = preparation_parser("multi_reference", __doc__)
    options.add_argument("--data", type=Path, metavar="DIR", help="directory with TurkCorpus or ASSET")
    for split in HELD_OUT:
        options.add_argument(f"--{split}", nargs="+", type=Path, metavar="FILE", help="sentences, then references")
    options.add_argument("--train-on-valid", action="store_true", help="also use the validation pairs for training")
    options.add_argument("--brackets", action="store_true", help="spell brackets and quotes as TurkCorpus does")
    return options


def files_of(options: Namespace) -> dict[str, list[Path]]:
    """Return the source and the references of each split, the test set first.

    Raises:
        UserError: if there is no set, or a set has no references.
    """
    files: dict[str, list[Path]] = {}
    for layout in (TURK, ASSET) if options.data is not None else ():
        for split, names in layout.items():
            if (options.data / names[0]).is_file():  # missing references are reported later
                files[split] = [options.data / name for name in names]
    files.update({split: getattr(options, split) for split in HELD_OUT if getattr(options, split)})
    if not files:
        where = "" if options.data is None else f"{options.data} has neither TurkCorpus nor ASSET; "
        raise UserError(f"{where}give --data, or --valid or --test with the sentences and their references.")
    for split, paths in files.items():
        if len(paths) < 2:
            raise UserError(f"--{split} needs the file of the sentences and at least one of references.")
        for number, path in enumerate(paths):
            if path.resolve() in {other.resolve() for other in paths[:number]}:
                raise UserError(f"--{split} has {path} twice: give the sentences and each file of references once.")
    return {split: files[split] for split in HELD_OUT if split in files}


def inputs(options: Namespace) -> list[Path]:
    """Return the source files."""
    return [path for paths in files_of(options).values() for path in paths]


def build(options: Namespace, preparation: Preparation) -> None:
    """Write the sets, and the training pairs if they are requested."""
    files = files_of(options)
    if options.train_on_valid and "valid" not in files:
        raise UserError("--train-on-valid needs a validation set.")
    if options.train_on_valid:
        preparation.leaks.ignore("valid")
    for split, paths in files.items():
        write_references(preparation, split, paths)
    if options.train_on_valid:
        with preparation.split("train") as writer:
            for _, (source, *references) in writer.until_full(preparation.aligned_lines(files["valid"])):
                writer.add_all((source, reference) for reference in references)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status."""
    return run_preparation(parser(), build, arguments, inputs=inputs)


if __name__ == "__main__":
    sys.exit(main())
