"""Reversible tokens: words, numbers and punctuation, with marks where the text has no space.

    He said: “don’t”.      He said ￭: “￭ don ￭’t ￭” ￭.

``￭`` (U+FFED) at the end of a token joins the token to its neighbour on that side. Marks are attached to punctuation
and contractions. Therefore a word is the same token next to a space and next to a comma. Han, kana, Thai and other
scripts without spaces are split into characters, with their combining marks. In these scripts and at CJK punctuation,
tokens are joined without a mark, and the token ``▁`` (U+2581) represents a space. Words follow the word boundaries of
Unicode (UAX #29) with three changes. Words with hyphens, URLs, e-mail addresses, numbers, dates, times and letters with
full stops (``e.g.``) are one token. Contractions (``’s``, ``l’``) are separate tokens. Up to three equal punctuation
characters in a row are one token.

The text can be restored from every way to split it into pieces, because all pieces are kept, and ``split`` and ``join``
use the same rule for joining two pieces without a mark.
"""

import unicodedata
from functools import lru_cache

import regex

from .steps import MARK

SPACE = "▁"

_LETTER = r"[\p{WB=ALetter}\p{WB=Hebrew_Letter}\p{WB=Numeric}\p{WB=ExtendNumLet}]"
# Possessive repetitions need no memory for each letter.
_LETTERS = rf"(?:{_LETTER}++[\p{{WB=Extend}}\p{{WB=ZWJ}}]*+)++"
_ELISION = r"(?i:[cdjlmnst]|(?:jus|lors|puis|quoi)?qu|(?:d[ae]?|a|ne|su)ll|un)['’]"
_CONTRACTION = r"['’](?i:s|t|d|m|re|ve|ll)(?![\p{L}\p{N}\p{M}])"
_PIECES = regex.compile(
    rf"""(?V1)
      (?P<word>
          (?:(?i:https?|ftp)://|www\.)[[!-~]--["'<>]]{{0,2000}}[A-Za-z0-9/_=\#&]
        | [A-Za-z0-9._%+\-]{{1,64}}@[A-Za-z0-9\-]{{1,64}}(?:\.[A-Za-z0-9\-]{{1,64}})+
        | \p{{Nd}}++(?:[.,:/\-]\p{{Nd}}++)++(?:{_LETTERS})?+
        | (?:\p{{L}}\.){{2,}}(?!\p{{L}})
        | (?!{_ELISION}\p{{L}}){_LETTERS}(?:(?:[.\-]|(?!{_CONTRACTION})['’]){_LETTERS})*+
      )
    | (?P<elision>{_ELISION}(?=\p{{L}}))
    | (?P<contraction>(?<=[\p{{L}}\p{{M}}]){_CONTRACTION})
    | (?P<other>
          [:;=][\-'^]?[()DPp/|\\](?!\w)
        | (?P<run>[[\p{{P}}\p{{S}}]--[@\p{{Extended_Pictographic}}]])(?P=run){{1,2}}
        | \X
      )
    """,
    regex.VERBOSE,
)
# Scripts without spaces between words, and the punctuation of these scripts.
_SPACELESS = regex.compile(
    r"[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Bopomofo}\p{Script=Yi}\p{Line_Break=SA}"
    r"\u3000-\u303f\ufe30-\ufe4f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]"
)
_OPENING = ("Sc", "Ps", "Pi")  # currency signs, opening brackets and quotation marks, which belong to the next word
# If the text contains a mark, it is written as ％ and its code. A ％ before such a code is also written in this way.
_TYPED = regex.compile(f"[{MARK}{SPACE}]|％(?=ffed|2581|ff05)")
_CODE = regex.compile("％(ffed|2581|ff05)")


def split(line: str) -> str:
    """Return the tokens of a line whose words are separated by single spaces."""
    tokens, spaceless_before = "", False
    for chunk in line.split():
        cut, spaceless_start, spaceless_end = (_cut if len(chunk) <= 40 else _cut.__wrapped__)(chunk)
        separator = f" {SPACE} " if tokens and (spaceless_before or spaceless_start) else " "
        tokens += separator + cut
        spaceless_before = spaceless_end
    return tokens[1:]


@lru_cache(maxsize=1 << 15)
def _cut(chunk: str) -> tuple[str, bool, bool]:
    """Return the tokens of text without spaces, and whether its first and its last token are in a spaceless script."""
    kinds, pieces = zip(*((match.lastgroup, match[0]) for match in _PIECES.finditer(chunk)), strict=True)
    spaceless = [_is_spaceless(piece) for piece in pieces]
    tokens = [_TYPED.sub(lambda typed: f"％{ord(typed[0]):04x}", piece) for piece in pieces]
    first_word = kinds.index("word") if "word" in kinds else -1
    for place in range(1, len(pieces)):
        if spaceless[place - 1] or spaceless[place]:
            continue
        opens = kinds[place] == "word" or unicodedata.category(pieces[place][0]) in _OPENING
        if (opens and kinds[place - 1] != "word") or place < first_word or kinds[place - 1] == "elision":
            tokens[place - 1] += MARK
        else:
            tokens[place] = MARK + tokens[place]
    return " ".join(tokens), spaceless[0], spaceless[-1]


def join(line: str) -> str:
    """Return the text of tokens. Misplaced marks in the outputs of a model are joined or dropped without an error."""
    text, is_joined, was_spaceless = "", True, False
    for token in line.split():
        if token == SPACE:
            text, is_joined = text + " ", True
            continue
        piece = _CODE.sub(lambda code: chr(int(code[1], 16)), token.replace(MARK, ""))
        is_spaceless = _is_spaceless(piece)
        if not (is_joined or token[0] == MARK or is_spaceless or was_spaceless):
            text += " "
        text, is_joined, was_spaceless = text + piece, token[-1] == MARK, is_spaceless
    return text


def _is_spaceless(piece: str) -> bool:
    return piece[:1] > "\u0dff" and _SPACELESS.match(piece) is not None
