"""Record of the steps that turned text into the tokens of a training.

The same steps are applied to the input of its model.

The scripts of ``preprocess/`` write this record into their manifest, and ``wean-export`` writes it into the model
folder.
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

from msgspec import Struct, ValidationError, convert

from ..console import counted
from ..errors import UserError, name_some, printable
from ..ranges import check_fields
from ..storage.data_files import LARGEST_LOG, LOG, MANIFEST, check_prepared
from ..storage.files import check_size, is_beside, open_regular, read_regular
from ..storage.json_files import read_json
from ..storage.manifest import check_file
from . import steps
from .casing import CASE_MARK, capitalise, true_case
from .cleaning import Cleaner, Form, SpecialPolicy, one_spelling, restore_specials

logger = logging.getLogger(__name__)

MODEL_TEXT = "text.json"  # file in the folder of an exported model
TRUECASE_MODEL, BPE_CODES, WORDPIECES = "truecase.model", "bpe.codes", "wordpiece.vocab"
EXAMPLE = "example.txt"
_EXPORTED = (MODEL_TEXT, TRUECASE_MODEL, BPE_CODES, WORDPIECES, "config.json")  # an exported model lists these files
FEW_PAIRS = 100
# Number of bytes of a file that are searched for an example, and maximum number of characters of the example.
_BEGINNING, _LONGEST = 1 << 16, 300
_BETWEEN_TOPICS = re.compile(r"[;；，、|]|,(?!\d)")
_OPTION = r"\b{}=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"


@dataclass(frozen=True)
class TextSettings:
    """Settings of the steps from text to tokens.

    Attributes:
        unit: kind of tokens, one of ``steps.UNITS``.
        language: language of the Moses rules, for Moses tokens.
        lowercase: lower-case the text.
        truecase: give the first word of a sentence its most frequent case, with a learnt model.
        reversible_case: true-case the text in a reversible way. False = true-case the tokens as Moses does, for text
            that an older version has prepared.
        bpe: split words with learnt codes.
        brackets: spell brackets and quotes as TurkCorpus does.
        unicode: Unicode normalisation form.
        specials: how to treat ``<unk>``, ``</s>``, ... in the text.
        unknown: word that the corpus uses for unknown words. Empty = no such word.
        topics: whether a source consists of topic words, separated by spaces, commas or semicolons.
    """

    unit: steps.TokenUnit = "words"
    language: str = "en"
    lowercase: bool = False
    truecase: bool = False
    reversible_case: bool = True
    bpe: bool = False
    brackets: bool = False
    unicode: Form = "NFC"
    specials: SpecialPolicy = "escape"
    unknown: str = ""
    topics: bool = False

    def __post_init__(self) -> None:
        """Raise ``UserError`` for a wrong type, choice or language. The language becomes part of a file name."""
        check_fields(self)
        if not re.fullmatch("[a-z]{2,3}", self.language):
            raise UserError(f"{self.language!r} is not a language: give two letters such as en, de or fr.")

    @property
    def mark(self) -> str:
        """The joiner mark of tokens, which is not part of a word. It is empty if the unit has no mark."""
        return steps.MARK if self.unit == "joiner" else ""

    @property
    def files(self) -> list[str]:
        is_needed_by_name = {TRUECASE_MODEL: self.truecase, BPE_CODES: self.bpe, WORDPIECES: self.unit == "wordpiece"}
        return [name for name, is_needed in is_needed_by_name.items() if is_needed]

    def describe(self) -> str:
        """Return a short description, such as "Moses tokens (en), lower-cased"."""
        names = {"words": "words between spaces", "moses": f"Moses tokens ({self.language})", "jieba": "jieba's words"}
        names |= {"wordpiece": "word pieces", "joiner": "words and punctuation with joiner marks"}
        steps_taken = {"lower-cased": self.lowercase, "true-cased": self.truecase, "in BPE pieces": self.bpe}
        return ", ".join([names.get(self.unit, self.unit), *(name for name, taken in steps_taken.items() if taken)])


_NAMES = {field.name for field in fields(TextSettings)}
_LATER_NAMES = {"reversible_case", "topics"}  # older exported models have no values for these names

#: Settings for text that is already split into tokens.
TOKENS = TextSettings(unicode="none", specials="keep")


class Text:
    """The steps that turn a line of text into tokens, and back.

    Args:
        folder: folder with the files that the steps need. ``None`` leaves out the steps that are learnt from tokens.
        wordpieces: vocabulary of word pieces (default: the vocabulary in ``folder``).

    Attributes:
        cleaner: the cleaner, which counts its corrections.
    """

    def __init__(self, settings: TextSettings, folder: Path | None = None, wordpieces: Path | None = None) -> None:
        self.settings = settings
        self.cleaner = Cleaner(settings.unicode, settings.specials, settings.unknown, joiners=settings.unit == "joiner")
        self.folder = folder
        self._wordpieces = wordpieces

    @cached_property
    def _split(self) -> steps.TextStep:
        wordpieces = self._wordpieces
        if wordpieces is None and self.folder is not None and self.settings.unit == "wordpiece":
            wordpieces = self._file(WORDPIECES)
        return steps.splitter(self.settings.unit, wordpieces, self.settings.language)

    @cached_property
    def _learnt(self) -> list[steps.TextStep]:
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
        """The usual forms of words, for true-casing the text. ``None`` if none were learnt."""
        is_cased = self.folder is not None and self.settings.truecase and self.settings.reversible_case
        return steps.usual_forms(self._file(TRUECASE_MODEL)) if is_cased else None

    @cached_property
    def _undo(self) -> list[steps.TextStep]:
        back: list[steps.TextStep] = []
        if self.settings.truecase and not self.settings.reversible_case:
            back.append(steps.uncaser())
        return [*back, restore_specials, steps.joiner(self.settings.unit, self.settings.language)]

    @property
    def files(self) -> list[Path]:
        return [self._file(name) for name in self.settings.files]

    @property
    def example(self) -> str:
        """A typical input sentence of about ten words, as untokenised text. It is empty if none is stored."""
        stored = self._beginning(EXAMPLE)
        if stored:
            return " ".join(stored.split())
        lines = [line for line in self._beginning("valid.src").split("\n") if 0 < len(line.strip()) <= _LONGEST]
        return self.restore(min(lines, key=lambda line: abs(len(line.split()) - 10))) if lines else ""

    def _beginning(self, name: str) -> str:
        """Return the first lines of a file in the folder.

        Return an empty text if it is missing or is a link to another folder.
        """
        if self.folder is None or not (self.folder / name).resolve().is_relative_to(self.folder.resolve()):
            return ""
        try:
            with open_regular(self.folder / name) as file:
                text = str(file.read(_BEGINNING).decode("utf-8", "ignore").rpartition("\n")[0])
        except OSError:
            return ""
        check_prepared(self.folder, [name])
        return text

    def _file(self, name: str) -> Path:
        assert self.folder is not None, "steps that need a file need its folder"
        if not (self.folder / name).is_file():
            raise UserError(
                f"{self.folder} has no {name}, which its text steps need: restore it, or prepare the text again."
            )
        check_size(self.folder / name)
        check_prepared(self.folder, [name])
        _check_exported(self.folder / name)
        return self.folder / name

    def source(self, line: str) -> str:
        """Return a line of the source side.

        If it contains topics, the punctuation between them is replaced by spaces.
        """
        return " ".join(_BETWEEN_TOPICS.sub(" ", line).split()) if self.settings.topics else line

    def clean(self, line: str) -> str:
        """Return a cleaned line that is not split into tokens yet."""
        line = self.cleaner.clean(line)
        if self.settings.brackets:
            line = one_spelling(line)
        return self.cleaner.clean(line.lower()) if self.settings.lowercase else line

    def cut(self, clean: str) -> str:
        """Return the tokens of a cleaned line, before the steps that are learnt from tokens."""
        if self._usual_forms is None:
            return self.cleaner.guard(self._split(clean))
        # If the text itself starts with the mark, another mark is added, because restoring the text removes the first
        # one.
        cased, is_marked = (clean, True) if clean.startswith(CASE_MARK) else true_case(clean, self._usual_forms)
        tokens = self.cleaner.guard(self._split(cased))
        return f"{CASE_MARK} {tokens}" if tokens and is_marked else tokens

    def prepare(self, line: str) -> str:
        """Return the tokens that a model reads for a line of the source, separated by spaces.

        Return an empty text if the line has no tokens.

        Raises:
            UserError: if a file or a library that the steps need is missing.
        """
        return self.tokens(self.clean(self.source(line)))

    def tokens(self, clean: str) -> str:
        """Return the tokens of a cleaned line after all steps."""
        tokens = self.cut(clean)
        for step in self._learnt:
            tokens = self.cleaner.guard(step(tokens))
        return tokens

    def restore(self, tokens: str) -> str:
        """Return running text from the tokens of a model. Lower-casing and normalisation cannot be undone."""
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
    """Build settings from JSON values.

    Args:
        values: values by their names. In a manifest, missing values get their defaults, and unknown names are ignored.
            The file of an exported model must contain every name (except names of later versions) and no others,
            because a different step would change the tokens.
        path: file with the values, for messages.

    Raises:
        UserError: if this version does not know a value.
    """
    try:
        values = convert(values, dict[str, Any])
        if path.name == MODEL_TEXT:
            if wrong := (values.keys() - _NAMES) | (_NAMES - _LATER_NAMES - values.keys()):
                raise ValidationError(f"unknown or missing: {name_some(sorted(wrong))}")
        else:  # older manifests contain the number of BPE merges instead of a bool
            values = {name: value for name, value in values.items() if value is not None}
            values["bpe"] = bool(values.get("bpe"))
        # Older files do not say whether the case is reversible.
        read = convert({"reversible_case": False, **values}, TextSettings)
    except (ValidationError, UnicodeEncodeError) as error:
        raise UserError(
            f"{path} has a value that this version of wean_fairseq does not know ({error}): use the version that wrote "
            "it, or prepare the text again."
        ) from error
    steps.check_language(read.unit, read.language)
    return read


class _Manifest(Struct):
    """The text settings in a manifest. In older manifests, they are among the options of the script."""

    options: dict[str, Any]
    text: dict[str, Any] | None = None


def read_text_settings(folder: str | Path) -> TextSettings | None:
    """Return the text settings of the prepared data or of the exported model in ``folder``.

    Return ``None`` if there are none, or if no script of ``preprocess/`` wrote the manifest.

    Raises:
        UserError: if the manifest is damaged.
    """
    folder = Path(folder)
    path = folder / MANIFEST
    if not path.exists() and (folder / MODEL_TEXT).is_file():
        path = folder / MODEL_TEXT
        _check_exported(path)
    try:
        values: Any = read_json(path)
        if path.name == MANIFEST:
            manifest = convert(values, _Manifest)
            values = manifest.options if manifest.text is None else manifest.text
    except (FileNotFoundError, ValidationError):
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}): prepare the text again.") from error
    return settings_of(values, path)


def _check_exported(path: Path) -> None:
    """Raise ``UserError`` if a file of an exported model has changed since its checksum was written."""
    try:
        check_file(path, "restore it, or export the model again", alike=_EXPORTED.__contains__)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): restore it.") from error


def without_manifest(folder: Path) -> str:
    """Say why ``read_text_settings`` finds no settings in a folder, for a message."""
    found = f"a {MANIFEST}, but not the one" if (folder / MANIFEST).exists() else f"no {MANIFEST}"
    return f"{folder} has {found} of a script of preprocess/"


def small_splits(pairs: Mapping[str, int | None]) -> list[str]:
    """Return one sentence for each held-out set that is too small.

    Args:
        pairs: number of pairs of each split. None = the number is unknown.
    """
    unreliable = {"test": "scores", "valid": "comparisons of checkpoints"}
    return [
        f"the {split} set has {counted(number, 'pair')}, and {measured} are unreliable with fewer than {FEW_PAIRS}"
        for split, measured in unreliable.items()
        if (number := pairs.get(split)) is not None and number < FEW_PAIRS
    ]


def prepared_text(data: str | Path, given: str | Path | None = None) -> Text | None:
    """Return the steps that turned the text of a training into tokens, or ``None`` if they are not recorded.

    Args:
        data: directory that fairseq-preprocess wrote.
        given: output folder of a script of ``preprocess/`` (default: the text from which ``data`` was created).

    Raises:
        UserError: if ``given`` was not written by such a script, or a file in it is missing or damaged.
    """
    data = Path(data)
    folder = text_of_data(data) if given is None else Path(given)
    settings = None if folder is None else read_text_settings(folder)
    if settings is None and given is not None:
        raise UserError(f"{without_manifest(Path(given))}: name the directory that one wrote.")
    if settings is None:
        return None
    text = Text(settings, folder)
    for name in (MANIFEST, "valid.src", EXAMPLE, *settings.files) if given is None else ():
        if folder is not None and not is_beside(folder / name, data):
            raise UserError(
                f"{folder / name} leads out of the folder that {data} is in: name the text with --text if it is "
                "the text of this data."
            )
    text.prepare("")  # report missing files now
    return text


def text_of_data(data: Path, *, quiet: bool = False) -> Path | None:
    """Return the directory of the text from which ``data`` was created, if a script of ``preprocess/`` wrote it.

    The log of fairseq-preprocess names this directory. If text and data were moved together, the text is found in its
    new place. A log may come from another person and name any text of this computer, so only text in the parent folder
    of ``data`` is accepted. Other text is reported, unless ``quiet`` is set.
    """
    try:
        log = read_regular(data / LOG, LARGEST_LOG).decode("utf-8", errors="replace")
        texts = re.findall(_OPTION.format("trainpref"), log)
        places = re.findall(_OPTION.format("destdir"), log)
        text, place = Path(ast.literal_eval(texts[-1])).parent, Path(ast.literal_eval(places[-1]))
        moved_text = data / os.path.relpath(text, place)
        origin = next((folder for folder in (moved_text, text) if (folder / MANIFEST).is_file()), None)
    except (OSError, IndexError, SyntaxError, ValueError):  # there is no log, or it does not contain these options
        return None
    if origin is not None and not is_beside(origin, data):
        if not quiet:
            logger.warning(
                f"{printable(str(data / LOG))} names the text {printable(str(origin))}, which is not used because it "
                "is outside of the folder that the data is in: name it with --text if it is the text of this data"
            )
        return None
    return origin
