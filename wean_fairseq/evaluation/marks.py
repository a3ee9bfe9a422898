"""Traces of processing in a text, such as pieces of words, escapes and invisible characters.

Scores change if only one of two texts has such a trace. `MARKS` is the table of them.
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from .output_reader import PIECES

#: Share of lines from which a mark is reported, unless it says otherwise.
SOME = 0.01


@dataclass(frozen=True)
class Mark:
    """A trace of processing that scores change by, if only one of two texts has it.

    Attributes:
        name: description of the mark.
        pattern: finds it in a line.
        advice: action for a text that has it.
        refused: share of outputs from which they are refused; outputs with a smaller share are reported.
        in_source: whether the source is looked at too; other marks are usual there.
        least: share of lines from which it is reported.
        counterpart: pattern of the other form of the mark; texts with neither form are not compared.
    """

    name: str
    pattern: str
    advice: str
    refused: float = 2.0
    in_source: bool = False
    least: float = SOME
    counterpart: str = ""

    @cached_property
    def found_in(self) -> Callable[[str], object]:
        """Return the function that finds it in a line."""
        return re.compile(self.pattern, re.IGNORECASE | re.MULTILINE).search

    def has_counterpart(self, text: str) -> bool:
        """Return whether a text has the other form of the mark."""
        return re.search(self.counterpart, text) is not None


@dataclass(frozen=True)
class NotComposed(Mark):
    """Letters with separate accents, or with another composed form."""

    @cached_property
    def found_in(self) -> Callable[[str], object]:
        return lambda line: not unicodedata.is_normalized("NFC", line)


MARKS = (
    Mark(
        "pieces of words ('@@' or '▁')",
        r"(?<=\S)@@(?!\S)|▁",
        f"join them with --remove-bpe [{'|'.join(PIECES)}]",
        refused=SOME,
        least=0.0,
    ),
    Mark(
        "pieces of words ('##', 'Ġ' or '</w>')",
        r"(?<!\S)##\w|(?<!\S)Ġ\w|</w>",
        "join them with the tokeniser that cut them (its decode function)",
        refused=SOME,
        least=0.0,
    ),
    Mark(
        "joiner marks ('￭')",
        "[\uffed\uffe8]",
        "join the tokens with the tokeniser that set the marks, or sed -E 's/ ?￭ ?//g'",
        refused=SOME,
        least=0.0,
    ),
    Mark(
        "symbols of a model such as </s> or <pad>",
        r"</?s>|<(?:pad|eos|bos|sep|cls)>|\[(?:PAD|SEP|CLS)\]|<\|(?:endoftext|im_end|eot_id)\|>",
        "remove them, for example with sed -E 's/ *<(\\/s|s|pad)>//g'",
        refused=0.5,
        least=0.0,
    ),
    Mark(
        "slots of copied words (<oov-k>)",
        r"<oov-\d+>",
        "give the log itself with --generated and the source with --src",
    ),
    Mark(
        "escaped or split tokens of Moses (&apos; or @-@)",
        r"&(?:apos|quot|amp|lt|gt|bar|#39|#34|#91|#93|#124);|(?<!\S)@[-/,.:]@(?!\S)",
        "undo the tokenisation, for example with sacremoses -l en detokenize or preprocess/undo_text.py",
        in_source=True,
    ),
    Mark(
        "brackets written as -LRB- and -RRB-",
        r"-[lr][rsc]b-",
        "write all brackets in one form",
        in_source=True,
        counterpart=r"[()\[\]{}]",
    ),
    Mark(
        "quotation marks around the whole line",
        r"""^[ \t]*(?:".*"|'.*')[ \t]*$""",
        "if they come from a CSV or JSON file, write the text with a reader of that format",
        least=0.5,
    ),
    Mark(
        'escapes such as \\n, \\" or \\u00e9',
        r"""\\(?:[nrt"]|u[0-9a-f]{4})""",
        "write the text as UTF-8, without escapes",
    ),
    Mark(
        "invisible characters (zero-width, soft hyphen, byte-order mark, directional mark)",
        "[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]",
        "remove them from all texts alike",
        in_source=True,
    ),
    Mark("no-break spaces", "[\u00a0\u2007\u202f]", "write ordinary spaces", in_source=True),
    NotComposed(
        "characters that are not in Unicode's form NFC",
        "",
        "bring all texts into one form: uconv -x nfc",
        in_source=True,
    ),
)
