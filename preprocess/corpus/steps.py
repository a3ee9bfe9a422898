"""The text steps, each by a kept library: Moses tokens and true-casing, BPE, WordPiece, jieba; and their way back.

A step takes one line and gives one line. Those that have to be learnt (true-casing and BPE) run over the finished
splits, learnt from the training split alone; their models stay beside the text.
"""

import io
import os
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, redirect_stderr
from importlib import import_module, metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

from corpus.cleaning import restore_specials
from corpus.errors import InputError
from corpus.reading import read_lines

Step = Callable[[str], str]
TRUECASE_MODEL, BPE_CODES = "truecase.model", "bpe.codes"
UNITS = ("words", "characters", "moses", "jieba", "wordpiece")
_LIBRARIES = {"moses": "sacremoses", "jieba": "jieba", "wordpiece": "tokenizers"}
_EXTRAS = {"jieba": "zh", "tokenizers": "bert"}
_LATIN = re.compile(r"[^\W_\u2e80-\U0003ffff]")


def splitter(unit: str, wordpiece: Path | None = None) -> Step:
    """The step that makes tokens: ``words`` leaves them as they are.

    Raises:
        InputError: if a library or a file is missing.
    """
    if unit == "characters":
        return split_characters
    if unit == "moses":
        return _moses()
    if unit == "jieba":
        return _jieba()
    if unit == "wordpiece":
        return _wordpiece(wordpiece)
    return str


def split_characters(line: str) -> str:
    """One token a character, white space left out."""
    return " ".join(line.replace(" ", ""))


def _moses() -> Step:
    """Moses tokens for English; characters stay what they are (no ``&apos;``)."""
    tokenizer = _need("sacremoses").MosesTokenizer(lang="en")
    return lambda line: str(tokenizer.tokenize(line, escape=False, return_str=True))


def _jieba() -> Step:
    """Chinese words. The dictionary's cache is kept in a directory of the user's own, not in the shared /tmp."""
    jieba = _need("jieba")
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wean_fairseq"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)  # the cache is code to whoever loads it: nobody else may write it
    except OSError as error:
        raise InputError(f"cannot keep jieba's cache in {folder}: {error.strerror}; set XDG_CACHE_HOME.") from error
    jieba.setLogLevel("WARNING")
    tokenizer = jieba.Tokenizer()
    tokenizer.tmp_dir = str(folder)
    tokenizer.initialize()
    return lambda line: " ".join(" ".join(tokenizer.cut(line)).split())


def _wordpiece(vocabulary: Path | None) -> Step:
    """BERT's word pieces from a vocabulary file, a piece a line; lower-cased as bert-base-uncased is."""
    if vocabulary is None:
        raise InputError("--unit wordpiece needs --wordpiece-vocab, the vocab.txt of a BERT model.")
    tokenizers = _need("tokenizers")
    pieces = list(read_lines(vocabulary))
    if "[UNK]" not in pieces:
        raise InputError(f"{vocabulary} is no WordPiece vocabulary: a file with a piece a line, [UNK] among them.")
    lower = not any(piece.isascii() and piece[:1].isupper() for piece in pieces)
    model = tokenizers.models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return lambda line: " ".join(tokenizer.encode(line).tokens)


def library_versions(unit: str, *, truecase: bool, bpe: bool) -> dict[str, str]:
    """The versions that the text depends on."""
    names = [_LIBRARIES[unit]] if unit in _LIBRARIES else []
    names += ["sacremoses"] * truecase + ["subword-nmt"] * bpe
    versions = {"unicode": unicodedata.unidata_version}
    for name in dict.fromkeys(names):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError as error:
            raise _missing(name) from error
    return versions


# --- steps that are learnt ------------------------------------------------------------------------------------------


def learn_truecaser(lines: Iterable[str], path: Path) -> None:
    """Write a Moses true-casing model: each word with the forms it was seen in, not at the start of a sentence."""
    learner = _need("sacremoses").MosesTruecaser()
    forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        for lower, form, weight in learner.learn_truecase_weights(line.split()):
            forms[lower][form] += weight
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for counts in forms.values():
            total = sum(counts.values())
            best, *others = counts.most_common()
            shown = [f"{best[0]} ({best[1]}/{total})", *(f"{form} ({count})" for form, count in others)]
            print(" ".join(shown), file=file)


def truecaser(path: Path) -> Step:
    """The step that gives the first word of a sentence the case it mostly has."""
    caser = _need("sacremoses").MosesTruecaser(str(path))
    caser.split_xml = str.split  # its own takes "a < b" for XML and can lose a token
    return lambda line: str(caser.truecase(line, return_str=True)) if line else line


def learn_bpe(lines: Iterable[str], path: Path, merges: int) -> None:
    """Write the codes of ``merges`` byte pair merges.

    Raises:
        InputError: if the text is too small to learn from.
    """
    learner = _need("subword_nmt.learn_bpe")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        quiet = nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO())  # its bar is always on
        try:
            with quiet:
                learner.learn_bpe(lines, file, merges)
        except (IndexError, ValueError) as error:  # what it raises when no pair is left
            raise InputError(f"the training text has not enough words to learn {merges} merges from.") from error


def bpe(path: Path) -> Step:
    """The step that splits words by the learnt codes, ``@@`` at the end of all pieces but the last."""
    applier = _need("subword_nmt.apply_bpe")
    with path.open(encoding="utf-8") as file:
        coder = applier.BPE(file)
    return lambda line: str(coder.process_line(line))


def map_file(path: Path, step: Step, finish: Step = str) -> None:
    """Run a step over a file, in place and atomically; the number of lines stays."""
    part = path.with_name(path.name + ".step")
    with path.open(encoding="utf-8", newline="\n") as old, part.open("w", encoding="utf-8", newline="\n") as new:
        for line in old:
            new.write(finish(step(line.rstrip("\n"))) + "\n")
    os.replace(part, path)


def lines_of(*paths: Path) -> Iterator[str]:
    """The lines of files, one after the other."""
    for path in paths:
        with path.open(encoding="utf-8", newline="\n") as file:
            yield from file


# --- the way back ---------------------------------------------------------------------------------------------------


def undo(options: dict[str, Any]) -> Step:
    """The step that turns a model's output back into running text, given the options the text was prepared with."""
    steps: list[Step] = []
    unit = options.get("unit", "words")
    if options.get("bpe"):
        steps.append(undo_bpe)
    if options.get("truecase"):
        uncaser = _need("sacremoses").MosesDetruecaser()
        steps.append(lambda line: str(uncaser.detruecase(line, return_str=True)) if line else line)
    steps.append(restore_specials)
    if unit in ("characters", "jieba"):
        steps.append(join_chinese if unit == "jieba" else lambda line: line.replace(" ", ""))
    elif unit == "wordpiece":
        steps.append(lambda line: re.sub(r"\s+##", "", line))
    elif unit == "moses":
        detokenizer = _need("sacremoses").MosesDetokenizer(lang="en")
        steps.append(lambda line: str(detokenizer.detokenize(line.split(), unescape=False)) if line else line)

    def run(line: str) -> str:
        for step in steps:
            line = step(line)
        return line

    return run


def undo_bpe(line: str) -> str:
    """Join the pieces of words."""
    return re.sub(r"@@( |$)", "", line)


def join_chinese(line: str) -> str:
    """Take out all spaces but those between two Latin words or numbers."""
    words = line.split()
    text = words[0] if words else ""
    for before, word in pairwise(words):
        text += f" {word}" if _LATIN.match(before[-1]) and _LATIN.match(word[0]) else word
    return text


def _need(module: str) -> Any:
    """Import a library.

    Raises:
        InputError: saying how to get it.
    """
    try:
        found = import_module(module)
    except ImportError as error:
        raise _missing(module.partition(".")[0].replace("_", "-")) from error
    return found


def _missing(library: str) -> InputError:
    install = f"'wean-fairseq[{_EXTRAS[library]}]'" if library in _EXTRAS else library
    return InputError(f"this option needs {library}, which is not installed: pip install {install}.")
