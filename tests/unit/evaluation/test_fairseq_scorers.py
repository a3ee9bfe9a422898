"""Test ``--scoring wean``: fairseq builds the scorer from its own configuration, and the number equals sacreBLEU's."""

import pytest
import sacrebleu
from fairseq.scoring import SCORER_REGISTRY, build_scorer
from omegaconf import OmegaConf

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.scorers import WeanScorerConfig

OUTPUTS, REFERENCES = ["a b c d e", "x y"], ["a b c d f", "x y z"]


def build(metrics: str) -> object:
    config = OmegaConf.structured(WeanScorerConfig(_name="wean", wean_metrics=metrics))
    return build_scorer(config, None)


def test_scores_like_sacrebleu() -> None:
    scorer = build("bleu, rouge-1")
    for reference, output in zip(REFERENCES, OUTPUTS, strict=True):
        scorer.add_string(reference, output)
    expected = sacrebleu.BLEU(tokenize="none").corpus_score(OUTPUTS, [REFERENCES]).score
    assert scorer.score() == expected
    assert f"BLEU = {expected:.2f} (nrefs:1|" in scorer.result_string()
    # mean of F1 for 4/5 and 4/5, and F1 for 2/2 and 2/3: (0.8 + 0.8) / 2
    assert "ROUGE-1 = 80.00" in scorer.result_string()


def test_registered() -> None:
    assert "wean" in SCORER_REGISTRY


@pytest.mark.parametrize(
    ("metrics", "message"),
    [("sari", "compares with the source"), ("x", "unknown metric 'x'"), (" ", "names no metric")],
)
def test_refused(metrics: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(metrics)
