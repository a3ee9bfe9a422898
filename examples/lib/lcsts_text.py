"""Read the released LCSTS files (PART_I, PART_II, PART_III) into {train,valid,test}.{src,tgt}, a text a line.

Of PART_II and PART_III, the pairs that people gave a score of at least 3 are taken, as all papers on LCSTS do.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PARTS = {"train": "PART_I.txt", "valid": "PART_II.txt", "test": "PART_III.txt"}
LOWEST_SCORE = 3
_SCORE = re.compile(r"<human_label>\s*(\d+)\s*</human_label>")


def read_pairs(path: Path) -> Iterator[tuple[int | None, str, str]]:
    """Yield (score, text, summary) of every document."""
    score: int | None = None
    fields: dict[str, list[str]] = {}
    field = ""
    with path.open(encoding="utf-8") as file:
        for raw in file:
            line = raw.strip()
            label = _SCORE.search(line)
            if label:
                score = int(label[1])
            elif line.startswith("<doc"):
                score, fields = None, {}
            elif line in ("<summary>", "<short_text>"):
                field = line
            elif line in ("</summary>", "</short_text>"):
                field = ""
            elif line == "</doc>":
                yield score, *(" ".join(fields.get(name, [])) for name in ("<short_text>", "<summary>"))
            elif field and line:
                fields.setdefault(field, []).append(line)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="directory with the released files")
    parser.add_argument("--output", type=Path, required=True, help="directory to write")
    args = parser.parse_args(arguments)
    missing = [name for name in PARTS.values() if not (args.data / name).is_file()]
    if missing:
        print(f"lcsts_text: error: {args.data} has no {', '.join(missing)}.", file=sys.stderr)
        return 2
    args.output.mkdir(parents=True, exist_ok=True)
    for split, name in PARTS.items():
        paths = [args.output / f"{split}.{side}" for side in ("src", "tgt")]
        parts = [path.with_suffix(path.suffix + ".part") for path in paths]
        count = 0
        with parts[0].open("w", encoding="utf-8") as sources, parts[1].open("w", encoding="utf-8") as targets:
            for score, text, summary in read_pairs(args.data / name):
                if text and summary and (score is None or score >= LOWEST_SCORE):
                    print(text, file=sources)
                    print(summary, file=targets)
                    count += 1
        if not count:
            print(f"lcsts_text: error: no <doc> with a text and a summary in {args.data / name}.", file=sys.stderr)
            return 2
        for part, path in zip(parts, paths, strict=True):
            os.replace(part, path)
        print(f"{split}: {count} pairs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
