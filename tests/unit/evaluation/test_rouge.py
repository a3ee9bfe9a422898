"""Test ROUGE against hand counts, including Chinese text, for which the usual tools are wrong."""

import pytest
from rouge_score.rouge_scorer import RougeScorer

from wean_fairseq.evaluation.metrics import Rouge
from wean_fairseq.evaluation.tokenizers import get_tokenizer


def rouge(output: str, reference: str, variant: str, tokenize: str = "words", **options: object) -> float:
    return Rouge("x", variant, tokenize, **options).sentence_score(output, [reference]).score


def test_repeated_words_are_counted_not_collected() -> None:
    """Of the output "a a a b", two of four words match "a a c" (clipped). R = 2/3, F1 = 2*(1/2)*(2/3)/(7/6) = 4/7.

    The packages rouge and rouge-chinese treat n-grams as a set, so they find 1 match of 2 words.
    """
    assert rouge("a a a b", "a a c", "1") == pytest.approx(100 * 4 / 7)


def test_bigrams_and_subsequence_by_hand() -> None:
    """For "a b c d" against "a c d", bigram "c d" is 1 of 3 and 1 of 2, and the LCS "a c d" is 3 of 4 and 3 of 3."""
    assert rouge("a b c d", "a c d", "2") == pytest.approx(100 * 2 / 5)
    assert rouge("a b c d", "a c d", "L") == pytest.approx(100 * 6 / 7)


def test_beta_by_hand() -> None:
    """With P = 3/4, R = 1 and beta = 1.2, F is (1 + 1.44) * 0.75 / (1 + 1.44 * 0.75)."""
    assert rouge("a b c d", "a c d", "L", beta=1.2) == pytest.approx(100 * 2.44 * 0.75 / (1 + 1.44 * 0.75))


@pytest.mark.parametrize("variant", ["1", "2", "L"])
@pytest.mark.parametrize("tokenize", ["char", "zh"])
def test_identical_chinese_is_100(variant: str, tokenize: str) -> None:
    assert rouge("今天天气很好", "今天天气很好", variant, tokenize) == pytest.approx(100)


def test_mixed_chinese_by_hand() -> None:
    """Tokens by zh: 苹 果 iPhone 15 发 布 against iPhone 15 今 日 发 布: 4 of 6 match on both sides, F1 = 2/3.

    Bigrams: iPhone-15 and 发-布, 2 of 5. LCS: iPhone 15 发 布. Without white space, the characters
    are 苹果iPhone15发布 against iPhone15今日发布, and 10 of 12 match.
    """
    output, reference = "苹果 iPhone 15 发布", "iPhone 15 今日 发布"
    assert rouge(output, reference, "1", "zh") == pytest.approx(100 * 4 / 6)
    assert rouge(output, reference, "2", "zh") == pytest.approx(100 * 2 / 5)
    assert rouge(output, reference, "L", "zh") == pytest.approx(100 * 4 / 6)
    assert rouge(output, reference, "1", "char") == pytest.approx(100 * 10 / 12)


def test_length_limit() -> None:
    """All of the first three words match. Without the limit, one of four output words is wrong."""
    assert rouge("a b c x", "a b c", "1", max_tokens=3) == pytest.approx(100)
    assert rouge("a b c x", "a b c", "1") == pytest.approx(100 * 6 / 7)


@pytest.mark.parametrize("variant", ["1", "2", "L"])
def test_ascii_words_equal_rouge_score(variant: str) -> None:
    """The oracle is rouge-score 0.1.2 with its own tokeniser, which agrees on ASCII text."""
    output, reference = "The cat's hat_box: 3.5 inches, RED!", "A red hat-box of the cat (3.5 inches)"
    kind = f"rouge{variant}"
    expected = RougeScorer([kind]).score(reference, output)[kind].fmeasure
    assert rouge(output, reference, variant) == pytest.approx(100 * expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("हिन्दी में लिखा है।", ["हिन्दी", "में", "लिखा", "है"]),  # vowel signs and virama; the danda is punctuation
        ("தமிழ் மொழி", ["தமிழ்", "மொழி"]),
        ("মানুষের ভাষা", ["মানুষের", "ভাষা"]),
        ("كَتَبَ الوَلَدُ، نعم", ["كَتَبَ", "الوَلَدُ", "نعم"]),  # short vowels; the Arabic comma is punctuation
        ("שָׁלוֹם עוֹלָם", ["שָׁלוֹם", "עוֹלָם"]),
        ("ภาษาไทย ที่นี่", ["ภาษาไทย", "ที่นี่"]),  # Thai has spaces between phrases only
        ("می\u200cروم خانه\u200c", ["می\u200cروم", "خانه"]),  # the non-joiner separates letters within a word
        ("ක්\u200dරියා", ["ක්\u200dරියා"]),  # the joiner also separates letters within a word
        ("cafe\u0301 nai\u0308ve", ["cafe\u0301", "nai\u0308ve"]),  # letters with separate accents
        ("İstanbul", ["i\u0307stanbul"]),  # str.lower turns İ into a letter and a mark
        ("½ cup, 3.5 x²", ["½", "cup", "3", "5", "x²"]),
        ("snake_case \u0301alone", ["snake", "case", "alone"]),
    ],
)
def test_combining_marks_do_not_separate_words(text: str, words: list[str]) -> None:
    """Words end at white space and punctuation. Combining marks and joiners continue a word, as in UAX 29."""
    assert get_tokenizer("words")(text).split(" ") == words


def test_a_wrong_vowel_sign_is_one_wrong_word() -> None:
    """One of two words differs, so F1 of words is 1/2.

    If words were cut at the marks, at least 3 of 5 parts would match.
    """
    assert rouge("हिन्दी में", "हिन्दू में", "1") == pytest.approx(50)


def test_best_reference_counts_and_empty_is_zero() -> None:
    metric = Rouge("x", "1", "none")
    assert metric.sentence_score("a b", ["c d", "a b"]).score == pytest.approx(100)
    assert metric.sentence_score("", ["a"]).score == 0
    assert metric.sentence_score("a", [""]).score == 0


@pytest.mark.parametrize(("tokenize", "definition"), [("words", 2), ("char", 1), ("none", 1)])
def test_the_signature_tells_the_definition_of_words(tokenize: str, definition: int) -> None:
    """The words of definition 1 were cut at combining marks. The other tokenisations have not changed."""
    metric = Rouge("x", "1", tokenize)
    metric.sentence_score("a", ["a"])
    assert f"|wean:{definition}|" in metric.get_signature().format()
