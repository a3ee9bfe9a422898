"""The text steps: reversible tokens, Moses tokens and true-casing, BPE, WordPiece, jieba, and the inverse steps.

A step maps one line to one line.
"""

import io
import os
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from ..errors import UserError
from ..optional import import_optional, versions_of
from ..storage.files import open_regular
from .detokenise import detokeniser

TextStep = Callable[[str], str]
TokenUnit = Literal["words", "joiner", "characters", "moses", "jieba", "wordpiece"]
UNITS = get_args(TokenUnit)
_LIBRARIES = {"joiner": "regex", "moses": "sacremoses", "jieba": "jieba", "wordpiece": "tokenizers"}
#: Byte pair encoding takes a time that grows with the square of a word's length, so longer words are cut.
LONGEST_WORD = 1000
_LONGEST_CUT = 5000  # maximum number of characters that jieba splits at a time
_LONGEST_VERSION = 100  # maximum number of characters in the first line of BPE codes, such as #version: 0.2
MARK = "￭"  # mark that the unit joiner attaches to tokens where the text has no space


def splitter(unit: str, wordpiece: Path | None = None, language: str = "en") -> TextStep:
    """Return the step that splits a line into tokens. The unit ``words`` keeps the tokens that the text already has.

    Args:
        wordpiece: the vocabulary of word pieces.
        language: language of Moses's rules for abbreviations and apostrophes.

    Raises:
        UserError: if Moses has no rules for the language.

    Raises:
        UserError: if a library or a file is missing.
    """
    if unit == "characters":
        return lambda line: " ".join(line.replace(" ", ""))
    if unit == "joiner":
        from .reversible import split  # noqa: PLC0415 - imports regex (0.1 s) and this module

        return split
    if unit == "moses":
        tokenizer = import_optional("sacremoses").MosesTokenizer(lang=language)
        # Characters are not escaped (no ``&apos;``). The tokens are joined here, because the string that sacremoses
        # returns would end in a space after .'
        return lambda line: " ".join(tokenizer.tokenize(line, escape=False))
    if unit == "jieba":
        return _jieba()
    if unit == "wordpiece":
        return _wordpiece(wordpiece)
    return str


def check_language(unit: str, language: str) -> None:
    """Raise ``UserError`` if Moses's tokeniser would treat a language as English."""
    if unit != "moses":
        return
    known = sorted(set(import_optional("sacremoses.corpus").NonbreakingPrefixes().available_langs.values()))
    if language not in known:
        raise UserError(f"there are no Moses rules for --language {language}: choose from {', '.join(known)}.")


def _jieba() -> TextStep:
    """Return a step that splits Chinese text into words.

    The cache of the dictionary is in a private directory instead of the shared /tmp.
    """
    jieba = import_optional("jieba")
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wean_fairseq"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)  # loading the cache executes code, so other users must not be able to write to it
    except OSError as error:
        raise UserError(f"cannot keep jieba's cache in {folder}: {error.strerror}; set XDG_CACHE_HOME.") from error
    jieba.setLogLevel("WARNING")
    tokenizer = _jieba_tokenizer(str(folder))

    def split(line: str) -> str:
        # the time for characters that are not in the dictionary grows with the square of their number
        parts = (line[start : start + _LONGEST_CUT] for start in range(0, len(line), _LONGEST_CUT))
        return " ".join(" ".join(word for part in parts for word in tokenizer.cut(part)).split())

    return split


@lru_cache(maxsize=1)  # reading the dictionary takes seconds
def _jieba_tokenizer(folder: str) -> Any:
    tokenizer = import_optional("jieba").Tokenizer()
    tokenizer.tmp_dir = folder
    tokenizer.initialize()
    return tokenizer


def _wordpiece(vocabulary: Path | None) -> TextStep:
    """Return a step that splits into the BERT word pieces of a vocabulary file, lower-cased like bert-base-uncased."""
    if vocabulary is None:
        raise UserError("--unit wordpiece needs --wordpiece-vocab, the vocab.txt of a BERT model.")
    tokenizers = import_optional("tokenizers")
    try:
        # text mode accepts all kinds of line endings
        with io.TextIOWrapper(open_regular(vocabulary), "utf-8-sig") as file:
            pieces = file.read().rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{vocabulary} cannot be read as text ({error}): give the vocab.txt of a BERT model."
        ) from error
    if "[UNK]" not in pieces:
        raise UserError(f"{vocabulary} is not a WordPiece vocabulary (one piece per line, including [UNK]).")
    lower = not any(piece.isascii() and piece[:1].isupper() for piece in pieces)
    model = tokenizers.models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return lambda line: " ".join(tokenizer.encode(line).tokens)


def library_versions(unit: str, *, truecase: bool, bpe: bool) -> dict[str, str]:
    """Return the versions of the libraries on which the tokens depend."""
    names = [_LIBRARIES[unit]] if unit in _LIBRARIES else []
    names += ["sacremoses"] * truecase + ["subword-nmt"] * bpe
    return {"unicode": unicodedata.unidata_version, **versions_of(dict.fromkeys(names))}


@contextmanager
def _read(path: Path) -> Iterator[None]:
    """Raise ``UserError`` if a library cannot read a file of a learnt step."""
    try:
        with redirect_stderr(io.StringIO()):  # subword-nmt prints two lines there before it exits
            yield
    except (OSError, ValueError, SystemExit) as error:
        reason = error if isinstance(error, Exception) else "a line of it is not two pieces"
        raise UserError(f"{path} cannot be read ({reason}): restore it, or prepare the text again.") from error


def truecaser(path: Path) -> TextStep:
    """Return the step that gives the first word of a sentence its most frequent case.

    Raises:
        UserError: if the file is damaged.
    """
    library = import_optional("sacremoses")
    with _read(path):
        caser = library.MosesTruecaser(str(path))
    caser.split_xml = str.split  # sacremoses's own parser would treat "a < b" as XML and could lose a token
    return lambda line: str(caser.truecase(line, return_str=True)) if line else line


def usual_forms(path: Path) -> dict[str, str]:
    """Return the most frequent form of each lower-cased word. Raise ``UserError`` if the file is damaged."""
    with _read(path):
        return dict(import_optional("sacremoses").MosesTruecaser(str(path)).model["best"])


def bpe(path: Path, mark: str = "") -> TextStep:
    """Return the step that splits words with the learnt codes. All pieces except the last end with ``@@``.

    Args:
        path: path of the codes. Parts of longer words than ``LONGEST_WORD`` are split separately.
        mark: a mark at the start or the end of tokens that is not part of the word. It stays on the first or the last
            piece.

    Raises:
        UserError: if the file is damaged.
    """
    applier = import_optional("subword_nmt.apply_bpe")
    with _read(path), io.TextIOWrapper(open_regular(path), "utf-8") as file:
        version = file.readline(_LONGEST_VERSION + 1)
        # subword-nmt removes zeros from the end of the version, which takes time proportional to the square of its
        # length.
        if version.startswith("#version:") and len(version) > _LONGEST_VERSION:
            raise ValueError(f"its version has more than {_LONGEST_VERSION} characters")
        coder = applier.BPE(file)
        if coder.version not in ((0, 1), (0, 2)):  # subword-nmt cannot split words with other versions
            raise ValueError(f"it has version {version[9:].strip()}, and not 0.1 or 0.2")

    def pieces(token: str) -> list[str]:
        word = token.strip(mark) if mark else token
        if not word:
            return [token]
        split = coder.segment_tokens([word[:LONGEST_WORD]])
        for start in range(LONGEST_WORD, len(word), LONGEST_WORD):
            split[-1] += "@@"
            split += coder.segment_tokens([word[start : start + LONGEST_WORD]])
        if split[-1].endswith("@@"):  # a literal @@ would join the next token to this word
            split[-1:] = [f"{split[-1][:-1]}@@", "@"]
        if mark:
            split[0] = mark * token.startswith(mark) + split[0]
            split[-1] += mark * token.endswith(mark)
        return list(split)

    return lambda line: " ".join(piece for token in line.split() for piece in pieces(token))


# --- inverse steps --------------------------------------------------------------------------------------------------


def joiner(unit: str, language: str = "en") -> TextStep:
    """Return the step that turns the tokens of ``splitter`` into plain text."""
    if unit == "joiner":
        from .reversible import join  # noqa: PLC0415 - imports regex (0.1 s) and this module

        return join
    if unit == "characters":
        return lambda line: line.replace(" ", "")
    if unit == "jieba":
        return detokeniser(language, pieces=True)
    if unit == "wordpiece":
        detokenise = detokeniser(language, pieces=True)
        return lambda line: detokenise(re.sub(r"(?<!\s)\s+##", "", line))
    if unit == "moses":
        return detokeniser(language)
    return str


def uncaser() -> TextStep:
    """Return the step that capitalises the first word of a true-cased sentence."""
    detruecaser = import_optional("sacremoses").MosesDetruecaser()
    return lambda line: str(detruecaser.detruecase(line, return_str=True)) if line else line


def undo_bpe(line: str) -> str:
    """Join the pieces of words."""
    return re.sub(r"@@( |$)", "", line)
