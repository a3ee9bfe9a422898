"""Restore running text from tokens without spacing marks. Rules handle tokens that the Moses detokenizer joins wrongly.

The rules join tokens into larger tokens (URLs, times, contractions, quotations), and sacremoses joins the rest. They
follow the most frequent spelling, because tokens do not show how the text was written: ``5 €`` may have been ``5€``.
"""

import re
import unicodedata
from collections.abc import Callable
from itertools import pairwise

from ..optional import import_optional

# Placeholders. They cannot occur in prepared text, which has no control characters. They stand for a space, for the
# start of a smiley, and for the start of a token that sacremoses must treat as a word.
_SPACE, _SMILEY, _WORD = "\x01", "\x02", "\x03"
_LETTER = r"[^\W\d_]"
_SUFFIX = r"(?:[sStTdDmM]|re|ve|ll|em|RE|VE|LL)\b"
_ELISION = r"\b(?:[cdjlmnst]|(?:jus|lors|puis|quoi)?qu|(?:d[ae]|ne|su)ll|aujourd|[OD])"
# Han characters and their punctuation have no spaces around them.
_HAN_PUNCTUATION = "\u3000-\u3004\u3008-\u303f\ufe30-\ufe4f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
_HAN = f"\u2e80-\u2fff\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff{_HAN_PUNCTUATION}"
# Combining marks, many of which are separate tokens in Moses's text, and the scripts without spaces that use such
# marks.
_MARK = "[" + "".join(chr(code) for code in range(0x300, 0x1B00) if unicodedata.category(chr(code))[0] == "M") + "]"
_ASIAN = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"

Replacement = str | Callable[[re.Match[str]], str]
# Patterns and their replacements, in order of application. They match a line with one space before and after each
# token.
_RULES: list[tuple[str, Replacement]] = [
    (r"(?<= )(?:\w+ : / / |www\.)\S+(?: [/?=&#:~+%@*$_]+ [\w.\-]+)*", lambda url: url[0].replace(" ", "")),
    (r"(?<= )([\w.\-]+(?: \+ [\w.\-]+)?) @ ([\w\-]+\.\w[\w.\-]*)", lambda mail: mail[0].replace(" ", "")),
    (r" @ (?=\w)", " @"),
    (r"(?<=[\d. ]\d) ([:–]) (?=\d)", r"\1"),
    (r"(?<=\w) ([/_]) (?=[\w%])", r"\1"),
    (r"(?<=\d) ° ?([CFK]?)(?= )", r"°\1"),
    (r"(?<= )([A-Z]{1,3}) & ([A-Z]{1,2}\.?)(?= )", r"\1&\2"),
    (r"(?<=\w) ([²³®™℃℉])(?= )", r"\1"),
    (r"(?<=\d) ([€£¥₽₴])(?= \D)", rf"{_SPACE}\1"),
    (r"< (/?) ?([\w\-]+|\w+://\S+) >", r"<\1\2>"),
    (r" ~ (?=\d)", " ~"),
    (r"(?<=\w) \+ \+(?= )", "++"),  # C++
    (r"(?<= [CFG]) #(?= )", "#"),  # C#
    (r" # (?=\w)", " #"),
    (rf"(?<={_LETTER}) \( (s|es|en|n) \)", r"(\1)"),  # for example, file(s)
    (r" (['’]) (?=\d\ds )", r" \1"),  # for example, the '90s
    (r" (['’]) ([nN]) \1 ", r" \1\2\1 "),
    (rf"(?<=[\w.]) ’ (?={_SUFFIX})", "’"),
    (rf"(?i:({_ELISION})) ’ (?={_LETTER})", r"\1’"),
    (r"(?<= \d) ' ?(\d\d?) [\"](?= )", "'\\1\""),
    (r"(?<=\d) (['\"]) (?=(?:x|×|by) )", r"\1 "),  # feet and inches
    (r"( (?:x|×|by) [\d.,]+) (['\"])(?= )", r"\1\2"),
    (r"^ … (?=\w)", " …"),
    (r" …(?= )", "…"),
    (r" ([:;]) (-?) ?([()])(?= )", rf" {_SMILEY}\1\2\3"),  # a smiley or a bracket, which is decided later
    (rf" ({_MARK}+)(?= )", r"\1"),
    (rf"(?<=[{_ASIAN}])(?<={_MARK}) (?=[{_ASIAN}])", ""),
    (rf"(?<={_MARK}) ([,\-])(?=\w)", lambda start: ", " if start[1] == "," else "-"),
    (r" ([،؛؟।॥])(?= )", r"\1"),
    (r"(?<=\w) ([־״׳‐‑·]) (?=\w)", r"\1"),
    (r"(?<=[А-яІіЇїЄєҐґ]) (['’]) ?(?=[яюєїЯЮЄЇ])", r"\1"),
    (rf"(?<! [A-Za-z]) '(?!{_SUFFIX})(\w(?:[^']| '{_SUFFIX})*?) '(?= )", rf" {_WORD}'\1'"),  # a quotation
    (r"(?<= [—…]) (?=[—…] )", ""),
    (r"(?<=\w) \( \)(?= )", "()"),
]
# Rules for text from word pieces, in which every punctuation mark is a separate token. They are applied before the
# other rules.
_PIECE_RULES: list[tuple[str, Replacement]] = [
    (rf"(?<=\w) ' (?={_SUFFIX})", r" '"),
    (rf"(?i:({_ELISION})) ' (?={_LETTER})", r"\1'"),
    (r"(?<=\d) ([.,]) (?=\d)", r"\1"),
    (r"(?<=\w) - (?=\w)", "-"),
    (r" (?:- )+-(?= )", lambda dashes: " " + dashes[0].replace(" ", "")),
    (r" (?:\. )+\.(?= )", lambda dots: " " + dots[0].replace(" ", "")),
    (r" (?:[^\W\d_] \. )(?:[^\W\d_] \.)(?: [^\W\d_] \.)*(?= )", lambda letters: " " + letters[0].replace(" ", "")),
    (r"(?<=\w) \. (?=(?:\w+ \. ){0,20}(?i:com|org|net|edu|gov|io|co|uk|de|fr|eu|html?|php|txt|pdf)\b)", "."),
]
_COMPILED = {
    False: [(re.compile(pattern), replacement) for pattern, replacement in _RULES],
    True: [(re.compile(pattern), replacement) for pattern, replacement in _PIECE_RULES + _RULES],
}
# Spaces that sacremoses leaves around Han characters, their punctuation and quotation marks, and before the rest of a
# compound.
_BESIDE_HAN, _BESIDE_PUNCTUATION = (
    re.compile(f'(?<=[{han}]) | (?=[{han}])|(?<=[{han}][”’]) | (?=[“‘][{han}])|(?<=["“”«#]) (?=-{_LETTER})')
    for han in (_HAN, _HAN_PUNCTUATION)
)
_HAN_CHARACTER, _KANA = re.compile(f"[{_HAN}]"), re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_LATIN_WORD = re.compile(r"[^\W_\u2150-\u27bf\u2e80-\U0003ffff]+")
_PLACEHOLDERS = str.maketrans({_SPACE: " ", _SMILEY: "", _WORD: ""})
_ENDS = frozenset(".,!?;:%)]}…")


def detokeniser(language: str, *, pieces: bool = False) -> Callable[[str], str]:
    """Return the function that turns tokens into plain text.

    Args:
        language: language whose sacremoses rules are used.
        pieces: whether the tokens are joined word pieces, where all punctuation is separate.
    """
    moses = import_optional("sacremoses").MosesDetokenizer(lang=language)

    def step(line: str) -> str:
        is_parted = language != "ja"  # the Japanese rules do not split Han characters
        has_kana = _KANA.search(line) is not None
        if is_parted and not has_kana and len(_HAN_CHARACTER.findall(line)) > len(_LATIN_WORD.findall(line)):
            return join_chinese(line)
        text = f" {' '.join(line.split())} "
        for pattern, replacement in _COMPILED[pieces]:
            text = pattern.sub(replacement, text)
        tokens = _join_quotations(_tell_smileys(text.split()), language)
        text = moses.detokenize(tokens, unescape=False) if tokens else ""
        needless = _BESIDE_HAN if is_parted and has_kana else _BESIDE_PUNCTUATION
        return needless.sub("", text.translate(_PLACEHOLDERS))

    return step


def join_chinese(line: str) -> str:
    """Remove all spaces except those between two Latin words or numbers."""
    words = line.split()
    text = words[0] if words else ""
    for previous, word in pairwise(words):
        is_apart = _LATIN_WORD.match(previous[-1]) and _LATIN_WORD.match(word[0])
        text += f" {word}" if is_apart else word
    return text


def _tell_smileys(tokens: list[str]) -> list[str]:
    """Split ``:)`` if it closes a bracket, and ``:(`` if it opens a bracket.

    A full stop after a smiley stays separate.
    """
    result: list[str] = []
    depth = 0  # number of brackets that are open
    last_closing = max((place for place, token in enumerate(tokens) if token == ")"), default=-1)
    for place, token in enumerate(tokens):
        if token[0] != _SMILEY:
            depth += (token == "(") - (token == ")")
            after_smiley = result and result[-1][0] == _SMILEY and token in (".", "!", "?")
            result[-1:] = [f"{result[-1]}{_SPACE}{token}"] if after_smiley else [*result[-1:], token]
        elif (token[-1] == ")" and depth > 0) or (token[-1] == "(" and last_closing > place):
            depth += token.count("(") - token.count(")")
            result += token[1:]
        else:
            result.append(token)
    return result


def _join_quotations(tokens: list[str], language: str) -> list[str]:
    """Join typographic quotation marks to the words that they enclose.

    French guillemets keep their spaces. In German text („Haus“ and »Haus«), marks that open a quotation in other
    languages close it.
    """
    joined: list[str] = []
    prefix, opened = "", ""
    guillemets = "" if language == "fr" else "»«" if "»" in tokens and "»" in tokens[: _index(tokens, "«")] else "«»"
    opening = "“‘„‚‹" + guillemets[:1]
    closing = "”’›" + guillemets[1:]
    for token in tokens:
        is_closed_by_it = token in ("“", "‘") and opened in ("„", "‚")
        if token in opening and not is_closed_by_it:
            prefix, opened = prefix + token, token
        elif prefix and token in ("(", "[", "¿", "¡", '"', "'", "…"):
            prefix += token
        elif token in closing or is_closed_by_it:
            opened = ""
            while len(joined) > 1 and _ENDS.issuperset(joined[-1]):  # sacremoses joins only these marks to a word
                joined[-2:] = [joined[-2] + joined[-1]]
            joined[-1:] = [f"{joined[-1] if joined else ''}{prefix}{token}"]
            prefix = ""
        else:
            joined.append(prefix + token)
            prefix = ""
    return [*joined, prefix] if prefix else joined


def _index(tokens: list[str], token: str) -> int:
    return tokens.index(token) if token in tokens else len(tokens)
