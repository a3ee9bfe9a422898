"""Test that tokens of the unit joiner can be joined to the original text, and that they suit a model."""

import importlib
import tempfile
from pathlib import Path

import pytest
from corpus import learnt
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wean_fairseq.text import Text, TextSettings, reversible, steps
from wean_fairseq.text.cleaning import Cleaner

# Other detokenisers restore these everyday lines incorrectly. Each line is its own expected value, because splitting
# and joining must give the same line.
LINES = """\
What’s the best way? I don't think so, isn't it? He said “come in”, 'now' and ‘later’.
Look at https://example.org/a?b=1&c=%20#d. Or (see www.example.org/a_(b)), ftp://x.org/.
Mail info@example.org, or first.last+tag@mail.example.co.uk! @user #tag user@localhost
It starts at 10:30, on 3/4/2020 and/or 2020-04-03; costs $1,000.50 (€5 or 5€, 7%) -- 3.5 kg/m² at 20°C.
C++, C# and F#; AT&T, R&D; a = b+c, x<y && y>z, "C:\\dir\\file_name.txt", ~/x/*.py, f(x)[0]{1}
Fine :) and sad :( . ;-) :-D <3 … yes... no!!! What?! -- well — ok–ok
It is 8' x 10' (8\" x 10\"). Teachers’ room, dogs' and James's; rock'n'roll, '90s, o’clock, O'Brien
От: «Да», „Привет“, п’ять. »Ja«, sagte er; „so“. « Oui », l’homme d'abord, qu'il, dell'arte, aujourd’hui
ฉันเมื่อวานนี้ไปตลาด 5 ครั้ง (จริงๆ) ก็ดี
नमस्ते, आप कैसे हैं? मैं ठीक हूँ। क्षत्रिय
می‌خواهم بروم، «سلام»؟ مُحَمَّد ١٢٣٫٤
你好，世界！我用iPhone 5的人，是1.5个。The word 你好 means “hello”（问候）。
カタカナとひらがな、漢字 と Latin、ﾊﾝｶｸ。 안녕하세요, 세계! (좋아요)
👩‍👩‍👧 👍🏽👍🏽 🏴󠁧󠁢󠁥󠁮󠁧󠁿🇩🇪🇫🇷 ❤️‍🔥 word😀word 😀😀😀
￭ a￭b ▁ a▁b ％ffed ％ ￭￭￭ ％2581 ％ff05 ￬ ￬ x
<unk> </s> a<s>b &lt;s&gt; <oov-3> @@ a@@ b@@c @@@ http://x@@ @-@
O'Neill's d'l'x 's 't l' ' '' `` '' ` _x_ __init__ -x x- - -- ---- .5 5. e.g. U.S.A. Ph.D. v1.2.3 1:2:3
""".splitlines()
NASTY = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from("ab I1.,'’\"“”«»()￭▁￬％ffed@@ -:/的がกั่ा\u0301\u200d\ufe0f👍🏽🇩"),
    ),
    max_size=40,
)


@given(line=NASTY)
@settings(max_examples=300, deadline=None)
def test_text_comes_back(line: str) -> None:
    text = Text(TextSettings(unit="joiner"))
    tokens = text.prepare(line)
    assert tokens == " ".join(tokens.split())
    assert text.restore(tokens) == text.clean(line)


def test_everyday_lines_come_back() -> None:
    text = Text(TextSettings(unit="joiner"))
    assert [text.restore(text.prepare(line)) for line in LINES] == LINES


@pytest.mark.parametrize(
    ("line", "tokens"),
    [  # expected by hand, from the rules in the module's docstring
        ("He said: “don’t”.", "He said ￭: “￭ don ￭’t ￭” ￭."),
        ('Hello, world (it\'s "fine")!', 'Hello ￭, world (￭ it ￭\'s "￭ fine ￭" ￭) ￭!'),
        ("and/or 10:30 1,000.50 3/4/2020", "and ￭/￭ or 10:30 1,000.50 3/4/2020"),
        ("info@example.org. https://example.org/a?b=1!", "info@example.org ￭. https://example.org/a?b=1 ￭!"),
        ("state-of-the-art C++", "state-of-the-art C ￭++"),
        ("l’homme qu'on", "l’￭ homme qu'￭ on"),
        ("No!!!!!", "No ￭!!! ￭!!"),
        ("already , tokens .", "already , tokens ."),
        ("用iPhone 5的，你", "用 iPhone 5 的 ， 你"),
        ("The word 你好 means", "The word ▁ 你 好 ▁ means"),
        ("ก็ดี", "ก็ ดี"),
        ("हिन्दी।", "हिन्दी ￭।"),
        ("a￭b", "a ￭％ffed￭ b"),
        ("$5.99–$7.99, e.g. in the U.S.", "$￭ 5.99 ￭–￭ $￭ 7.99 ￭, e.g. in the U.S."),
    ],
)
def test_tokens(line: str, tokens: str) -> None:
    assert reversible.split(line) == tokens


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("￭", ""),
        ("￭ a ￭", "a"),
        ("￭￭a￭￭ b", "ab"),
        ("hel￭. ￭", "hel."),
        ("▁ a ▁ ▁ b ▁", "a b"),
        ("a ￭ b", "ab"),
        ("％f ％", "％f％"),
    ],
)
def test_marks_at_odd_places_of_outputs_are_no_error(tokens: str, text: str) -> None:
    assert Text(TextSettings(unit="joiner")).restore(tokens) == text


@given(tokens=st.lists(st.text(st.sampled_from("a￭▁％fed2@.'的 "), max_size=5), max_size=8).map(" ".join))
@settings(max_examples=200, deadline=None)
@example(tokens="％ffed￭@@")
def test_any_output_becomes_one_line(tokens: str) -> None:
    restored = Text(TextSettings(unit="joiner", bpe=True, truecase=True)).restore(tokens)
    assert restored == " ".join(restored.split())


def test_zero_width_joiners_stay_where_scripts_need_them() -> None:
    cleaner = Cleaner(joiners=True)
    kept = "می‌خواهم क्‍ष 👩‍👧 ❤️‍🔥"
    assert cleaner.clean(f"{kept} a‍b‌c 漢‍字") == f"{kept} abc 漢字"
    assert cleaner.counts == {"zero_width_characters": 3}
    assert Cleaner().clean(kept) == kept.replace("\u200c", "").replace("\u200d", "")


@pytest.fixture(scope="module")
def joined_bpe():
    """Yield the function that splits joiner tokens into word pieces, learnt from the lines above without markers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes"
        lines = [reversible.split(line).replace(steps.MARK, "") for line in LINES * 3]
        learnt.learn_bpe(lines, path, 60)
        yield steps.bpe(path, steps.MARK)


def test_pieces_keep_marks_whole(joined_bpe) -> None:
    pieces = joined_bpe("l’￭ abcdefg ￭％ffed￭ ￭. ￭...￭")
    assert not {f"{steps.MARK}@@", steps.MARK} & {*pieces.split()}
    assert steps.undo_bpe(pieces) == "l’￭ abcdefg ￭％ffed￭ ￭. ￭...￭"


@given(line=NASTY)
@settings(max_examples=150, deadline=None)
def test_text_comes_back_from_pieces(joined_bpe, line: str) -> None:
    text = Text(TextSettings(unit="joiner", bpe=True))  # a text without a folder has no BPE, so the test applies it
    pieces = text.cleaner.guard(joined_bpe(text.prepare(line)))
    assert text.restore(pieces) == text.clean(line)


def test_a_separator_of_pieces_in_the_text_comes_back(joined_bpe) -> None:
    for tokens in ("a@@ b", "@@ x", "@@", "a@@@ b@@"):
        assert steps.undo_bpe(joined_bpe(tokens)) == tokens


@pytest.mark.parametrize("options", [[], ["--truecase", "--bpe", "40"]])
def test_own_pairs_are_cut_reversibly_and_turned_back(tmp_path: Path, options: list[str]) -> None:
    """The unit is joiner by default, and undo_text restores the typed text."""
    lines = [f"{line} {number}" for number, line in enumerate(LINES * 2)]
    for side, more in (("src", " before"), ("tgt", "")):
        (tmp_path / side).write_text("".join(f"{line}{more}\n" for line in lines), encoding="utf-8")
    given = ["--data", str(tmp_path / "src"), str(tmp_path / "tgt"), "--output", str(tmp_path / "text"), *options]
    assert importlib.import_module("own_pairs").main(given) == 0
    found = []
    for split in ("train", "valid", "test"):
        undo = ["--prepared", str(tmp_path / "text"), "--input", str(tmp_path / "text" / f"{split}.tgt")]
        assert importlib.import_module("undo_text").main([*undo, "--output", str(tmp_path / split)]) == 0
        found += (tmp_path / split).read_text(encoding="utf-8").splitlines()
    assert sorted(found) == sorted(lines)


@pytest.mark.parametrize("part", ["a", "1", "é", "e\u0301", "a.", "中"])
def test_a_word_of_any_length_is_split(part):
    """The library regex raised MemoryError for words of two million letters, which a line may have."""
    word = part * (2_000_000 if part in "a1" else 300_000)
    assert reversible.join(reversible.split(word)) == word


@pytest.mark.parametrize("script", ["undo_text", "restore_entities", "clause_chunks"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("H-0\t-1.0\ta b\nD-0\t-1.0\ta b\n", "looks like the output of fairseq-generate, not like plain sentences"),
        ('{"source": "a", "text": "b"}\n', "holds JSON, not one sentence per line"),
    ],
)
def test_outputs_of_another_format_are_refused(tmp_path: Path, capsys, script: str, text: str, message: str) -> None:
    """Each line of a log became a line of the outputs."""
    (tmp_path / "outputs").write_text(text, encoding="utf-8")
    more = {"undo_text": ["--prepared", str(tmp_path)], "restore_entities": ["--entities", str(tmp_path / "x")]}
    given = ["--input", str(tmp_path / "outputs"), "--output", str(tmp_path / "new"), *more.get(script, [])]
    assert importlib.import_module(script).main(given) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_outputs_of_wean_generate_are_changed(tmp_path: Path) -> None:
    """wean-generate writes no output for an empty line. Columns of a table are words of plain text."""
    lines = '{"line": 1, "source": ["</s>"], "outputs": []}\n{"line": 2, "source": ["a", "</s>"], "outputs": '
    lines += '[{"text": "b <chunk> c", "score": -1.0}]}\n'
    for number, (text, expected) in enumerate(((lines, "\nb c\n"), ("a|||b <chunk> c\n" * 3, "a|||b c\n" * 3))):
        (tmp_path / "outputs").write_text(text, encoding="utf-8")
        new = tmp_path / f"new{number}"
        given = ["--input", str(tmp_path / "outputs"), "--output", str(new), "--chunk-symbol", "<chunk>"]
        assert importlib.import_module("clause_chunks").main(given) == 0
        assert new.read_text(encoding="utf-8") == expected
