"""Test that Moses tokens, word pieces and words of jieba become running text, and that everyday lines are restored."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wean_fairseq.text import Text, TextSettings, steps
from wean_fairseq.text.detokenise import detokeniser

# Each line is its own expected value, because splitting and restoring must give the same line.
MOSES = {
    "en": """\
What’s the best way? I don’t think so, it’s Anna’s. We’ll see; they’ve seen, and I’m sure you’d agree.
I don't think so, isn't it? The Jones' house is James's. It's 5 o'clock.
He said “come in”. “It’s late”, she said. (“Really?”) “Yes.” ‘Now’, he said. 'Now', he said 'come in'.
Look at https://example.org/a?b=1. Or http://www.example.org/a/b_c-d.html, ftp://example.org/x; more.
Mail info@example.org or first.last+tag@mail.example.co.uk. Thanks @user for #hashtag!
It starts at 10:30 on 3/4/2020 and/or later, 24/7. It costs $1,000.50 or 7% of that.
Fine :) and sad :( .
Fine ;-) and (see this).
It is 8' x 10'.
It is 8" x 10".
C++ and C#, AT&T and R&D, file_name.txt, pages 5–10.
Well… yes. No... What?! No!!!
Teachers’ room. The dogs’ tails. O’Brien’s l’homme. The U.K.’s 1990s, the ’90s and the '90s. Rock ’n’ roll.
She is 5'10" tall. See www.example.com/path?x=1&y=2, or <https://example.org>. IPv4: 192.168.0.1:80, ~50% of Q&A.
It was 20°C here, that is 5 m² with Acme® and 5 € more. Press <enter> for file(s). Call f() now.
The word 你好 means “hello”.""",
    "fr": "L’homme d’abord : « oui » ! Qu’est-ce que c’est ? Aujourd’hui, l'été n'est pas là.",
    "de": "Er sagte: „Komm“, und »geh«. Die „Katze“-Datei. Der Fall (5 €).",
    "ru": "От: «Да». Об’єднані, пам'ять – так.",
    "es": "¿Qué tal? ¡Hola, «amigo»!",
    "ar": "هذا، نعم؟ لا؛ حسنًا.",
    "hi": "नमस्ते, आप कैसे हैं? मैं ठीक हूँ।",
    "th": "ฉันเมื่อวานนี้ไปตลาด",
    "ko": "안녕하세요, 세계! (좋아요)",
    "zh": "近日，SOHO中国官方宣布“燃灯者”——2014年9月。（图）好……",
}


@pytest.mark.parametrize("language", MOSES)
def test_moses_tokens_come_back(language: str) -> None:
    text = Text(TextSettings(unit="moses", language=language))
    lines = MOSES[language].splitlines()
    assert [text.restore(text.prepare(line)) for line in lines] == lines


@pytest.mark.parametrize(
    ("line", "restored"),
    [  # these tokens are ambiguous, and the expected text is the usual spelling
        ("either / or", "either/or"),
        ("5€", "5 €"),
        ("a,b", "a, b"),
        ("a+b=c", "a + b = c"),
        ("end .", "end."),
        ("用 iPhone 的人们", "用iPhone的人们"),
    ],
)
def test_what_moses_tokens_do_not_tell(line: str, restored: str) -> None:
    text = Text(TextSettings(unit="moses"))
    assert text.restore(text.prepare(line)) == restored


def test_white_space_and_dots_end() -> None:
    joined = steps.joiner("wordpiece")(" " * 50_000 + "a ##b" + " " * 50_000 + "c" + " aa ." * 3000)
    assert joined.startswith("ab c aa")


def test_bracket_after_a_colon_is_no_smiley_inside_of_brackets() -> None:
    restore = Text(TextSettings(unit="moses")).restore
    assert restore("( see : )") == "(see:)"
    assert restore("note : ( see ) .") == "note: (see)."


@pytest.mark.parametrize(
    ("pieces", "text"),
    [  # by the rules of BERT's pre-tokenizer, which separates all punctuation
        ("it isn ' t 3 . 5 % , is it ?", "it isn't 3.5%, is it?"),
        ('a well - known e . g . " word ##s "', 'a well-known e.g. "words"'),
        ("see www . example . com . then wait . . .", "see www.example.com. then wait..."),
        ("mail info @ example . org at 10 : 30 --", "mail info@example.org at 10:30 --"),
        ("我 用 iphone 的 。", "我用iphone的。"),
        ("[UNK] , play ##ing", "[UNK], playing"),
    ],
)  # fmt: skip
def test_word_pieces_come_back(pieces: str, text: str) -> None:
    assert Text(TextSettings(unit="wordpiece")).restore(pieces) == text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("我 用 iPhone 5 ， 是 1 . 的", "我用iPhone 5，是1.的"),
        ("I said \" hi \" to ( you ) , don ' t !", 'I said "hi" to (you), don\'t!'),
        ("他 说 ： “ 好 ” ， 300279 . SZ 。", "他说：“好”，300279.SZ。"),
    ],
)  # fmt: skip
def test_words_of_jieba_come_back(words: str, text: str) -> None:
    assert Text(TextSettings(unit="jieba")).restore(words) == text


@given(
    tokens=st.lists(
        st.one_of(
            st.sampled_from(
                "' \" ’ ‘ “ ” „ » « ( ) : - … . , / @ + # & < > _ 5 x s t https 的 ก ่ \x01 \x02 \x03".split(" ")
            ),
            st.text(max_size=3),
        ),
        max_size=14,
    )
)
@settings(max_examples=300, deadline=None)
def test_any_output_becomes_one_line_with_all_its_letters(tokens: list[str]) -> None:
    line = " ".join(" ".join(tokens).split())
    for unit in steps.UNITS:
        restored = Text(TextSettings(unit=unit)).restore(line)
        assert restored == " ".join(restored.split())
    joined = detokeniser("en")(line)
    assert joined.split() == [] or sorted(c for c in joined if c.isalnum()) == sorted(c for c in line if c.isalnum())
