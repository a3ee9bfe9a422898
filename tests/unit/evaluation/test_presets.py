"""A preset follows the protocol of its paper with any other settings, and must not change unnoticed."""

import re
from pathlib import Path

import pytest
import sacrebleu

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.metrics import MetricSettings
from wean_fairseq.evaluation.presets import METRIC_PRESETS, MetricColumn, columns_for


def sari(signature: str) -> dict[str, str]:
    """Return SARI and its three parts."""
    return {
        "SARI": signature,
        **{f"SARI-{name}": f"{signature}|operation:{name}" for name in ("add", "keep", "delete")},
    }


_M7 = "case:mixed|tok:none|order:{}|smooth:nltk-method7-legacy|avg:sentence"
_LETTERS, _SOURCE = "|against:first-source-token-letters", "|against:source"
_ROUGE = "case:mixed|tok:char|rouge:{}|beta:1.0"
_METEOR = "case:lc|tok:none|modules:exact+stem|alpha:0.9|beta:3|gamma:0.5"
_MTEVAL = {"BLEU": "case:lc-ascii|eff:no|tok:13a|smooth:exp"}
_EASSE = "case:lc|tok:13a|avg:sentence"
_CDNPG_SHARED = {
    "BLEU-2": _M7.format(2),
    "BLEU-4": _M7.format(4),
    "ROUGE-L": "case:mixed|tok:none|rouge:L|beta:1.2",
    "METEOR-es": _METEOR,
}
# Protocols of sections 1.3, 2.8, 3.9, 5.6, 6.6 and 8.1 of the design reference, as signatures.
PROTOCOLS = {
    "paper:wean-pwkp": _MTEVAL,
    "paper:wean-ew-sew": _MTEVAL,
    "paper:dress-pwkp": {**_MTEVAL, **sari("case:mixed|tok:13a|order:4|del:f1|src:none|weight:8")},
    "paper:dress-ew-sew": {**_MTEVAL, **sari("case:lc-ascii|tok:13a|order:4|del:f1|src:none|weight:8")},
    "paper:nts": {
        "BLEU": "case:lc|eff:no|tok:nltk|smooth:nltk-method3",
        **sari("case:lc|tok:spaces|order:4|del:precision|avg:sentence|brackets:lrb"),
    },
    "paper:easse": {
        "BLEU": "case:lc|eff:no|tok:13a|smooth:exp",
        "SARI": "case:lc|tok:13a|order:4|del:f1",
        "FKGL": "case:lc|tok:13a|syllables:fast-1999",
        "compression": _EASSE,
        "splits": _EASSE,
        "copies%": "case:lc|tok:13a",
        "added%": _EASSE + "|count:additions",
        "deleted%": _EASSE + "|count:deletions",
    },
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


def columns_of(preset: str, settings: MetricSettings) -> list[MetricColumn]:
    """Return the paper's own columns."""
    return [column for column in columns_for([preset], [], settings) if column.preset == preset]


def score(column: MetricColumn, output: str, reference: str) -> float:
    return column.metric.corpus_score([output], [[reference]]).score


def test_every_preset_is_listed_here() -> None:
    assert list(PROTOCOLS) == list(METRIC_PRESETS)


@pytest.mark.parametrize(
    "settings", [MetricSettings(), MetricSettings("zh", lowercase=True, alpha=0.5)], ids=["plain", "other"]
)
@pytest.mark.parametrize("preset", METRIC_PRESETS)
@pytest.mark.usefixtures("punkt")
def test_protocol_in_the_signature(preset: str, settings: MetricSettings) -> None:
    """In the signature, the protocol follows the number of references and precedes the versions."""
    if "cdnpg" in preset:
        pytest.importorskip("nltk")
    if preset == "paper:easse":
        pytest.importorskip("readability")
    found = {}
    for column in columns_of(preset, settings):
        column.metric.sources = ["a"]
        column.metric.prepare([["b"]])
        signature = column.metric.get_signature().format()
        found[column.label] = re.sub(r"\|(nltk|wean|version):[^|]*", "", signature.removeprefix("nrefs:1|"))
    assert found == PROTOCOLS[preset]


@pytest.mark.parametrize("preset", ["paper:wean-pwkp", "paper:wean-ew-sew", "paper:dress-pwkp", "paper:dress-ew-sew"])
def test_wean_bleu_is_mteval_without_case(preset: str) -> None:
    """The oracle is sacreBLEU itself. Both tokenisation and case change the score of the sentence."""
    column = columns_of(preset, MetricSettings("none"))[0]
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


def test_mteval_lower_cases_ascii_alone() -> None:
    """mteval-v13a lower-cases with tr/A-Z/a-z/: "Zoë" becomes "zoë", but "ÉMILE" does not become "émile".

    Counted by hand, 5 of 6 words are equal.

    The precisions are 5/6, 4/5, 3/4 and 2/3, and both texts have the same length.
    """
    column = columns_of("paper:wean-ew-sew", MetricSettings())[0]
    found = score(column, "THE CAT OF Zoë SAW ÉMILE", "the cat of zoë saw émile")
    assert found == pytest.approx(100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)


@pytest.mark.usefixtures("punkt")
def test_bleu_of_nts_is_that_of_nltk_with_smoothing_method_3() -> None:
    """The oracle is NLTK's corpus_bleu.

    One output is shorter than four words, so it needs the smoothing if it is scored alone.

    The period of each sentence is a separate word, but not the period of "approx.".
    """
    bleu = pytest.importorskip("nltk.translate.bleu_score")
    outputs = ["He ate approx. two. He can't sleep.", "A b c"]
    references = [["he ate approx. three. He can't sleep now.", "a b c"], ["She ate. He can't sleep at all.", "a b"]]
    words = ["he ate approx. two . he ca n't sleep .".split(), "a b c".split()]
    right = [
        ["he ate approx. three . he ca n't sleep now .".split(), "she ate . he ca n't sleep at all .".split()],
        ["a b c".split(), "a b".split()],
    ]
    column = columns_of("paper:nts", MetricSettings())[0]
    for part in (slice(0, 2), slice(1, 2)):
        smooth = bleu.SmoothingFunction().method3
        expected = bleu.corpus_bleu(right[part], words[part], smoothing_function=smooth)
        found = column.metric.corpus_score(outputs[part], [lines[part] for lines in references]).score
        assert found == pytest.approx(100 * expected)


def test_without_punkt_the_error_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = pytest.importorskip("nltk.data")
    monkeypatch.setattr(data, "path", [str(tmp_path)])
    with pytest.raises(UserError, match=r"run `python -m nltk\.downloader punkt_tab`"):
        columns_for(["paper:nts"], [], MetricSettings())


def test_copynet_scores_forty_characters_and_wean_all() -> None:
    """Of 45 characters without white space, the first forty are equal, so R = P = 40/45 without the limit."""
    same, rest, other = "今天天气很好我们去" * 4 + "公园散步", "你好吗朋友", "再见了先生"
    limited, unlimited = (
        columns_of("paper:copynet-lcsts", MetricSettings()),
        columns_of("paper:wean-lcsts", MetricSettings()),
    )
    output, reference = f"{same[:7]} {same[7:]}{rest}", same + other
    assert len(same) == 40
    assert [score(column, output, reference) for column in limited] == pytest.approx([100, 100, 100])
    assert [score(column, output, reference) for column in unlimited] == pytest.approx(
        [100 * 40 / 45, 100 * 39 / 44, 100 * 40 / 45]
    )


def test_standard_numbers_beside_a_preset_follow_the_settings() -> None:
    beside = [
        column for column in columns_for(["paper:wean-pwkp"], [], MetricSettings("char")) if column.preset == "standard"
    ]
    assert [column.key for column in beside] == [
        *("bleu", "sari", "sari-add", "sari-keep", "sari-delete", "copy-rate", "length-ratio")
    ]
    beside[0].metric.prepare([["a"]])
    assert "tok:char" in beside[0].metric.get_signature().format()


def test_unknown_preset_lists_the_choices() -> None:
    with pytest.raises(UserError, match="unknown preset 'paper:x'; choose from standard, paper:wean-pwkp, "):
        columns_for(["paper:x"], [], MetricSettings())
