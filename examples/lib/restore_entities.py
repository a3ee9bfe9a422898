"""Put names back into outputs on the anonymised PWKP text (``person@1``), as the WEAN paper does before scoring.

    python examples/lib/restore_entities.py --anonymised test.src --original test.ori.src --generated LOG --output FILE

What a placeholder stands for is read off the source sentence in both forms, which differ in nothing else.
"""

import argparse
import re
import sys
from pathlib import Path

from wean_fairseq.evaluation.errors import EvaluationError
from wean_fairseq.evaluation.output_reader import read_generated
from wean_fairseq.evaluation.text_files import read_lines, write_atomically

_PLACEHOLDER = re.compile(r"[a-z]+@\d+")


def entities(anonymised: str, original: str) -> dict[str, str] | None:
    """Placeholder -> words, or nothing if the two are not forms of one sentence."""
    pattern, seen = [], set()
    for word in anonymised.split():
        if not _PLACEHOLDER.fullmatch(word):
            pattern.append(re.escape(word))
        elif word in seen:
            pattern.append(f"(?P={word.replace('@', '_')})")
        else:
            pattern.append(f"(?P<{word.replace('@', '_')}>.+?)")
            seen.add(word)
    match = re.fullmatch(" ".join(pattern), " ".join(original.split()))
    return None if match is None else {word: match[word.replace("@", "_")] for word in seen}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--anonymised", type=Path, required=True, help="lower-cased sources with placeholders")
    parser.add_argument("--original", type=Path, required=True, help="the same, with names")
    parser.add_argument("--generated", type=Path, required=True, help="output of fairseq-generate")
    parser.add_argument("--output", type=Path, required=True, help="file to write, an output a line")
    args = parser.parse_args(arguments)
    try:
        sources = zip(read_lines(args.anonymised), read_lines(args.original), strict=True)
        outputs = read_generated("", args.generated).hypotheses
        lines = []
        for number, ((anonymised, original), output) in enumerate(zip(sources, outputs, strict=True), start=1):
            names = entities(anonymised, original)
            if names is None:
                raise EvaluationError(
                    f"line {number} of {args.anonymised} and {args.original} is not one sentence in two forms."
                )
            lines.append(" ".join(names.get(word, word) for word in output.split()) + "\n")
        write_atomically(args.output, "".join(lines))
    except EvaluationError as error:
        print(f"restore_entities: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
