"""Tokenisations of metrics. Their names are part of the metrics' signatures.

``13a``, ``zh`` and ``char`` are sacreBLEU's own tokenisers. ``none`` splits tokenised text at white space. ``words`` is
the ROUGE convention: words are lower-cased runs of letters and digits. The combining marks of a letter, such as the
vowel signs of Hindi, the diacritics of Arabic and the points of Hebrew, belong to the letter. On ASCII text it equals
the default tokeniser of the rouge-score package. That tokeniser deletes all other letters, so identical Chinese
sentences score 0, and "café" becomes "caf". ``nltk`` is NLTK's ``word_tokenize`` of 2017, as in the scorer of the NTS
paper. Punkt splits the text into sentences, and the rules of the Penn Treebank split sentences into words.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, Union, get_args

from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_char import TokenizerChar
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

from ..errors import UserError
from ..optional import LazyModule

regex = LazyModule("regex")  # regex supports Unicode's class of marks, which the standard library's re does not support
nltk_tokenize = LazyModule("nltk.tokenize")

TokenizeFunction = Callable[[str], str]
#: Whether case is ignored: for all letters (True), for no letters (False), or only for A to Z, as in mteval-v13a
#: ("ascii").
Lowercase = Union[bool, Literal["ascii"]]

#: Tokenisations that BLEU and the n-gram metrics accept (names as in sacreBLEU).
TextTokenizer = Literal["13a", "none", "zh", "char"]
TEXT_TOKENIZERS = get_args(TextTokenizer)

_ASCII_WORD = re.compile(r"[^\W_]+")
# As in Unicode's word boundaries (UAX 29), combining marks and joiners between letters continue a word.
_WORD = r"[\p{L}\p{N}](?:[\p{L}\p{N}\p{M}]|[\u200C\u200D](?=[\p{L}\p{M}]))*"
_ASCII_LOWER = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}
_CJK = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


@lru_cache(maxsize=2**16)
def _words(text: str) -> str:
    lowered = text.lower()
    return " ".join(_ASCII_WORD.findall(lowered) if text.isascii() else regex.findall(_WORD, lowered))


def _white_space(text: str) -> str:
    return " ".join(text.split())


def fold_case(text: str, lowercase: Lowercase) -> str:
    """Convert those letters to lower case whose case is ignored."""
    if lowercase == "ascii":
        return text.translate(_ASCII_LOWER)
    return text.lower() if lowercase else text


def case_signature(lowercase: Lowercase) -> str:
    """Return the entry ``case`` of a metric's signature."""
    if lowercase == "ascii":
        return "lc-ascii"
    return "lc" if lowercase else "mixed"


def _nltk_words() -> TokenizeFunction:
    """Return a function that splits a text into sentences and words with NLTK.

    Only the last period of a sentence becomes a separate token.
    """
    try:
        sentences = nltk_tokenize.PunktTokenizer("english")
    except (LookupError, OSError):  # the data is missing, or is in a folder that NLTK refuses to read
        raise UserError(
            "the tokenisation nltk needs the sentence splitter of NLTK; run `python -m nltk.downloader punkt_tab`, "
            "or set NLTK_DATA to a folder that has it."
        ) from None
    words = nltk_tokenize.TreebankWordTokenizer()
    return lambda text: " ".join(word for sentence in sentences.tokenize(text) for word in words.tokenize(sentence))


def has_chinese(text: str) -> bool:
    """Return whether a text contains a Chinese character."""
    return _CJK.search(text) is not None


def get_tokenizer(name: str) -> TokenizeFunction:
    """Return the function that maps a sentence to its tokens joined by single spaces."""
    tokenizers: dict[str, Callable[[], TokenizeFunction]] = {
        "13a": Tokenizer13a,
        "zh": TokenizerZh,
        "char": TokenizerChar,
        "none": lambda: _white_space,
        "words": lambda: _words,
        "nltk": _nltk_words,
    }
    if name not in tokenizers:
        raise UserError(f"unknown tokenisation {name!r}; choose one of {', '.join(tokenizers)}.")
    return tokenizers[name]()


def guess_tokenization(lines: list[str]) -> TextTokenizer:
    """Choose a tokenisation for the references: ``zh``, ``none`` (segmented Chinese) or ``13a``.

    sacreBLEU's default 13a scores 0 on unsegmented Chinese without a warning, so it is not used for text that is mostly
    Chinese.
    """
    sample = "\n".join(lines[:1000])
    chinese = len(_CJK.findall(sample))
    letters = sum(character.isalpha() for character in sample)
    if chinese <= letters / 2 or chinese == 0:
        return "13a"
    spaces = sample.count(" ")
    return "none" if spaces > chinese / 4 else "zh"
