"""Test that oddities of a text are reported with a count and a cause, or refused. Plain texts are accepted silently."""

import html
import json
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable

import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation import alignment
from wean_fairseq.evaluation.cli import main
from wean_fairseq.evaluation.corpus import Corpus
from wean_fairseq.evaluation.evaluate import Resampling, evaluate
from wean_fairseq.evaluation.metrics import MetricSettings
from wean_fairseq.evaluation.output_reader import SystemOutput
from wean_fairseq.evaluation.plausibility import find_oddities
from wean_fairseq.evaluation.presets import columns_for


def warnings(
    outputs: list[str], references: list[str], settings: MetricSettings | None = None, notes: tuple = ()
) -> list[str]:
    """Return all warnings except the first one, which says that the source is missing."""
    system = SystemOutput("A", [[line] for line in outputs], "", list(notes))
    columns = columns_for([], ["bleu"], settings or MetricSettings())
    return evaluate([system], Corpus([references]), columns, Resampling(0, 0)).data.warnings[1:]


WORDS = ["The cat sat on the Mat .", "It rained in London ."]


@pytest.mark.parametrize("change", [str.lower, str.upper])
def test_texts_of_another_case(change) -> None:
    """4 of the 33 letters of the references are capitals. The outputs have none, or only capitals."""
    changed = [change(line) for line in WORDS]
    (warning,) = warnings(changed, WORDS)
    share = "0.0%" if change is str.lower else "100.0%"
    assert warning.startswith(f"A: {share} of its letters are capitals but 12.1% of the references'")
    assert warnings(changed, WORDS, MetricSettings(lowercase=True)) == []
    assert warnings(WORDS, WORDS) == []


@pytest.mark.parametrize("text", ["今日はいい天気です。", "วันนี้อากาศดี", "今天天气很好"])
def test_scripts_without_spaces_meet_13a(text: str) -> None:
    (warning,) = warnings([text], [text])
    assert "script without spaces" in warning
    assert warnings([text], [text], MetricSettings("char")) == []
    assert warnings([text], ["An English sentence with one word of it: " + text[:2]]) == []


@pytest.mark.parametrize("with_reference", [True, False])
@pytest.mark.parametrize("with_source", [True, False])
def test_rating_sheets_are_checked_like_scores(
    tmp_path, monkeypatch, capsys, with_source: bool, with_reference: bool
) -> None:
    """The outputs are compared with the source, the reference, both, or only with one another."""
    monkeypatch.chdir(tmp_path)
    generator = random.Random(5)
    words = [f"{first}{second}" for first in "bcdfgklm" for second in ("ana", "ole", "ipu", "esto", "urim", "yx")]
    lines = [" ".join(generator.sample(words, 7)) for _ in range(40)]
    reference = [line.replace("yx", "ax") for line in lines]

    def sheet(*outputs: list[str], study: str) -> tuple[int, str]:
        texts = {f"{number}.txt": output for number, output in enumerate(outputs)} | {"src": lines, "ref": reference}
        for name, text in texts.items():
            (tmp_path / name).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
        given = [f"S{number}={number}.txt" for number in range(len(outputs))]
        more = ["--src", "src"] * with_source + ["--ref", "ref"] * with_reference
        status = main(["sheet", "--hyp", *given, *more, "--sentences", "5", "--out", study])
        return status, "".join(capsys.readouterr())

    plain = [line.replace("a", "o") for line in lines]
    status, said = sheet(plain, study="plain")
    assert (status, "warning" in said) == (0, False)
    status, said = sheet([f"{line[:3]}@@ {line[3:]}" for line in lines], study="pieces")
    assert (status, "outputs hold" in said, (tmp_path / "pieces").exists()) == (2, True, False)
    assert ("but 0 reference lines do" in said) == with_reference
    status, said = sheet([f"{number / 7} {line}" for number, line in enumerate(lines)], study="numbers")
    # outputs may have numbers that the source lacks, such as answers
    assert (status, "outputs begin with a number such as" in said) == (2 * with_reference, True)
    assert ("but 0% of the references do" in said) == with_reference
    status, said = sheet(plain, plain, study="twice")
    assert (status, "the best outputs of S0 and S1 are the same, line for line; is one file given twice?" in said) == (
        0,
        True,
    )
    status, said = sheet([*plain[1:], plain[0]], study="shifted")
    assert (status, "S0: the outputs are" in said) == (0, with_source or with_reference)
    status, said = sheet(["", *plain[1:]], study="empty")
    assert (status, "S0: 1 empty hypotheses (line 1), which raters would see as empty texts." in said) == (0, True)
    status, said = sheet([line.upper() for line in plain], study="capitals")
    assert (status, "S0: 100.0% of its letters are capitals" in said) == (0, with_reference)
    # replies share few words with the source
    status, said = sheet([" ".join(generator.sample(words, 7)) for _ in lines], study="unrelated")
    assert ("better than other lines" in said) == with_reference
    status, said = sheet(["the same sentence."] * 40, study="repeated")
    assert (status, "S0: 40 of 40 outputs are the same sentence" in said) == (0, True)


def test_null_characters_are_counted() -> None:
    assert warnings(["a b", "c\0d", "\0"], ["a b", "c d", "e"]) == ["A: 2 outputs hold the character NUL (line 2, 3)."]


def test_what_was_odd_about_the_file_is_passed_on() -> None:
    assert warnings(["a"], ["a"], notes=("3 sentences are short.",)) == ["A: 3 sentences are short."]


@pytest.mark.parametrize(
    ("piece", "advice"),
    [
        ("hy@@ po@@ thesis", r"join them with --remove-bpe"),
        ("▁hypo thesis", r"join them with --remove-bpe"),
        ("hypo ##thesis", "the tokeniser that cut them"),
        ("a Ġhypothesis", "the tokeniser that cut them"),
        ("hypo thesis</w>", "the tokeniser that cut them"),
        ("hypo￭ thesis", "sed -E"),
    ],
)
def test_pieces_are_not_scored_as_words(piece: str, advice: str) -> None:
    with pytest.raises(UserError, match=rf"A: 1 outputs hold .*line 2\) but 0 reference lines do; .*{advice}"):
        warnings(["one", piece], ["one", "hypothesis"])
    assert warnings(["one", piece], ["one", piece]) == []
    (warning,) = warnings([piece] + ["one"] * 100, ["one"] * 101)
    assert warning.startswith("A: 1 outputs hold ")


NAMES = "Ada Boris Céline Dora Emil Fatima Gustav Hana Igor Jana Karl Lena".split()
THINGS = "the bridge,an old radio,two clocks,her bicycle,a wooden boat".split(",")
PLACES = "Oslo Paris Quito Rome Sofia Tunis Utrecht".split()
SOURCES = [
    f"{name} repaired {THINGS[n % 5]} near {PLACES[n % 7]}, although it was about {n + 11} years old."
    for n, name in enumerate(NAMES * 3)
]
REFERENCES = [
    f"In {PLACES[n % 7]}, {name} fixed {THINGS[n % 5]}, {n + 11} years of age." for n, name in enumerate(NAMES * 3)
]
OUTPUTS = [
    f"{name} fixed {THINGS[n % 5]} near {PLACES[n % 7]}, but it was {n + 11} years old."[: 200 - n]
    for n, name in enumerate(NAMES * 3)
]


def found(outputs: list[str], *references: list[str], sources: list[str] | None = SOURCES) -> list[str]:
    """Return the oddities of one system with the texts above, including oddities of tokenisation (13a) and case."""
    corpus = Corpus(list(references or [REFERENCES]), sources)
    return [text for _, text in find_oddities([SystemOutput("A", [[line] for line in outputs], "")], corpus)]


def shuffled(lines: list[str]) -> list[str]:
    return random.Random(1).sample(lines, len(lines))


@pytest.mark.parametrize(
    ("outputs", "references", "sources"),
    [
        (OUTPUTS, [REFERENCES], SOURCES),
        (OUTPUTS, [REFERENCES], None),
        (SOURCES, [REFERENCES], SOURCES),  # the copy baseline
        (SOURCES, [REFERENCES, OUTPUTS], SOURCES),
        # an output that is nearly perfect
        ([line.replace("fixed", "mended") for line in REFERENCES], [REFERENCES], SOURCES),
        (OUTPUTS, [REFERENCES, [*REFERENCES[:30], *[""] * 6]], SOURCES),
        ([*OUTPUTS[:30], *[""] * 6], [REFERENCES], SOURCES),
        (
            OUTPUTS,
            [[f"{n}. {line}" for n, line in enumerate(REFERENCES)]],
            [f"{n}. {line}" for n, line in enumerate(SOURCES)],
        ),
        ([f'"{line}"' for line in OUTPUTS], [[f'"{line}"' for line in REFERENCES]], [f'"{line}"' for line in SOURCES]),
        ([f"{n} is {n}" for n in range(36)], [[f"{n} was {n}" for n in range(36)]], [f"{n} be {n}" for n in range(36)]),
        (["yes"] * 20 + ["no"] * 16, [["no"] * 18 + ["yes"] * 18], None),
        (["a b", "a b", "a b", "c d"], [["e f", "g h", "i j", "k l"]], ["a", "a", "a", "c"]),  # sources are repeated
        (
            ["股价涨 PM", "今天下雨", "明天放晴"],
            [["股价上涨 PM 2.5", "今天有雨", "明天晴"]],
            ["股价 pm 上涨", "今天下雨吗", "明天会晴"],
        ),
        (["cloud table window"] * 36, [["cloud table window"] * 35 + ["x"]], None),
        (OUTPUTS[:2], [OUTPUTS[:2]], OUTPUTS[:2]),
        (["猫坐在垫子上"] * 2 + ["今天下雨了吗"], [["猫坐在地上", "猫睡在垫子上", "今天会下雨吗"]], None),
    ],
)
def test_plain_texts_are_not_accused(
    outputs: list[str], references: list[list[str]], sources: list[str] | None
) -> None:
    chinese = "the references are in a script without spaces, where 13a finds few words; take --tokenize char."
    assert [text for text in found(outputs, *references, sources=sources) if text != chinese] == []


@pytest.mark.parametrize(
    "score", ["{0:.4f} {1}", "{0:.2e}, {1}", "[{0}] {1}", "{0}: {1}", "{1} {0:.3f}", "{1},{0}", "{1} ({0})"]
)
def test_score_columns_are_refused(score: str) -> None:
    with pytest.raises(
        UserError, match=r"^A: 36 of 36 outputs (begin|end) with a number such as .* for example with sed"
    ):
        found([score.format(-0.01 * n * n - 0.5, line) for n, line in enumerate(OUTPUTS)])


def test_outputs_that_a_command_decoded_itself_are_scored(tmp_path, capsys) -> None:
    """A weak model may end its outputs with numbers. wean-train refused them after the training, without a model."""
    files = {"src": SOURCES, "ref": REFERENCES, "hyp": [f"{line} {n}" for n, line in enumerate(OUTPUTS)]}
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    line = ["--hyp", f"A={tmp_path}/hyp", "--ref", str(tmp_path / "ref"), "--src", str(tmp_path / "src")]
    line += ["--metric", "bleu", "--resamples", "0"]
    assert main(line) == 2
    assert "A: 36 of 36 outputs end with a number such as 0" in capsys.readouterr().err
    assert main([*line, "--decoded"]) == 0
    assert "warning: A: 36 of 36 outputs end with a number such as 0" in "".join(capsys.readouterr())


@pytest.mark.parametrize("form", ["{} {}", "{}. {}", "{}) {}", "{}| {}"])
def test_line_numbers_are_refused(form: str) -> None:
    with pytest.raises(
        UserError, match=r"^A: 36 of 36 outputs begin with a number such as 0, but 0% of the references"
    ):
        found([form.format(n, line) for n, line in enumerate(OUTPUTS)])


def test_one_number_for_all_is_text() -> None:
    """Test that outputs which all begin with the same number are accepted, because a model may well write them."""
    assert not any("number" in text for text in found([f"5 {line}" for line in OUTPUTS]))


# If only one text has the mark, the warning names this text and the remedy.
@pytest.mark.parametrize(
    ("change", "named", "advice"),
    [
        (lambda line: line.replace(",", " &quot;"), r"tokens of Moses", "sacremoses"),
        (lambda line: line.replace(" ", " @-@ ", 1), r"tokens of Moses", "sacremoses"),
        (lambda line: line.replace("it", "&apos;it").replace("fixed", "&apos;fixed"), r"tokens of Moses", "sacremoses"),
        (lambda line: line.replace("e", "e\u0301"), "NFC", "uconv"),
        (lambda line: line.replace(" ", " \u200b"), "invisible", "remove them"),
        (lambda line: line.replace("e", "e\u00ad"), "invisible", "remove them"),
        (lambda line: f"\ufeff{line}", "invisible", "remove them"),
        (lambda line: f"{line}\u200f", "invisible", "remove them"),
        (lambda line: line.replace(" ", "\u00a0"), "no-break", "ordinary spaces"),
        (lambda line: line.replace(" ", "\u202f", 1), "no-break", "ordinary spaces"),
    ],
)
def test_marks_of_one_text_alone(change: Callable[[str], str], named: str, advice: str) -> None:
    outputs, references, sources = ([change(line) for line in lines] for lines in (OUTPUTS, REFERENCES, SOURCES))
    pattern = rf"hold .*{named}.*\(line \d+.*; .*{advice}"
    (text,) = found(outputs)
    assert re.match(rf"A: \d+ outputs {pattern}", text)
    (text,) = found(OUTPUTS, references)
    assert re.match(rf"\d+ reference lines {pattern}", text) and "A (0), the source (0)" in text
    (text,) = found(OUTPUTS, sources=sources)
    assert re.match(rf"the source: \d+ lines {pattern}", text)
    assert found(sources, sources=sources) == [text]  # a copy of the source is not reported again
    assert found(outputs, references, sources=sources) == []


def test_brackets_of_one_form() -> None:
    """A text without brackets does not have another form of brackets."""
    written = [[f"{line[:5]} ( {line[5:]} )" for line in lines] for lines in (OUTPUTS, REFERENCES, SOURCES)]
    outputs, references, sources = ([line.replace("(", "-LRB-").replace(")", "-RRB-") for line in w] for w in written)
    (text,) = found(outputs, written[1], sources=written[2])
    assert text.startswith("A: 36 outputs hold brackets written as -LRB- and -RRB- (line 1, 2, 3, 4, 5 and 31 more)")
    (text,) = found(written[0], references, sources=sources)
    assert text.startswith("36 reference lines hold brackets written as -LRB-")
    assert found(OUTPUTS, references, sources=sources) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ('"{}"'.format, "quotation marks"),
        ("'{}'".format, "quotation marks"),
        (lambda line: line.replace(",", r"\n"), "escapes"),
        (lambda line: line.replace("a", r"\u00e1"), "escapes"),
        (lambda line: line.replace("fixed", "<oov-3>"), "slots of copied words"),
    ],
)
def test_marks_of_outputs_alone(change: Callable[[str], str], named: str) -> None:
    (text,) = found([change(line) for line in OUTPUTS])
    assert re.match(rf"A: 36 outputs hold .*{named}", text)


@pytest.mark.parametrize("change", ["{} </s>", "<s> {} </s>", "{} <pad> <pad>", "[CLS] {} [SEP]", "{}<|endoftext|>"])
def test_symbols_of_a_model(change: str) -> None:
    """A few symbols are reported. Many symbols are refused."""
    with pytest.raises(UserError, match=r"A: 36 outputs hold symbols of a model .* remove them"):
        found([change.format(line) for line in OUTPUTS])
    (text,) = found([change.format(OUTPUTS[0]), *OUTPUTS[1:]])
    assert text.startswith("A: 1 outputs hold symbols of a model")


def test_json_among_the_outputs() -> None:
    """A few objects are reported. A tenth is refused."""
    with pytest.raises(UserError, match=r"A: 12 outputs hold JSON objects .* write the text alone to a plain file"):
        found([json.dumps({"text": line}) if number % 3 == 0 else line for number, line in enumerate(OUTPUTS)])
    (text,) = found([f'{{ "text": {OUTPUTS[0]}', *OUTPUTS[1:]])
    assert text.startswith("A: 1 outputs hold JSON objects")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("\u0938\u0921\u093c\u0915", "\u0938\u095c\u0915"),  # NFC has no composed letter with a nukta
        ("\ud55c\uad6d", unicodedata.normalize("NFD", "\ud55c\uad6d")),  # NFC composes Korean syllables
    ],
)
def test_normal_forms_of_other_scripts(right: str, wrong: str) -> None:
    assert any("form NFC" in text for text in found([wrong] * 3, [right] * 3, sources=None))
    assert not any("form NFC" in text for text in found([right] * 3, [right] * 3, sources=None))


def tokenised(lines: list[str]) -> list[str]:
    return [re.sub(r"(?=[.,])", " ", line) for line in lines]


def test_tokenised_text_beside_raw_text() -> None:
    (text,) = found(tokenised(OUTPUTS))
    assert text.startswith("A: its outputs are tokenised but the references are raw text (spaces before 100% and 0%")
    (text,) = found(OUTPUTS, tokenised(REFERENCES))
    assert text.startswith("A: its outputs are raw text but the references are tokenised")
    assert found(tokenised(OUTPUTS), tokenised(REFERENCES)) == []


@pytest.mark.parametrize(
    ("outputs", "references", "sources", "expected"),
    [
        (OUTPUTS, [REFERENCES, REFERENCES], SOURCES, ["reference 1 and reference 2 are the same text"]),
        (OUTPUTS, [SOURCES], SOURCES, ["the source and reference 1 are the same text"]),
        (SOURCES, [SOURCES], SOURCES, ["the source and reference 1 are the same text"]),
        (REFERENCES, [REFERENCES], SOURCES, ["A: the outputs are reference 1, line for line"]),
        (REFERENCES[:3], [REFERENCES[:3]], SOURCES[:3], ["A: the outputs are reference 1, line for line"]),
        (REFERENCES, [OUTPUTS, REFERENCES], None, ["A: the outputs are reference 2, line for line"]),
        (OUTPUTS, [SOURCES], REFERENCES, ["A: 9[0-9]%|A: 8[0-9]% of its words are in the reference but"]),
        ([*SOURCES[:9], *OUTPUTS[9:]], [SOURCES], REFERENCES, ["A: 88% of its words are in the reference but 57% in"]),
        (
            OUTPUTS[1:] + OUTPUTS[:1],
            [REFERENCES],
            SOURCES,
            ["A: the outputs are shifted by 1 .* belongs to source line"],
        ),
        (["header", *OUTPUTS[:-1]], [REFERENCES], SOURCES, ["A: the outputs are shifted by 1 .* a line is added"]),
        (
            OUTPUTS[:20] + OUTPUTS[21:] + ["x"],
            [REFERENCES],
            SOURCES,
            ["A: .* by 1 .*: line 21 belongs to source line 22"],
        ),
        (OUTPUTS[2:] + OUTPUTS[:2], [REFERENCES], None, ["A: .* shifted by 2 .* belongs to reference line"]),
        (OUTPUTS, [REFERENCES[1:] + REFERENCES[:1]], SOURCES, ["reference 1 is shifted by 1 .*source line"]),
        (OUTPUTS, [REFERENCES, shuffled(REFERENCES)], SOURCES, ["reference 2 is in another order"]),
        (shuffled(OUTPUTS), [REFERENCES], SOURCES, ["A: the outputs are in another order: .* of 36 lines"]),
        (shuffled(OUTPUTS), [REFERENCES], None, ["A: the outputs are in another order: .* reference line"]),
        (OUTPUTS[:1] * 36, [REFERENCES], SOURCES, ["A: 36 of 36 outputs are the same sentence"]),
        (
            [OUTPUTS[n % 2 and n] for n in range(36)],
            [REFERENCES],
            SOURCES,
            ["A: 18 of 36 outputs are the same sentence"],
        ),
        ([line[:30] for line in OUTPUTS], [REFERENCES], SOURCES, ["A: 36 outputs are exactly 30 characters long"]),
        (
            [" ".join(line.split()[:6]) for line in OUTPUTS],
            [REFERENCES],
            SOURCES,
            ["A: 36 outputs are exactly 6 words"],
        ),
    ],
)
def test_wrong_files_are_named(
    outputs: list[str], references: list[list[str]], sources: list[str] | None, expected: list[str]
) -> None:
    texts = found(outputs, *references, sources=sources)
    assert len(texts) == len(expected)
    for text, pattern in zip(texts, expected, strict=True):
        assert re.match(pattern, text)


def test_texts_of_another_test_set() -> None:
    """The words occur in the references, but no line is closer to its own reference than to another one."""
    words = [word for line in REFERENCES for word in line.split()]
    outputs = [" ".join(random.Random(n).sample(words, 5 + n % 5)) for n in range(36)]
    (text,) = found(outputs)
    assert text.startswith(
        "A: the outputs fit source and reference lines in their own place no better than other lines"
    )


LOGGED = ["The red cat is here.", "A blue dog barks!", "Old men sleep.", "Birds of 2 kinds fly.", "It rains today."]


def odd_logs(change: Callable[[list[str]], list[str]], tag: str = "S", lines: list[str] = LOGGED) -> list[str]:
    """Return the oddities of a log with changed sources or targets. The references are equal to the sources."""
    system = SystemOutput("A", [["a b"] for _ in lines], "", logged={tag: change(lines)})
    found = find_oddities([system], Corpus([lines], lines))
    return [sentence for _, sentence in found if "its log" in sentence]


@pytest.mark.parametrize("move", [lambda lines: lines[::-1], lambda lines: [*lines[1:], lines[0]]])
def test_a_log_in_another_order_is_refused(move: Callable[[list[str]], list[str]]) -> None:
    """The first line that moved is given with its text, and with its place in the source."""
    place = move(list("12345"))[0]
    message = rf"^A: [45] S- lines of its log are not .* source .*; the first is S-0 \('.*'\), which is line {place} of"
    with pytest.raises(UserError, match=message):
        odd_logs(move)
    with pytest.raises(UserError, match=message):
        odd_logs(lambda lines: [line.lower().replace(".", " .") for line in move(lines)])
    (warning,) = odd_logs(move, "T")
    assert warning.startswith("A: ") and f"which is line {place} of the reference" in warning


@pytest.mark.parametrize(
    "change",
    [
        str.lower,
        lambda line: line.replace(".", " ."),
        lambda line: line.replace("e", "e@@ "),
        lambda line: "\u2581" + line.replace(" ", " \u2581").replace("r", "r "),
        lambda line: line.replace(" is", " <unk>").replace("Old", "<oov-0>").replace("dog", "<<unk>>"),
        lambda line: " ".join(line.split()[:2]),
        lambda line: "<unk> <unk>",
        lambda line: "",
        lambda line: "\u0120" + line.replace(" ", " \u0120"),
        lambda line: " ".join(str(37 * len(word)) for word in line.split()),
        lambda line: re.sub(" \\w+", " [UNK]", line),
        lambda line: f"[CLS] {re.sub(' .', ' [unk]', line)} [SEP]",
        lambda line: re.sub(" \\w+", " \u2047", line, count=1),
    ],
    ids=[
        "case",
        "tokens",
        "pieces",
        "sentencepiece",
        "unknown",
        "truncated",
        "all-unknown",
        "empty",
        "gpt2",
        "word-numbers",
        "bert",
        "uncased-bert",
        "unknown-to-sentencepiece",
    ],
)
@pytest.mark.parametrize("tag", ["S", "T"])
def test_a_log_in_the_form_of_a_model_is_accepted(change: Callable[[str], str], tag: str) -> None:
    assert odd_logs(lambda lines: list(map(change, lines)), tag) == []


def test_a_log_of_a_few_or_of_unknown_other_sentences_is_reported() -> None:
    (warning,) = odd_logs(lambda lines: [lines[1], lines[0], *lines[2:]])
    assert warning == (
        "A: 2 S- lines of its log are not the lines of the source with their numbers; the first is S-0 "
        "('A blue dog barks!'), which is line 2 of the source; give the files that fairseq-generate read."
    )
    (warning,) = odd_logs(lambda lines: [f"another sentence {number}" for number, _ in enumerate(lines)])
    assert "5 S- lines of its log" in warning and "('another sentence 0'); give" in warning
    assert odd_logs(lambda lines: [f"another {line}" for line in lines], "T") == []


def test_if_most_lines_are_other_sentences_they_are_all_counted() -> None:
    """One line of the log is another line of the source, and four are in no line of it."""
    unknown = [f"another sentence {number}" for number in range(4)]
    (warning,) = odd_logs(lambda lines: [lines[1], *unknown])
    assert (
        "A: 5 S- lines of its log" in warning and "the first is S-0 ('A blue dog barks!'), which is line 2" in warning
    )
    (warning,) = odd_logs(lambda lines: [*unknown, lines[1]])
    assert "A: 5 S- lines of its log" in warning and "the first is S-0 ('another sentence 0'); give" in warning


@pytest.mark.parametrize("escape", ["apos", "quot", "amp", "lt", "gt", "#124", "#91", "#93"])
def test_a_log_with_the_escapes_of_moses_is_accepted(escape: str) -> None:
    """The names are those that the tokeniser of Moses writes."""
    sources = [line.replace(" ", html.unescape(f"&{escape};") + " ") for line in LOGGED]
    assert odd_logs(lambda lines: [line.replace(" ", f" &{escape}; ") for line in LOGGED], lines=sources) == []


def test_sources_that_are_numbers_are_compared() -> None:
    with pytest.raises(UserError, match="A: 4 S- lines of its log"):
        odd_logs(lambda lines: lines[::-1], lines=["1 2", "3 4", "5", "67", "8 9 10"])


def test_the_letters_of_a_test_set_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take most of the time. The lines of the logs are lower-cased, so they are other texts."""
    calls = Counter()
    monkeypatch.setattr(alignment, "letters", lambda text: calls.update([text]) or text.lower())
    logged = {"S": [line.lower() for line in LOGGED]}
    systems = [SystemOutput(name, [["a b"] for _ in LOGGED], "", logged=logged) for name in "ABC"]
    find_oddities(systems, Corpus([LOGGED], LOGGED))
    assert calls == Counter(dict.fromkeys(LOGGED, 1) | {line.lower(): 3 for line in LOGGED})


def test_two_systems_with_one_text() -> None:
    systems = [SystemOutput(name, [[line] for line in OUTPUTS], "") for name in "AB"]
    texts = [text for _, text in find_oddities(systems, Corpus([REFERENCES], SOURCES))]
    assert texts == ["the best outputs of A and B are the same, line for line; is one file given twice?"]
