"""Record of the steps of a training's text, so that the same is done to the text that its model is given.

The scripts of ``preprocess/`` write it into their manifest, ``wean-export`` into the folder of a model.
"""

import ast
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import UserError, printable
from ..storage.files import check_size, open_regular, read_json, read_regular
from . import steps
from .casing import CASE_MARK, capitalise, true_case
from .cleaning import FORMS, SPECIAL_POLICIES, Cleaner, one_spelling, restore_specials

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"  # of what a script of preprocess/ wrote
TRUECASE_MODEL, BPE_CODES, WORDPIECES = "truecase.model", "bpe.codes", "wordpiece.vocab"
EXAMPLE = "example.txt"
_BEGINNING, _LONGEST = 1 << 16, 300  # bytes of a file that an example is looked for in, and characters of it
_LOG = "preprocess.log"  # in which fairseq-preprocess notes its options
_LARGEST_LOG = 1 << 24  # bytes
_OPTION = r"\b{}=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"


@dataclass(frozen=True)
class TextSettings:
    """Settings of the steps from text to tokens.

    Attributes:
        unit: what a token is, one of ``steps.UNITS``.
        language: whose Moses rules, where a token is Moses's.
        lowercase: lower-case the text.
        truecase: give the first word of a sentence the case that it mostly has, by a model that was learnt.
        reversible_case: true-case the text so that it can be undone. False: all tokens, as Moses does; text that was
            prepared by a version that had nothing else.
        bpe: split words by codes that were learnt.
        brackets: spell brackets and quotes as TurkCorpus does.
        unicode: the form that characters are brought to.
        specials: what becomes of ``<unk>``, ``</s>``, ... in the text.
        unknown: the corpus's own word for unknown ones; empty: it has none.
    """

    unit: str = "words"
    language: str = "en"
    lowercase: bool = False
    truecase: bool = False
    reversible_case: bool = True
    bpe: bool = False
    brackets: bool = False
    unicode: str = "NFC"
    specials: str = "escape"
    unknown: str = ""

    def __post_init__(self) -> None:
        """Refuse a language that is none: its name becomes that of a file; raises ``UserError``, naming it."""
        if not re.fullmatch("[a-z]{2,3}", self.language):
            raise UserError(f"{self.language!r} is not a language: give two letters such as en, de or fr.")

    @property
    def mark(self) -> str:
        """The mark on tokens that is no part of words; empty where there is none."""
        return steps.MARK if self.unit == "joiner" else ""

    @property
    def files(self) -> list[str]:
        needed = {TRUECASE_MODEL: self.truecase, BPE_CODES: self.bpe, WORDPIECES: self.unit == "wordpiece"}
        return [name for name, is_needed in needed.items() if is_needed]

    def describe(self) -> str:
        """In words, such as "Moses tokens (en), lower-cased"."""
        names = {"words": "words between spaces", "moses": f"Moses tokens ({self.language})", "jieba": "jieba's words"}
        names |= {"wordpiece": "word pieces", "joiner": "words and punctuation with joiner marks"}
        steps_taken = {"lower-cased": self.lowercase, "true-cased": self.truecase, "in BPE pieces": self.bpe}
        return ", ".join([names.get(self.unit, self.unit), *(name for name, taken in steps_taken.items() if taken)])


#: Of text that is in tokens already, whoever made them.
TOKENS = TextSettings(unicode="none", specials="keep")


class Text:
    """The steps from a line of text to tokens, and back.

    Args:
        folder: where the files are that steps read; ``None`` leaves out the steps that are learnt from the tokens.
        wordpieces: the vocabulary of word pieces (default: the one in ``folder``).

    Attributes:
        cleaner: counts what it mends.
    """

    def __init__(self, settings: TextSettings, folder: Path | None = None, wordpieces: Path | None = None) -> None:
        self.settings = settings
        self.cleaner = Cleaner(settings.unicode, settings.specials, settings.unknown, joiners=settings.unit == "joiner")
        self.folder = folder
        self._wordpieces = wordpieces

    @cached_property
    def _split(self) -> steps.Step:
        wordpieces = self._wordpieces
        if wordpieces is None and self.folder is not None and self.settings.unit == "wordpiece":
            wordpieces = self._file(WORDPIECES)
        return steps.splitter(self.settings.unit, wordpieces, self.settings.language)

    @cached_property
    def _learnt(self) -> list[steps.Step]:
        if self.folder is None:
            return []
        learnt = []
        if self.settings.truecase and not self.settings.reversible_case:
            learnt.append(steps.truecaser(self._file(TRUECASE_MODEL)))
        if self.settings.bpe:
            learnt.append(steps.bpe(self._file(BPE_CODES), self.settings.mark))
        return learnt

    @cached_property
    def _usual_forms(self) -> dict[str, str] | None:
        """The usual forms of words by which the text is true-cased; ``None`` where they are not learnt."""
        is_cased = self.folder is not None and self.settings.truecase and self.settings.reversible_case
        return steps.usual_forms(self._file(TRUECASE_MODEL)) if is_cased else None

    @cached_property
    def _undo(self) -> list[steps.Step]:
        back: list[steps.Step] = []
        if self.settings.truecase and not self.settings.reversible_case:
            back.append(steps.uncaser())
        return [*back, restore_specials, steps.joiner(self.settings.unit, self.settings.language)]

    @property
    def files(self) -> list[Path]:
        return [self._file(name) for name in self.settings.files]

    @property
    def example(self) -> str:
        """A sentence of about ten words that a model is for, in running text; empty where none is kept."""
        kept = self._beginning(EXAMPLE)
        if kept:
            return " ".join(kept.split())
        lines = [line for line in self._beginning("valid.src").splitlines() if 0 < len(line.strip()) <= _LONGEST]
        return self.restore(min(lines, key=lambda line: abs(len(line.split()) - 10))) if lines else ""

    def _beginning(self, name: str) -> str:
        """The first lines of a file of the folder; nothing where it is not there."""
        if self.folder is None:
            return ""
        try:
            with open_regular(self.folder / name) as file:
                return str(file.read(_BEGINNING).decode("utf-8", "ignore").rpartition("\n")[0])
        except OSError:
            return ""

    def _file(self, name: str) -> Path:
        assert self.folder is not None, "text that was cut by a file comes with its folder"
        if not (self.folder / name).is_file():
            raise UserError(f"{self.folder} has no {name}, by which its text was cut: get it back, or prepare again.")
        check_size(self.folder / name)
        return self.folder / name

    def clean(self, line: str) -> str:
        """A clean line that is not cut into tokens yet."""
        line = self.cleaner.clean(line)
        if self.settings.brackets:
            line = one_spelling(line)
        return self.cleaner.clean(line.lower()) if self.settings.lowercase else line

    def cut(self, clean: str) -> str:
        """Tokens of a clean line, before the steps that are learnt from them."""
        if self._usual_forms is None:
            return self.cleaner.guard(self._split(clean))
        cased, is_marked = true_case(clean, self._usual_forms)
        tokens = self.cleaner.guard(self._split(cased))
        is_marked = is_marked or tokens.split(" ", 1)[0] == CASE_MARK  # typed: the mark before it is the one taken out
        return f"{CASE_MARK} {tokens}" if tokens and is_marked else tokens

    def prepare(self, line: str) -> str:
        """The tokens that a model reads, between spaces; empty where the line has none.

        Raises:
            UserError: if a file or a library of the steps is missing.
        """
        tokens = self.cut(self.clean(line))
        for step in self._learnt:
            tokens = self.cleaner.guard(step(tokens))
        return tokens

    def restore(self, tokens: str) -> str:
        """Running text of the tokens that a model wrote; lower-casing and normalisation cannot be undone."""
        if self.settings.bpe:
            tokens = steps.undo_bpe(tokens)
        first, _, rest = tokens.lstrip().partition(" ")
        is_cased = self.settings.truecase and self.settings.reversible_case
        is_marked = is_cased and first == CASE_MARK
        text = rest if is_marked else tokens
        for step in self._undo:
            text = step(text)
        text = " ".join(text.split())
        return capitalise(text) if is_cased and not is_marked else text


def settings_of(values: Mapping[str, Any], path: Path) -> TextSettings:
    """Settings as JSON has them; what is not said is as it is by default.

    Args:
        values: by name; others than those of ``TextSettings`` are left out.

    Raises:
        UserError: if one of them is nothing that this version knows.
    """
    found = {field.name: values[field.name] for field in fields(TextSettings) if values.get(field.name) is not None}
    found |= {"bpe": bool(values.get("bpe"))}  # an older manifest has the number of merges
    found.setdefault("reversible_case", False)  # which older manifests do not have
    known = (("unit", steps.UNITS), ("unicode", FORMS), ("specials", SPECIAL_POLICIES))
    wrong = [name for name, value in found.items() if type(value) is not type(getattr(TextSettings, name))]
    wrong += [name for name, choices in known if found.get(name, choices[0]) not in choices]
    if wrong:
        raise UserError(
            f"{path} has {found[wrong[0]]!r} for {wrong[0]}, which this version of wean_fairseq does not know."
        )
    return TextSettings(**found)


def read_text_settings(folder: Path) -> TextSettings | None:
    """The settings of the text that ``preprocess/`` made in ``folder``; ``None`` where no such script did.

    Raises:
        UserError: if the manifest is damaged.
    """
    path = folder / MANIFEST
    try:
        manifest = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}): prepare the text again.") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("options"), dict):
        return None
    text = manifest.get("text")
    return settings_of(text if isinstance(text, dict) else manifest["options"], path)


def prepared_text(data: Path, given: str | Path | None = None) -> Text | None:
    """The steps by which the text of a training became tokens; ``None`` where nobody knows.

    Args:
        data: directory that fairseq-preprocess wrote.
        given: directory that a script of ``preprocess/`` wrote (default: the one that the data was made from).

    Raises:
        UserError: if no such script wrote the directory that is given, or something in it is missing or damaged.
    """
    folder = _text_of_data(data) if given is None else Path(given)
    settings = None if folder is None else read_text_settings(folder)
    if settings is None and given is not None:
        raise UserError(f"{given} has no manifest.json of a script of preprocess/: name the directory that one wrote.")
    if settings is None:
        return None
    text = Text(settings, folder)
    for name in (MANIFEST, "valid.src", EXAMPLE, *settings.files) if given is None else ():
        if folder is not None and not _is_beside(folder / name, data):
            raise UserError(
                f"{folder / name} leads out of the folder that {data} is in: name the text with --text if it is "
                "the text of this data."
            )
    text.prepare("")  # so that what is missing is said now
    return text


def _is_beside(path: Path, data: Path) -> bool:
    """Whether a path is in the folder that ``data`` is in, wherever links lead."""
    return path.resolve().is_relative_to(data.resolve().parent)


def _text_of_data(data: Path) -> Path | None:
    """The directory of the text that fairseq-preprocess made ``data`` from, if a script of ``preprocess/`` wrote it.

    The log of fairseq-preprocess names it. If both have moved together, it is found at its new place. A log may come
    from somebody else, and name any text of this computer: only text in the folder that ``data`` is in is taken.
    """
    try:
        log = read_regular(data / _LOG, _LARGEST_LOG).decode("utf-8", errors="replace")
        texts = re.findall(_OPTION.format("trainpref"), log)
        places = re.findall(_OPTION.format("destdir"), log)
        text, place = Path(ast.literal_eval(texts[-1])).parent, Path(ast.literal_eval(places[-1]))
        beside = data / os.path.relpath(text, place)
        found = next((folder for folder in (beside, text) if (folder / MANIFEST).is_file()), None)
    except (OSError, IndexError, SyntaxError, ValueError):  # there is none, or it names none
        return None
    if found is not None and not _is_beside(found, data):
        logger.warning(
            f"{printable(str(data / _LOG))} names the text {printable(str(found))}, which is not used because it is "
            "outside of the folder that the data is in: name it with --text if it is the text of this data"
        )
        return None
    return found
