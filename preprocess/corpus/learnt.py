"""Learn true-casing and BPE from the training split. The models are stored next to the split."""

import io
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, redirect_stderr
from pathlib import Path

from wean_fairseq.errors import UserError
from wean_fairseq.optional import import_optional
from wean_fairseq.storage.files import HashedFile, write_whole
from wean_fairseq.text.casing import cased_words
from wean_fairseq.text.steps import LONGEST_WORD, TextStep


def learn_truecaser(lines: Iterable[str], path: Path) -> None:
    """Write a Moses true-casing model, which counts the forms that each word has inside sentences."""
    forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        for form in cased_words(line):
            forms[form.lower()][form] += 1
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for counts in forms.values():
            total = sum(counts.values())
            best, *others = counts.most_common()
            shown = [f"{best[0]} ({best[1]}/{total})", *(f"{form} ({count})" for form, count in others)]
            print(" ".join(shown), file=file)


def learn_bpe(lines: Iterable[str], path: Path, merges: int) -> None:
    """Learn ``merges`` merges of byte pair encoding, and write their codes. Extremely long words are left out.

    Raises:
        UserError: if the text is too small to learn from.
    """
    learner = import_optional("subword_nmt.learn_bpe")
    usual = (" ".join(word for word in line.split() if len(word) <= LONGEST_WORD) for line in lines)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        # The progress bar of subword-nmt cannot be disabled.
        quiet = nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO())
        try:
            with quiet:
                learner.learn_bpe(usual, file, merges)
        except (IndexError, ValueError) as error:  # raised if no pair is left to merge
            raise UserError(f"the training text has not enough words to learn {merges} merges from.") from error


def map_file(path: Path, step: TextStep, finish: TextStep = str) -> None:
    """Apply a step to all lines of a file, in place and atomically. The number of lines is unchanged."""

    def write(file: HashedFile) -> None:
        for line in lines_of(path):
            new_line = finish(step(line.rstrip("\n")))
            file.write(f"{new_line}\n".encode())

    write_whole(path, write)


def lines_of(*paths: Path) -> Iterator[str]:
    """Yield the lines of the files, one file after the other."""
    for path in paths:
        with path.open(encoding="utf-8", newline="\n") as file:
            yield from file
