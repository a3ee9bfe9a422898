"""Test the text steps and their inverse on lines and files: removed, counted and escaped characters."""

import gzip
import importlib
import random
import tempfile
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from corpus import learnt
from corpus.reading import read_aligned, read_lines
from hypothesis import given, settings
from hypothesis import strategies as st

from wean_fairseq import optional
from wean_fairseq.errors import UserError
from wean_fairseq.storage import files
from wean_fairseq.text import Text, TextSettings, prepared_text, steps
from wean_fairseq.text.cleaning import Cleaner, one_spelling, restore_specials

BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029"
# The strategy draws text with many problematic characters.
nasty_text = st.text(
    alphabet=st.one_of(
        st.characters(), st.characters(categories=["Cs", "Cc", "Cf", "Zs", "Zl", "Zp"]), st.sampled_from("ab <>/\u3000")
    ),
    max_size=40,
)


# --- one line


@given(line=nasty_text, form=st.sampled_from(["NFC", "NFKC", "none"]))
@settings(max_examples=120, deadline=None)
def test_clean_text_is_one_line_for_every_reader_and_stays_as_it_is(line, form):
    cleaner = Cleaner(form)
    clean = cleaner.clean(line)
    clean.encode("utf-8")  # raises an error for a lone surrogate
    assert len(clean.splitlines()) == (1 if clean else 0)
    assert clean == " ".join(clean.split())
    assert not set(clean) & set("\0\ufeff\u200b\u00ad")
    cleaner.counts.clear()
    assert cleaner.clean(clean) == clean
    assert not cleaner.counts


def test_what_is_removed_is_counted():
    cleaner = Cleaner()
    assert cleaner.clean("a\0b\x07 \ud800c\u200bd\ufeff  e\u0301\u2028f\x85g\tx\u3000y") == "ab cd \u00e9 f g x y"
    assert cleaner.counts == Counter(
        control_characters=2,
        lone_surrogates=1,
        zero_width_characters=2,
        line_breaks_in_text=2,
        tabs_in_text=1,
        lines_normalised=1,
    )


def test_every_line_break_becomes_a_space():
    assert Cleaner().clean("x".join(BREAKS)) == " ".join("x" * (len(BREAKS) - 1))


def test_nfkc_makes_full_width_letters_plain_and_nfc_does_not():
    assert (Cleaner("NFKC").clean("ＡＢ１"), Cleaner().clean("ＡＢ１")) == ("AB1", "ＡＢ１")


SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<oov-3>", "<oov-12>", "<unk-0>", "<mask>"]


def test_special_symbols_are_escaped_refused_or_kept():
    line = " ".join(SPECIALS) + " <UNK> a<unk> <b> </d> <oov-x>"
    cleaner = Cleaner()
    escaped = cleaner.guard(line)
    assert not set(escaped.split()) & set(SPECIALS)
    # such words are not special symbols, so they are not escaped
    assert escaped.endswith("<UNK> a<unk> <b> </d> <oov-x>")
    assert cleaner.counts["special_tokens_escaped"] == len(SPECIALS)
    assert restore_specials(escaped) == line
    assert Cleaner(specials="keep").guard(line) == line
    with pytest.raises(UserError, match=r"contains <pad>.*--specials escape"):
        Cleaner(specials="refuse").guard("x <pad> y")


@pytest.mark.parametrize("word", ["<UNK>", "<unk>", "unk.", "UNK"])
def test_the_corpus_s_own_word_for_unknown_ones_becomes_the_dictionary_s(word: str) -> None:
    cleaner = Cleaner(unknown=word)
    assert cleaner.guard(f"{word} a {word} </s> {word.lower()} x{word}") == f"<unk> a <unk> &lt;/s&gt; <unk> x{word}"
    assert cleaner.counts["unknown_words"] == 3
    assert Cleaner().guard("a <unk>") == "a &lt;unk&gt;"


@pytest.mark.parametrize("word", ["<UNK>", "<unk>"])
def test_the_corpus_s_own_unknown_word_is_neither_refused_nor_counted_as_escaped(word: str) -> None:
    cleaner = Cleaner(specials="refuse", unknown=word)
    # the user typed the second word in its escaped form
    assert cleaner.guard("a <unk> &lt;unk&gt;") == "a <unk> &lt;unk&gt;"
    assert cleaner.counts == {"unknown_words": 1}
    with pytest.raises(UserError, match="contains <pad>"):
        cleaner.guard("a <unk> <pad>")


@pytest.mark.slow  # it imports fairseq, which takes long
def test_symbols_of_a_fairseq_dictionary_are_all_known():
    dictionary = importlib.import_module("fairseq.data").Dictionary()
    assert not set(Cleaner().guard(" ".join(dictionary.symbols)).split()) & set(dictionary.symbols)


def test_one_spelling_of_brackets():
    assert one_spelling("He ( a\\/b ) -LRB- c rrb `` d ''") == 'He -lrb- a/b -rrb- -lrb- c -rrb- " d "'


# --- files


def test_lines_end_at_newlines_only(tmp_path):
    text = "one\x85 \u2028same\r\ntwo\rstill two\n\nfour without end"
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbf" + text.encode())
    counts = Counter()
    assert list(read_lines(tmp_path / "file", counts)) == [
        "one\x85 \u2028same",
        "two\rstill two",
        "",
        "four without end",
    ]
    assert counts == Counter(byte_order_marks=1, crlf_line_ends=1)


def test_gzipped_files_are_read_as_they_are(tmp_path):
    (tmp_path / "file").write_bytes(gzip.compress(b"one\ntwo\n"))
    assert list(read_lines(tmp_path / "file")) == ["one", "two"]
    (tmp_path / "file").write_bytes(gzip.compress(b"one\ntwo\n" * 100)[:-20])
    with pytest.raises(UserError, match="cannot unpack"):
        list(read_lines(tmp_path / "file"))


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_UNPACKED", 1000)  # 1,000 bytes instead of 4 MiB
    (tmp_path / "file").write_bytes(gzip.compress(b"one\n" * 100_000))
    with pytest.raises(UserError, match=r"cannot read .*file: it is 50 times larger when it is unpacked: unpack it"):
        list(read_lines(tmp_path / "file"))
    # The data is compressed 50 times. When 100 times was allowed, reading 400 KB of short rows took 43 s.
    lines = b"".join(f"{number:032x}{'0' * 1200}\n".encode() for number in range(10**37, 10**38, 10**35 + 7))
    assert 30 < len(lines) / len(gzip.compress(lines)) < 100
    (tmp_path / "file").write_bytes(gzip.compress(lines))
    with pytest.raises(UserError, match="it is 50 times larger"):
        list(read_lines(tmp_path / "file"))
    (tmp_path / "file").write_bytes(gzip.compress(b"one\n" * 250))
    assert len(list(read_lines(tmp_path / "file"))) == 250


def test_bytes_that_are_no_utf8_are_named_or_replaced(tmp_path):
    # a surrogate in the invalid UTF-8 form that some tools write
    (tmp_path / "file").write_bytes(b"fine\nb\xed\xa0\x80d\n")
    with pytest.raises(UserError, match=r"line 2 of .*file is not UTF-8 .*--bad-utf8 replace"):
        list(read_lines(tmp_path / "file"))
    counts = Counter()
    assert list(read_lines(tmp_path / "file", counts, replace_bad=True))[1] == "b\ufffd\ufffd\ufffdd"
    assert counts == Counter(lines_of_bad_utf8=1)


def test_endless_line_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("corpus.reading.LONGEST_LINE", 1 << 20)
    (tmp_path / "file").write_bytes(b"a " * (1 << 20))
    with pytest.raises(UserError, match=r"line 1 of .* is longer than 1 MiB"):
        list(read_lines(tmp_path / "file"))


def test_aligned_files_must_have_the_same_number_of_lines(tmp_path):
    for name, text in (("a", "1\n2\n"), ("b", "1\n\n"), ("c", "1\n")):
        (tmp_path / name).write_text(text)
    assert [lines for _, lines in read_aligned([tmp_path / "a", tmp_path / "b"])] == [["1", "1"], ["2", ""]]
    with pytest.raises(UserError, match=r"c has 1 line but .*b has more"):
        list(read_aligned([tmp_path / "c", tmp_path / "b"]))


# --- steps


@given(line=nasty_text, unit=st.sampled_from(["words", "characters", "moses"]))
@settings(max_examples=60, deadline=None)
def test_tokens_are_one_line(line, unit):
    tokens = SPLITTERS[unit](Cleaner().clean(line))
    assert tokens == " ".join(tokens.split())


SPLITTERS = {unit: steps.splitter(unit) for unit in ("words", "characters", "moses")}


def test_moses_tokens_and_back():
    tokens = SPLITTERS["moses"]("Don't say \"no\" [or yes], it's 5 o'clock.")
    assert "&" not in tokens
    assert tokens.split()[:3] == ["Don", "'t", "say"]
    assert Text(TextSettings(unit="moses")).restore(tokens) == "Don't say \"no\" [or yes], it's 5 o'clock."
    # sacremoses 0.2.0 writes a space after the quotation mark
    assert SPLITTERS["moses"]("said 'go.'") == "said ' go . '"


def test_characters_and_back():
    assert SPLITTERS["characters"]("我 有2个 A") == "我 有 2 个 A"
    assert Text(TextSettings(unit="characters")).restore("我 有 2 个 A") == "我有2个A"


def test_jieba_keeps_its_cache_private(tmp_path, monkeypatch):
    pytest.importorskip("jieba")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert steps.splitter("jieba")("我来到北京清华大学 iPhone 5") == "我 来到 北京 清华大学 iPhone 5"
    folder = tmp_path / "cache" / "wean_fairseq"
    assert (folder / "jieba.cache").is_file()
    assert folder.stat().st_mode & 0o077 == 0
    assert Text(TextSettings(unit="jieba")).restore("我 用 iPhone 5 ， 是 1 . 的") == "我用iPhone 5，是1.的"


def test_word_pieces(tmp_path):
    pytest.importorskip("tokenizers")
    (tmp_path / "vocab.txt").write_text("[UNK]\nplay\n##ing\na\n", encoding="utf-8")
    assert steps.splitter("wordpiece", tmp_path / "vocab.txt")("Playing a game") == "play ##ing a [UNK]"
    assert Text(TextSettings(unit="wordpiece")).restore("play ##ing a [UNK]") == "playing a [UNK]"


def test_jieba_splits_long_text_in_parts(monkeypatch):
    """A cell of 300,000 characters took more than a minute: jieba's time grows with the square of its length."""
    pytest.importorskip("jieba")
    split = steps.splitter("jieba")
    monkeypatch.setattr(steps, "_LONGEST_CUT", 5)
    assert split("我来到北京清华大学") == f"{split('我来到北京')} {split('清华大学')}" == "我 来到 北京 清华大学"
    monkeypatch.setattr(steps, "_LONGEST_CUT", 4)
    assert split("我来到北京清华大学") == f"{split('我来到北')} {split('京清华大')} {split('学')}"


@pytest.mark.parametrize("library", ["jieba", "tokenizers"])
def test_missing_library_is_one_sentence(library, monkeypatch, tmp_path):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(optional, "import_module", missing)
    unit = {"tokenizers": "wordpiece"}.get(library, library)
    with pytest.raises(UserError, match=rf"needs {library}, which is not installed: pip install 'wean-fairseq\["):
        steps.splitter(unit, tmp_path / "vocab.txt")


def test_truecasing_model_is_the_one_that_sacremoses_writes(tmp_path):
    sacremoses = pytest.importorskip("sacremoses")
    lines = ["The cat sat . A dog", "I saw The Hague and the cat", "he saw THE end", "iPhone and Iphone or iPhone"]
    learnt.learn_truecaser(lines, tmp_path / "ours")
    sacremoses.MosesTruecaser().train([line.split() for line in lines], save_to=str(tmp_path / "theirs"))
    assert (tmp_path / "ours").read_text(encoding="utf-8") == (tmp_path / "theirs").read_text(encoding="utf-8")
    assert steps.truecaser(tmp_path / "ours")("Cat and Dog") == "cat and dog"


@pytest.mark.parametrize(
    ("step", "content"),
    [
        *((steps.bpe, content) for content in (b"", b"#version: 0.2\na b c\n", b"\xff\xfe", b"#version: x.y\n")),
        *((steps.truecaser, content) for content in (b"odd\n", b"\xff\xfe", b"a (__import__('os')/3)\n")),
    ],
)
def test_damaged_files_of_learnt_steps_are_one_sentence(tmp_path, capsys, step, content):
    """The file may come from another user, and without this check subword-nmt would end the process."""
    (tmp_path / "learnt").write_bytes(content)
    with pytest.raises(UserError, match=r"learnt cannot be read \(.*\): restore it") as caught:
        step(tmp_path / "learnt")
    assert "\n" not in str(caught.value) and capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "log",
    ["trainpref='/x/y'", r"trainpref='\x', destdir='a'", r"trainpref='\N{no}', destdir='a'", "trainpref='', destdir=''"]
    + [r"trainpref='a\x00b', destdir='a'", f"trainpref='{'a/' * 5000}', destdir='a'"],
)
def test_a_log_of_fairseq_preprocess_that_names_no_text_is_none(tmp_path, log):
    (tmp_path / "preprocess.log").write_text(f"Namespace({log})\n")
    assert prepared_text(tmp_path) is None


@given(line=nasty_text)
@settings(max_examples=60, deadline=None)
def test_truecasing_and_its_way_back_keep_all_tokens(line):
    line = Cleaner().clean(line)
    cased = TRUECASER(line)
    assert cased.lower().split() == line.lower().split()
    assert len(Text(TextSettings(truecase=True)).restore(cased).splitlines()) == (1 if line else 0)


def made_truecaser():
    with tempfile.TemporaryDirectory() as folder:
        learnt.learn_truecaser(["x The a b"], Path(folder) / "model")
        return steps.truecaser(Path(folder) / "model")


TRUECASER = made_truecaser()


def test_bpe_is_learnt_applied_and_undone(tmp_path):
    lines = ["lower lowest newer newest wider widest low new"] * 5
    learnt.learn_bpe(lines, tmp_path / "codes", 12)
    pieces = steps.bpe(tmp_path / "codes")("lowest slower")
    assert "@@ " in pieces
    assert Text(TextSettings(bpe=True)).restore(pieces) == "lowest slower"


def test_bpe_cuts_words_of_more_than_1000_characters(tmp_path):
    """A word of a million characters took more than a minute. Its pieces still give the word back."""
    word = "ab" * 1000 + "c"
    learnt.learn_bpe([f"ab ab ab {word}\n"] * 2, tmp_path / "codes", 1)
    assert (tmp_path / "codes").read_text(encoding="utf-8") == "#version: 0.2\na b</w>\n"
    pieces = steps.bpe(tmp_path / "codes")(f"ab {word}")
    assert steps.undo_bpe(pieces) == f"ab {word}"
    assert pieces.split().count("ab@@") == 2  # at both cuts: the codes join a and b only at the end of a part


def test_bpe_codes_with_a_long_version_are_refused(tmp_path):
    """Without this check, subword-nmt took hours to read a version of 150,000 times ".0" and an x."""
    (tmp_path / "codes").write_text(f"#version: {'.0' * 150_000}x\na b</w>\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"codes cannot be read \(its version has more than 100 characters\): restore"):
        steps.bpe(tmp_path / "codes")


def test_bpe_codes_of_another_version_are_refused(tmp_path):
    """subword-nmt knows the versions 0.1 and 0.2."""
    (tmp_path / "codes").write_text("#version: 1.0\na b</w>\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"codes cannot be read \(it has version 1.0, and not 0.1 or 0.2\): restore it"):
        steps.bpe(tmp_path / "codes")


def test_steps_are_undone_in_the_reverse_order():
    undo = Text(TextSettings(bpe=True, truecase=True, unit="moses")).restore
    assert undo("the ca@@ t saw &@@ lt;unk&@@ gt; .") == "The cat saw <unk>."


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
def test_long_runs_of_combining_marks_have_the_same_normal_form(form):
    """Reference: Python's own ``normalize``, which takes minutes for 400,000 marks."""
    marks = [*map(chr, range(0x300, 0x370)), "\u0f73", "\u0f81", "\uff9e"]  # the last three decompose to marks
    rng = random.Random(1)
    line = "".join("e" + "".join(rng.choices(marks, k=number)) for number in (1100, 3, 2500))
    assert Cleaner(form).clean(line) == unicodedata.normalize(form, line)
