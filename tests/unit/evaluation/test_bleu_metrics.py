"""Test BLEU and the numbers that are built on it. sacreBLEU is the oracle, and combinations are written out."""

import pytest
import sacrebleu

from wean_fairseq.evaluation.metrics import Bleu, IBleu, SelfBleu

SOURCES = ["how can i learn to cook well at home", "where is the best book on birds"]
REFERENCES = [["where is the best way to learn cooking at home", "which book on birds is the best"]]
OUTPUTS = ["how do i learn to cook at home", "where is the best book on birds"]


def bleu(references: list[list[str]], **options: object) -> float:
    """Return the BLEU of sacreBLEU 2.6.0, called directly."""
    return sacrebleu.BLEU(force=True, **options).corpus_score(OUTPUTS, references).score


@pytest.mark.parametrize("order", [4, 2])
@pytest.mark.parametrize("tokenize", ["13a", "none", "char", "zh"])
def test_bleu_is_sacrebleu(order: int, tokenize: str) -> None:
    score = Bleu("x", tokenize, True, order).corpus_score(OUTPUTS, REFERENCES).score
    assert score == bleu(REFERENCES, tokenize=tokenize, lowercase=True, max_ngram_order=order)


def test_self_bleu_and_ibleu() -> None:
    """Check iBLEU = 0.9 * BLEU(hyp, ref) - 0.1 * BLEU(hyp, src) (Sun and Zhou, 2012).

    Both parts come from sacreBLEU.
    """
    self_bleu, ibleu = SelfBleu(), IBleu(alpha=0.9)
    self_bleu.sources = ibleu.sources = SOURCES
    assert self_bleu.corpus_score(OUTPUTS, REFERENCES).score == bleu([SOURCES])
    expected = 0.9 * bleu(REFERENCES) - 0.1 * bleu([SOURCES])
    assert ibleu.corpus_score(OUTPUTS, REFERENCES).score == pytest.approx(expected, abs=1e-12)


def test_signatures_say_what_was_done() -> None:
    metrics = Bleu("b", "13a", True, 2), SelfBleu("s", "none"), IBleu("i", alpha=0.8)
    for metric in metrics:
        metric.sources = SOURCES
        metric.prepare(REFERENCES)
    two, own, inverse = (metric.get_signature().format().rsplit("|version", 1)[0] for metric in metrics)
    assert two == "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|order:2"
    assert own == "case:mixed|eff:no|tok:none|smooth:exp|against:source"
    assert inverse == "nrefs:1|case:mixed|tok:13a|smooth:exp|alpha:0.8|wean:1"


def test_sentence_scores_use_effective_order() -> None:
    """With effective order, a three-word copy has sentence BLEU 100.

    Plain BLEU-4 would be 0, because there is no 4-gram.
    """
    metric = Bleu()
    metric.prepare([["a b c"]])
    rows = metric.rows(["a b c"])
    assert metric.sentence_scores(rows)[0] == pytest.approx(100)
    assert metric.score_of(rows.sum(axis=0)) == 0
    assert metric.effective_order is False
