"""A paper's preset is that paper's protocol, whatever else is asked for: it must not change unnoticed."""

import re

import pytest
import sacrebleu

from wean_fairseq.evaluation import EvaluationError
from wean_fairseq.evaluation.metrics import Settings
from wean_fairseq.evaluation.presets import PRESETS, Column, columns_for

_M7 = "case:mixed|tok:none|order:{}|smooth:nltk-method7-legacy|avg:sentence"
_LETTERS, _SOURCE = "|against:first-source-token-letters", "|against:source"
_ROUGE = "case:mixed|tok:char|rouge:{}|beta:1.0"
_METEOR = "case:lc|tok:none|modules:exact+stem|alpha:0.9|beta:3|gamma:0.5"
_CDNPG_SHARED = {
    "BLEU-2": _M7.format(2),
    "BLEU-4": _M7.format(4),
    "ROUGE-L": "case:mixed|tok:none|rouge:L|beta:1.2",
    "METEOR-es": _METEOR,
}
# What sections 1.3, 2.8, 3.9, 5.6, 6.6 and 8.1 of the design reference say, as signatures.
PROTOCOLS = {
    "paper:wean-pwkp": {"BLEU": "case:lc|eff:no|tok:13a|smooth:exp"},
    "paper:wean-ew-sew": {"BLEU": "case:lc|eff:no|tok:13a|smooth:exp"},
    "paper:wean-lcsts": {f"ROUGE-{n}": _ROUGE.format(n) for n in "12L"},
    "paper:copynet-lcsts": {f"ROUGE-{n}": _ROUGE.format(n) + "|limit:40" for n in "12L"},
    "paper:copynet-synthetic": {"exact@1": "case:mixed|tok:none|k:1"},
    "paper:copynet-dialogue": {f"exact@{k}": f"case:mixed|tok:none|k:{k}" for k in (1, 10)},
    "paper:cdnpg-compat": {
        "iBLEU": _M7.format(4) + "|alpha:0.8" + _LETTERS,
        **_CDNPG_SHARED,
        "self": _M7.format(4) + _LETTERS,
    },
    "paper:cdnpg-fixed": {
        "iBLEU": _M7.format(4) + "|alpha:0.8" + _SOURCE,
        **_CDNPG_SHARED,
        "self": _M7.format(4) + _SOURCE,
    },
    "paper:pc-san": {
        "BLEU-2": "case:mixed|eff:no|tok:none|smooth:exp|order:2",
        "BLEU-4": "case:mixed|eff:no|tok:none|smooth:exp",
        "BLEU-char": "case:mixed|eff:no|tok:char|smooth:exp",
        "Diver": "case:mixed|tok:none|avg:sentence",
    },
}


def columns_of(preset: str, settings: Settings) -> list[Column]:
    """The paper's own columns."""
    return [column for column in columns_for([preset], [], settings) if column.group == preset]


def score(column: Column, output: str, reference: str) -> float:
    return column.metric.corpus_score([output], [[reference]]).score


def test_every_preset_is_listed_here() -> None:
    assert list(PROTOCOLS) == list(PRESETS)


@pytest.mark.parametrize("settings", [Settings(), Settings("zh", lowercase=True, alpha=0.5)], ids=["plain", "other"])
@pytest.mark.parametrize("preset", PRESETS)
def test_protocol_in_the_signature(preset: str, settings: Settings) -> None:
    """The number of references comes before it and versions after it."""
    if "cdnpg" in preset:
        pytest.importorskip("nltk")
    found = {}
    for column in columns_of(preset, settings):
        column.metric.sources = ["a"]
        column.metric.prepare([["b"]])
        signature = column.metric.get_signature().format()
        found[column.label] = re.sub(r"\|(nltk|wean|version):[^|]*", "", signature.removeprefix("nrefs:1|"))
    assert found == PROTOCOLS[preset]


@pytest.mark.parametrize("preset", ["paper:wean-pwkp", "paper:wean-ew-sew"])
def test_wean_bleu_is_mteval_without_case(preset: str) -> None:
    """Oracle: sacreBLEU itself; the sentence is one where tokenisation and case both matter."""
    (column,) = columns_of(preset, Settings("none"))
    output, reference = "It weighed (about) 3.5 tons, in the end.", "it weighed ( about ) 3.5 tons , in the End ."
    scores = {
        (tokenize, lowercase): sacrebleu.corpus_bleu(
            [output], [[reference]], tokenize=tokenize, lowercase=lowercase, force=True
        ).score
        for tokenize in ("13a", "none")
        for lowercase in (True, False)
    }
    assert len(set(scores.values())) == 4
    assert score(column, output, reference) == scores["13a", True] == pytest.approx(100)


def test_copynet_scores_forty_characters_and_wean_all() -> None:
    """Forty characters are equal, five more are not: R = P = 40/45 without the limit, white space is no character."""
    same, rest, other = "今天天气很好我们去" * 4 + "公园散步", "你好吗朋友", "再见了先生"
    limited, unlimited = columns_of("paper:copynet-lcsts", Settings()), columns_of("paper:wean-lcsts", Settings())
    output, reference = f"{same[:7]} {same[7:]}{rest}", same + other
    assert len(same) == 40
    assert [score(column, output, reference) for column in limited] == pytest.approx([100, 100, 100])
    assert [score(column, output, reference) for column in unlimited] == pytest.approx(
        [100 * 40 / 45, 100 * 39 / 44, 100 * 40 / 45]
    )


def test_standard_numbers_beside_a_preset_follow_the_settings() -> None:
    beside = [column for column in columns_for(["paper:wean-pwkp"], [], Settings("char")) if column.group == "standard"]
    assert [column.key for column in beside] == ["bleu", "sari", "copy-rate", "length-ratio"]
    beside[0].metric.prepare([["a"]])
    assert "tok:char" in beside[0].metric.get_signature().format()


def test_unknown_preset_lists_the_choices() -> None:
    with pytest.raises(EvaluationError, match="unknown preset 'paper:x'; choose from standard, paper:wean-pwkp, "):
        columns_for(["paper:x"], [], Settings())
