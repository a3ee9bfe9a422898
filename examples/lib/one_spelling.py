"""Write the text of a simplification recipe lower-cased and in one spelling.

    python examples/lib/one_spelling.py --output DIR --train SRC TGT --valid SRC TGT --text NAME FILE ...

The sets that the recipes join spell brackets, quotes and slashes in several ways (``lrb``, ``-LRB-``, ``(``, ``\\/``);
one is kept, that of TurkCorpus's references. A training pair whose source is a line of a ``--text`` named ``*.src``, up
to case and punctuation, is left out and counted: nothing is tested on what was trained on.
"""

import argparse
import re
import sys
from pathlib import Path

_SPELLING = {"lrb": "-lrb-", "rrb": "-rrb-", "(": "-lrb-", ")": "-rrb-", "``": '"', "''": '"'}


def tidy(line: str) -> str:
    """One line, lower-cased, in the one spelling."""
    return " ".join(_SPELLING.get(word, word) for word in line.lower().replace("\\", "").split())


def fingerprint(line: str) -> str:
    """What two spellings of one sentence have in common."""
    return re.sub(r"[^\w]|lrb|rrb", "", line)


def read(path: Path) -> list[str]:
    """The lines of a file in the one spelling."""
    return [tidy(line) for line in path.read_text(encoding="utf-8").removesuffix("\n").split("\n")]


def read_pairs(files: list[list[Path]]) -> list[tuple[str, str]]:
    """The pairs of all files, one after the other."""
    pairs: list[tuple[str, str]] = []
    for source, target in files:
        sides = read(source), read(target)
        if len(sides[0]) != len(sides[1]):
            lengths = f"{len(sides[0])} and {len(sides[1])} lines"
            raise ValueError(f"{source} and {target} have {lengths}: they must be aligned line by line.")
        pairs += zip(*sides, strict=True)
    return pairs


def write(path: Path, lines: list[str]) -> None:
    """Write lines."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_pairs(folder: Path, split: str, pairs: list[tuple[str, str]]) -> None:
    """Write both sides of a split."""
    write(folder / f"{split}.src", [source for source, _ in pairs])
    write(folder / f"{split}.tgt", [target for _, target in pairs])


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="directory to write")
    for split in ("train", "valid"):
        parser.add_argument(f"--{split}", nargs=2, type=Path, action="append", required=True, metavar=("SRC", "TGT"))
    parser.add_argument("--text", nargs=2, action="append", default=[], metavar=("NAME", "FILE"), help="other text")
    parser.add_argument("--one-reference", action="store_true", help="keep only the first valid pair of each source")
    args = parser.parse_args(arguments)
    try:
        train, valid = read_pairs(args.train), read_pairs(args.valid)
        texts = {name: read(Path(path)) for name, path in args.text}
    except (OSError, ValueError) as error:
        print(f"one_spelling: error: {error}", file=sys.stderr)
        return 2
    if args.one_reference:
        valid = list({source: (source, target) for source, target in reversed(valid)}.values())[::-1]
    tested = {fingerprint(line) for name, lines in texts.items() if name.endswith(".src") for line in lines}
    kept = [pair for pair in train if fingerprint(pair[0]) not in tested]
    args.output.mkdir(parents=True, exist_ok=True)
    write_pairs(args.output, "train", kept)
    write_pairs(args.output, "valid", valid)
    for name, lines in texts.items():
        write(args.output / name, lines)
    print(f"{len(kept)} training pairs; {len(train) - len(kept)} left out because their source is a test sentence")
    return 0


if __name__ == "__main__":
    sys.exit(main())
