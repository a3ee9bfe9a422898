"""Turn aligned text files into train/valid/test.{src,tgt}: checked, optionally lower-cased or split into characters.

    python preprocess/parallel_text.py --output DIR --train SRC TGT [--train SRC TGT ...] --valid SRC TGT --test SRC TGT

Reads line by line, so memory does not grow with the corpus. Sides of different length, missing files and bytes that
are no UTF-8 are refused by name; pairs with an empty side are refused too, or left out of the training data and counted
with ``--drop-empty``. Everything is written under temporary names first: there is never half an output.
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path

SPLITS = ("train", "valid", "test")


class InputError(ValueError):
    """Something about the input that its owner can mend."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line; 0 = done, 2 = refused with one sentence."""
    args = build_parser().parse_args(argv)
    try:
        counts = prepare(args)
    except InputError as error:
        print(f"parallel_text: error: {error}", file=sys.stderr)
        return 2
    for split, count in counts.items():
        print(f"{args.output}/{split}: {count['kept']} pairs, {count['dropped_empty']} left out for an empty side")
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="directory to write; must not exist yet")
    for split in SPLITS:
        parser.add_argument(
            f"--{split}",
            nargs=2,
            type=Path,
            action="append",
            default=[],
            metavar=("SRC", "TGT"),
            help=f"{split} files; given several times, they are read one after the other",
        )
    parser.add_argument("--lowercase", action="store_true", help="lower-case both sides")
    parser.add_argument("--characters", action="store_true", help="one token a character, white space left out")
    parser.add_argument("--drop-empty", action="store_true", help="leave training pairs with an empty side out")
    parser.add_argument("--limit", type=int, default=0, help="at most this many pairs a split, 0 = all (for a trial)")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing output")
    return parser


def prepare(args: argparse.Namespace) -> dict[str, dict[str, int]]:
    """Write every split that was given; return the counts kept and dropped.

    Raises:
        InputError: if the input or the output cannot be used.
    """
    if not args.train and not args.valid and not args.test:
        raise InputError("no input: give --train, --valid or --test with a source and a target file.")
    check_output(args.output, args.overwrite)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{args.output.name}.", dir=args.output.parent))
    try:
        counts, sources = {}, {}
        for split in SPLITS:
            files: list[list[Path]] = getattr(args, split)
            if files:
                counts[split] = write_split(work, split, files, args)
                sources.update({str(path): sha256(path) for pair in files for path in pair})
        options = {name: getattr(args, name) for name in ("lowercase", "characters", "drop_empty", "limit")}
        manifest = {"inputs_sha256": sources, "counts": counts, "options": options}
        (work / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        work.chmod(0o755)
        if args.output.exists():
            os.replace(args.output, work / "replaced")
        os.replace(work, args.output)
        shutil.rmtree(args.output / "replaced", ignore_errors=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return counts


def check_output(output: Path, overwrite: bool) -> None:
    """Refuse to replace anything, and without ``overwrite`` anything at all, that this script did not write."""
    if not output.exists():
        return
    if not overwrite:
        raise InputError(f"{output} exists already: choose another --output, or pass --overwrite to replace it.")
    ours = {"manifest.json", *(f"{split}.{side}" for split in SPLITS for side in ("src", "tgt"))}
    names = {path.name for path in output.iterdir()} if output.is_dir() else set()
    if "manifest.json" not in names or not names <= ours:
        raise InputError(f"{output} is not, or not only, an earlier output of this script: choose another --output.")


def write_split(folder: Path, split: str, files: list[list[Path]], args: argparse.Namespace) -> dict[str, int]:
    """Write ``split`` under ``folder``."""
    kept = dropped = 0
    drop_empty = args.drop_empty and split == "train"
    with (
        (folder / f"{split}.src").open("w", encoding="utf-8", newline="\n") as source_file,
        (folder / f"{split}.tgt").open("w", encoding="utf-8", newline="\n") as target_file,
    ):
        pairs = (pair for source, target in files for pair in read_pairs(source, target))
        for where, source_line, target_line in islice(pairs, args.limit or None):
            source, target = tokens(source_line, args), tokens(target_line, args)
            if not source or not target:
                if not drop_empty:
                    raise InputError(
                        f"{where} is empty on {'the source' if not source else 'the target'} side: remove the pair"
                        + (", or pass --drop-empty." if split == "train" else ".")
                    )
                dropped += 1
                continue
            print(source, file=source_file)
            print(target, file=target_file)
            kept += 1
    if not kept:
        raise InputError(f"no pair is left for {split} in {', '.join(str(path) for pair in files for path in pair)}.")
    return {"kept": kept, "dropped_empty": dropped}


def tokens(line: str, args: argparse.Namespace) -> str:
    """One line as space-separated tokens."""
    if args.lowercase:
        line = line.lower()
    if args.characters:
        return " ".join("".join(line.split()))
    return " ".join(line.split())


def read_pairs(source: Path, target: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (where, source line, target line).

    Raises:
        InputError: if a file is missing, or one ends before the other.
    """
    lines = zip_longest(read_lines(source), read_lines(target))
    for number, (source_line, target_line) in enumerate(lines, start=1):
        if source_line is None or target_line is None:
            short, long = (source, target) if source_line is None else (target, source)
            raise InputError(
                f"{short} has {number - 1} lines but {long} has more: the two sides must be aligned line by line."
            )
        yield f"line {number} of {source} / {target}", source_line, target_line


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file; only \\n and \\r\\n end a line."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                try:
                    yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise InputError(f"line {number} of {path} is not UTF-8 ({error.reason}): convert it.") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from error


def sha256(path: Path) -> str:
    """Checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
