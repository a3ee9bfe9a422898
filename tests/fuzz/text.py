"""Text that breaks readers, files that contain such text, and the numbers of examples per test.

Every test has two budgets: a few examples by default, and thousands of examples with ``-m slow``. The examples are
always the same, because hypothesis draws them with a fixed seed and without a database.
"""

import contextlib
import io
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reliability import Reliability

LONGEST = 100_000
BYTE_ORDER_MARK = "\ufeff"
# Fragments that break readers. Some contain characters that str.splitlines, universal newlines or patterns for white
# space treat specially. Others have a meaning for fairseq, this package or a file format, or confuse terminals and
# tokenisers.
FRAGMENTS = (
    "", " ", "\t", "a", "the cat", "w1 w3", "w2", "Quill", ".", "x" * 300,
    "\0", "\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029", "\r", "\x1b[31m", "\x7f",
    "\u00a0", "\u3000", "\u200b", "\u200d", "\u2066", "\u202e", "\ufeff", "\ufffe", "\U0010ffff",
    "e\u0301\u0302\u0327", "\u0301", "a" + "\u0336" * 50, "שלום עולם", "مرحبا 123", "नमस्ते", "中文 字", "ﬁ", "İ", "ß",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f3f3\ufe0f\u200d\U0001f308", "1\ufe0f\u20e3", "٣", "½",
    "-0.0", "1e999", "nan", "|||", "|", "@@ ", "▁", "##ing", "a@@", "&lt;unk&gt;", "&amp;", "<!--", "'", '"', '""',
    "\\", "\\n", "`$(true)`", "%s", "<s>", "</s>", "<pad>", "<unk>", "<UNK>", "<mask>", "<oov-0>", "<oov-63>",
    "<oov-99999>", "<unk-0>", "<chunk>", "</d>", "<Lua heritage>", "madeupword0000", "w1 3 #fairseq:overwrite", ";",
    "#fairseq:overwrite", "the 12", "H-0\t-0.5\tfine", "S-0\ta b", "D-1\t0\t", "H-7", "T-0\t", "{", "[]", "=1+1",
    "--help", "PERSON@1",
)  # fmt: skip


def budgets(few: int, many: int) -> Any:
    """Parametrise ``examples`` with a small number, and with a large number in the slow tests."""
    cases = [pytest.param(few, id="few"), pytest.param(many, marks=pytest.mark.slow, id="many")]
    return pytest.mark.parametrize("examples", cases)


def attempt(
    examples: int,
    reliability: Reliability,
    check: Callable[..., None],
    kind: str = "bad inputs tried",
    **strategies: Any,
) -> None:
    """Run ``check`` on ``examples`` draws. The slow tests add the examples to the counter ``kind``."""
    chosen = settings(
        max_examples=examples, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    chosen(given(**strategies)(check))()
    if examples > 30:  # more than the small budget
        reliability.count(kind, examples)


def texts(extra: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    """Draw one line of any Unicode characters except line feeds, surrogates, and carriage returns at the end."""
    characters = st.characters(exclude_categories=["Cs"], exclude_characters="\n")
    pieces = st.one_of(st.sampled_from((*FRAGMENTS, *extra, *extra)), st.text(characters, max_size=8))
    joined = st.tuples(st.sampled_from(["", " "]), st.lists(pieces, max_size=5)).map(
        lambda drawn: drawn[0].join(drawn[1])
    )
    return joined.map(lambda line: line.rstrip("\r"))


def paragraphs(shortest: int = 1, longest: int = 5, extra: tuple[str, ...] = ()) -> st.SearchStrategy[list[str]]:
    """Draw some lines. The first line has no byte order mark, because the mark would belong to the file."""
    lines = st.lists(texts(extra), min_size=shortest, max_size=longest)
    return lines.map(
        lambda drawn: [line.lstrip(BYTE_ORDER_MARK) if place == 0 else line for place, line in enumerate(drawn)]
    )


def long_text() -> st.SearchStrategy[str]:
    """Draw a line of 100,000 characters that consists of one word or of very many words."""
    units = st.sampled_from(
        ["y", "ab ", "w1 ", "中", "e\u0301", "\U0001f469\u200d\U0001f467", "< ", "\t", "\u2028", "<oov-0> "]
    )
    return units.map(lambda unit: (unit * LONGEST)[:LONGEST])


class File(NamedTuple):
    """The bytes of a file, and the lines that they decode to. There are no lines if the bytes are not text."""

    content: bytes
    lines: list[str] | None


@st.composite
def files(draw: st.DrawFn, lines: list[str]) -> File:
    """Draw a file of these lines. The kind of line end, the byte order mark and the final line end vary."""
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    text = "".join(line + end for line in lines)
    if lines and lines[-1] and draw(st.booleans()):
        text = text.removesuffix(end)
    if draw(st.booleans()):
        text = BYTE_ORDER_MARK + text
    return File(text.encode(), lines)


@st.composite
def damaged(draw: st.DrawFn, lines: list[str]) -> File:
    """Draw a file of these lines into which bytes that are not UTF-8 are inserted."""
    content = draw(files(lines)).content
    place = draw(st.integers(0, len(content)))
    bad = draw(st.sampled_from([b"\xff", b"\x80", b"\xc3\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf"]))
    spoilt = content[:place] + bad + content[place:]
    try:
        spoilt.decode()
    except UnicodeDecodeError:
        return File(spoilt, None)
    return File(b"\xff", None)


def call(main: Callable[[list[str]], int], *arguments: object) -> tuple[int, str, str]:
    """Call a command in this process, and return its exit status, its output and its messages."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([str(argument) for argument in arguments])
    return status, out.getvalue(), err.getvalue()


def assert_one_sentence(said: str, command: str) -> None:
    """Assert that a failed command has printed the reason as one separate line."""
    assert said.startswith(f"{command}: ") and said.endswith((".\n", "?\n")), said
    assert said.count("\n") == 1, said
