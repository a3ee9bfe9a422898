"""Turn published pairs into train/valid/test files. The text is cleaned, tokenised, counted and checked for leaks."""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from corpus import learnt
from corpus.leaks import LeakCheck
from corpus.messages import say
from corpus.output import SIDES, OutputFolder, SplitFiles
from corpus.reading import read_aligned, read_lines
from wean_fairseq.console import counted
from wean_fairseq.errors import UserError
from wean_fairseq.text import steps
from wean_fairseq.text.settings import BPE_CODES, TRUECASE_MODEL, WORDPIECES, Text, TextSettings

_LOOKED_AT = 1000  # number of lines that are searched for warning signs
MOST_TOPICS = 50  # maximum number of topic words of an essay
_LONGEST = 1 << 20  # maximum length of a sentence or essay, in characters
Item = TypeVar("Item")
_GLUED = re.compile(r"[^\W\d_]{2}[.,;:?!](?:\s|$)")


class Preparation:
    """One run of a script. It applies the text steps that the common options select to every line.

    The held-out splits must be written first, because the leak check compares the training data with them.

    Args:
        output: the open output directory.
        options: the common options (see ``command.add_text_options``).

    Attributes:
        left_out: number of pairs or lines that are in no split, for each reason.
        hints: sentences about the format of tables that were opened, which may explain a later error.
    """

    def __init__(self, output: OutputFolder, options: Any) -> None:
        self.output = output
        self.options = options
        self.text = Text(_settings(options), wordpieces=options.wordpiece_vocab)
        self.cleaner = self.text.cleaner
        self.looks = Looks(self.text.settings)
        self.leaks = LeakCheck(options.leak_key, options.drop_leaks)
        self.left_out: Counter[str] = Counter()
        self.text_files: list[Path] = []
        self.hints: dict[Path, list[str]] = {}

    def lines(self, path: Path, *, count: bool = True) -> Iterator[str]:
        """Return the lines of a source file unchanged, and record the file in the manifest.

        Args:
            path: path of the file.
            count: whether to count corrections. It should be set only when a file is read for the first time.
        """
        counts = self.cleaner.counts if count else None
        return read_lines(self.output.source(path), counts, self.replace_bad)

    def aligned_lines(self, paths: Sequence[Path], *, count: bool = True) -> Iterator[tuple[str, list[str]]]:
        """Yield the place of each line and the lines of all files, for source files that are aligned line by line."""
        counts = self.cleaner.counts if count else None
        return read_aligned([self.output.source(path) for path in paths], counts, self.replace_bad)

    @property
    def replace_bad(self) -> bool:
        """Return True if the options replace bytes that are not UTF-8 by U+FFFD."""
        return bool(self.options.bad_utf8 == "replace")

    def clean(self, line: str) -> str:
        """Return a source line as the leak check needs it: cleaned and lower-cased, but not tokenised."""
        if len(line) > _LONGEST:
            raise UserError(
                f"the text that begins with {line[:40]!r} has {len(line):,} characters, but one sentence or essay has "
                f"at most {_LONGEST:,}: split it, or leave it out."
            )
        return self.text.clean(line)

    def cut(self, clean: str) -> str:
        """Return the tokens of a clean line.

        If true-casing is learnt, return the line itself, because ``finish`` will tokenise it.
        """
        is_cut_later = self.options.truecase and (self.options.unit != "wordpiece" or self.text.cut(clean))
        return clean if is_cut_later else self.text.tokens(clean)

    def use(self, text: Text) -> None:
        """Apply the steps of an earlier text, and copy their learnt models."""
        self.text, self.cleaner, self.looks = text, text.cleaner, Looks(text.settings)
        for file in text.files:
            shutil.copyfile(file, self.output.folder / file.name)

    def hold_out(self, name: str, sentences: Iterable[str]) -> None:
        """Also compare training pairs with the sentences of a test set that is not written here."""
        for sentence in sentences:
            line = self.clean(sentence)
            if line:
                self.leaks.hold_out(name, line, [line])

    @contextmanager
    def split(
        self, name: str, sides: Sequence[str] = SIDES, beside: Sequence[str] = (), *, required: bool = True
    ) -> Iterator["PairWriter"]:
        """Write one split.

        Args:
            name: name of the split.
            sides: suffixes of its text files: the source, then its target or references.
            beside: suffixes of additional files with one line for each line of text.
            required: raise an error if no line is left. Otherwise, an empty split is not written.

        Raises:
            UserError: if no line is left.
        """
        with self.output.split(name, [*sides, *beside]) as split:
            writer = PairWriter(self, split)
            self.text_files += split.paths[: len(sides)]
            yield writer
        if not split.kept and required:
            reasons = _list_counts(split.dropped) or _list_counts(+self.left_out) or "there is none in the input"
            raise UserError(f"no line is left for {name}: {reasons}.")
        if not split.kept:
            self.left_out.update({f"{name}_{reason}": count for reason, count in split.dropped.items()})
            del self.output.splits[name]
            for path in split.paths:
                path.unlink()
                self.text_files = [other for other in self.text_files if other != path]

    def write_drawn(
        self, splits: Iterable[str], drawn: Sequence[str], pairs: Callable[[], Iterator[tuple[str, str]]]
    ) -> None:
        """Write splits of pairs from one file, which is read once for each split.

        Args:
            splits: names of the splits in the order in which they are written. The training split comes last.
            drawn: the split of each pair.
            pairs: function that reads the pairs from the file.
        """
        for split in splits:
            with self.split(split) as writer:
                writer.add_all(items_of(split, drawn, pairs()))

    def finish(self) -> None:
        """Apply the learnt steps, and record the counts and the text settings in the manifest."""
        for learn, make, name in self._learnt():
            model = self.output.folder / name
            train = self.output.splits.get("train")
            if train is None:
                raise UserError(f"there is no training text to learn {name} from.")
            learn(learnt.lines_of(*(path for path in train.paths if path in self.text_files)), model)
            step = make(model)
            for path in self.text_files:
                learnt.map_file(path, step, self.cleaner.guard)
        if self.options.wordpiece_vocab is not None and WORDPIECES in self.text.settings.files:
            shutil.copyfile(self.options.wordpiece_vocab, self.output.folder / WORDPIECES)
        self.output.facts["text"] = asdict(self.text.settings)
        self.output.facts["left_out"] = dict(sorted((+self.left_out).items()))
        self.output.facts["cleaning"] = dict(sorted(self.cleaner.counts.items()))
        self.output.facts["leaks"] = self.leaks.report()

    def _learnt(self) -> Iterator[tuple[Callable[..., None], Callable[[Path], steps.TextStep], str]]:
        if self.options.truecase:
            yield learnt.learn_truecaser, self._cut_cased, TRUECASE_MODEL
        if self.options.bpe:
            mark = self.text.settings.mark

            def learn(lines: Iterable[str], path: Path) -> None:
                learnt.learn_bpe((line.replace(mark, "") for line in lines), path, self.options.bpe)

            yield learn, lambda path: steps.bpe(path, mark), BPE_CODES

    def _cut_cased(self, model: Path) -> steps.TextStep:
        """Return the step that turns clean lines into true-cased tokens with a learnt model."""
        text = Text(replace(self.text.settings, bpe=False), model.parent, self.options.wordpiece_vocab)
        text.cleaner = self.cleaner
        return text.cut


def _settings(options: Any) -> TextSettings:
    settings = TextSettings(
        unit=options.unit,
        language="en" if options.language is None else options.language,
        lowercase=options.lowercase,
        truecase=options.truecase,
        bpe=bool(options.bpe),
        brackets=getattr(options, "brackets", False),
        unicode=options.unicode,
        specials=options.specials,
        unknown=options.unknown or "",
        topics=bool(getattr(options, "topics", False)),
    )
    if options.language not in (None, "en") and options.unit in ("words", "joiner", "characters"):
        raise UserError(f"--unit {options.unit} uses no rules of a language: leave --language out.")
    return settings


class Looks:
    """Counts warning signs in the first lines: untokenised text, or capitals without true-casing or lower-casing."""

    def __init__(self, settings: TextSettings) -> None:
        self.settings = settings
        self.counts = Counter[str]()

    def count_line(self, line: str) -> None:
        """Count the warning signs in a clean line."""
        if self.counts["lines"] < _LOOKED_AT:
            self.counts["lines"] += 1
            self.counts["glued"] += _GLUED.search(line) is not None
            self.counts["capital"] += line[:1].isupper()

    def remarks(self) -> Iterator[str]:
        """Yield remarks about the warning signs for the user."""
        lines, settings = self.counts["lines"], self.settings
        if settings.unit == "words" and 3 * self.counts["glued"] > lines:
            yield "punctuation is attached to words in many lines, so both are one token: --unit joiner separates it"
        cased = not (settings.lowercase or settings.truecase) and settings.unit in ("words", "joiner", "moses")
        if cased and 2 * self.counts["capital"] > lines:
            yield 'most lines begin with a capital, so that "The" and "the" are two words: --truecase or --lowercase'


class PairWriter:
    """Writes the lines of one split. The first side is the source. The other sides are its targets or references."""

    def __init__(self, preparation: Preparation, split: SplitFiles) -> None:
        self.preparation = preparation
        self.split = split
        self.held_out = split.name != "train"
        options = preparation.options
        self.limit: int = options.limit if split.name != "test" or options.test_limit is None else options.test_limit

    @property
    def full(self) -> bool:
        """Return True if the split has reached the limit of a trial run."""
        return 0 < self.limit <= self.split.kept

    def until_full(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items until the split has reached the limit of a trial run."""
        for item in items:
            if self.full:
                return
            yield item

    def add(self, *lines: str, beside: Sequence[str] = (), references: Sequence[str] = (), where: str = "") -> bool:
        """Clean, check and write one line for each side. Return True if the lines were written.

        Args:
            lines: the source, followed by its target or references.
            beside: lines of the additional files. They are written unchanged.
            references: further targets. They are compared with training pairs, but not written.
            where: place of the pair in the input. If a place is given, an empty side is an error. Otherwise, the pair
                is dropped.

        Raises:
            UserError: if a side is empty and a place is given.
        """
        preparation = self.preparation
        clean = [preparation.clean(line) for line in lines]
        preparation.looks.count_line(clean[0])
        tokens = [preparation.cut(line) for line in clean]
        if not all(tokens):
            if where:
                raise UserError(f"{where} is empty on {'the target' if tokens[0] else 'the source'} side.")
            self.split.drop("empty_side")
            return False
        if self.held_out:
            further = [preparation.clean(line) for line in references if line.strip()]
            preparation.leaks.hold_out(self.split.name, clean[0], clean[1:] + further)
        elif preparation.leaks.leaks(self.split.name, clean[0], clean[1:]):
            self.split.drop("leak")
            return False
        self.split.write(*tokens, beside=beside)
        return True

    def add_all(self, pairs: Iterable[Sequence[str]]) -> None:
        """Add sources with their targets or references, until the split has reached the limit of a trial run."""
        for lines in self.until_full(pairs):
            self.add(*lines)


def items_of(split: str, drawn: Iterable[str], items: Iterable[Item]) -> Iterator[Item]:
    """Return the items of one split. ``drawn`` has the split of each item."""
    return (item for chosen, item in zip(drawn, items, strict=True) if chosen == split)


def print_summary(output: OutputFolder, name: str, remarks: Iterable[str]) -> None:
    """Print the numbers of kept, dropped, changed and shared lines, and remarks about the text."""
    for remark in remarks:
        say(name, remark)
    for split, part in output.splits.items():
        left_out = f"; left out: {_list_counts(part.dropped)}" if part.dropped else ""
        say(name, f"{split}: {counted(part.kept, 'line')}{left_out}")
    for what, fact in (("of the input, in no split", "left_out"), ("cleaned", "cleaning")):
        if output.facts.get(fact):
            say(name, f"{what}: {_list_counts(output.facts[fact])}")
    for both, counts in output.facts.get("leaks", {}).items():
        first, second = both.split(" / ")
        shown = ", ".join(counted(counts[f"{noun}s"], noun) for noun in ("pair", "source", "target"))
        warning = "warning: " if counts["pairs"] else ""
        say(name, f"{warning}{first} lines that also occur in {second}: {shown}, {counts['any']:,} on whichever side")


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in sorted(counts.items()))
