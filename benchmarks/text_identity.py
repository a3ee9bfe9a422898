"""Measure how many lines each unit of preprocess/ restores without a change, and the speed.

    python benchmarks/text_identity.py train.src train.tgt
    python benchmarks/text_identity.py --catalogues de th zh_CN --prose --units joiner moses

A line is unchanged if the restored line equals the cleaned line (Unicode NFC, single spaces, no control characters).
``--catalogues`` reads the translated messages of installed programs, which are untokenised text in many languages. The
exit status is 1 if the unit joiner changes a line.
"""

import argparse
import gettext
import random
import re
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "preprocess")]

import harness  # noqa: E402 - modules of this folder, independent of the working directory
from corpus import learnt  # noqa: E402

from wean_fairseq.text import Text, TextSettings, steps  # noqa: E402
from wean_fairseq.text.settings import BPE_CODES, TRUECASE_MODEL  # noqa: E402

_CODE = re.compile(r"[][%<>=\\{}|`_*^+~]|--| [.,;:!?]")  # characters of placeholders, options and tokenised text


def read_catalogues(folder: Path, language: str) -> set[str]:
    """Return the lines of all messages in a language.

    For the language ``en``, return the lines of the original messages.
    """
    lines: set[str] = set()
    for path in sorted(folder.glob(f"{'*' if language == 'en' else language}/LC_MESSAGES/*.mo")):
        try:
            with path.open("rb") as file:
                messages = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        except (OSError, ValueError, LookupError, struct.error):  # the catalogue is damaged or not UTF-8
            continue
        for key, message in messages.items():
            original = key[0] if isinstance(key, tuple) else key
            if not original:  # this entry is the header of the catalogue
                continue
            if language == "en" or message != original:
                lines.update((original if language == "en" else message).splitlines())
    return lines


def read_texts(options: argparse.Namespace) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the name, the language and sampled lines of each text."""
    texts = [(path.name, options.language, path.read_text("utf-8").splitlines()) for path in options.files]
    texts += [(name, name[:2], sorted(read_catalogues(options.folder, name))) for name in options.catalogues]
    for name, language, lines in texts:
        chosen = [line for line in dict.fromkeys(lines) if len(line.strip()) > 11]
        chosen = [line for line in chosen if not (options.prose and _CODE.search(line))]
        random.Random(1).shuffle(chosen)
        yield name, language, chosen[: options.lines]


def learn(text: Text, lines: Sequence[str], folder: Path, merges: int) -> None:
    """Train the steps that are learnt from text on the lines, and save their models in the folder."""
    clean = [text.clean(line) for line in lines]
    learnt.learn_truecaser(clean, folder / TRUECASE_MODEL)
    if merges:
        tokens = (text.cut(line).replace(text.settings.mark, "") + "\n" for line in clean)
        learnt.learn_bpe(tokens, folder / BPE_CODES, merges)


def measure(lines: Sequence[str], settings: TextSettings, options: argparse.Namespace) -> tuple[float, float, float]:
    """Return the percentage of unchanged lines, and the speeds of tokenising and of restoring in lines per second."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        untrained = Text(settings, wordpieces=options.wordpiece_vocab)
        learn(untrained, lines, folder, options.bpe)
        text = Text(settings, folder, options.wordpiece_vocab)
        clean = [line for line in map(untrained.clean, lines) if line]
        text.restore(text.prepare("x"))  # loads the models before the time is measured
        start = time.perf_counter()
        tokens = [text.prepare(line) for line in clean]
        between = time.perf_counter()
        restored = [text.restore(line) for line in tokens]
        end = time.perf_counter()
    same = sum(a == b for a, b in zip(clean, restored, strict=True))
    return 100 * same / len(clean), len(clean) / (between - start), len(clean) / (end - between)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", help="text files")
    parser.add_argument("--language", default="en", help="language of the files, for Moses (default: %(default)s)")
    parser.add_argument("--catalogues", nargs="+", default=[], metavar="XX", help="languages of installed messages")
    parser.add_argument("--folder", type=Path, default=Path("/usr/share/locale"), help="of the message catalogues")
    parser.add_argument("--prose", action="store_true", help="leave out lines with code, and lines of tokens")
    parser.add_argument("--lines", type=int, default=10_000, help="lines drawn of each text (default: %(default)s)")
    units = [unit for unit in steps.UNITS if unit != "wordpiece"]
    parser.add_argument("--units", nargs="+", choices=steps.UNITS, default=units, help="(default: all but wordpiece)")
    parser.add_argument("--wordpiece-vocab", type=Path, metavar="FILE", help="vocab.txt of a BERT model")
    parser.add_argument("--truecase", action="store_true", help="learn and apply true-casing")
    parser.add_argument("--bpe", type=int, default=0, metavar="N", help="learn and apply N merges")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a Markdown table. Return the exit status."""
    options = parser().parse_args(arguments)
    rows, differences = [], 0
    for name, language, lines in read_texts(options):
        for unit in options.units if lines else ():
            settings = TextSettings(unit=unit, language=language, truecase=options.truecase, bpe=options.bpe > 0)
            same, there, back = measure(lines, settings, options)
            differences += unit == "joiner" and same < 100
            rows.append([name, f"{len(lines):,}", unit, f"{same:.2f}", f"{there:,.0f}", f"{back:,.0f}"])
    header = ["text", "lines", "unit", "% the same", "lines/s to tokens", "lines/s back"]
    print("\n".join(harness.table(header, rows)))
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
