"""Test copying, length, diversity, exact match, topics, METEOR: every expected value is counted by hand in the test."""

import sys
from pathlib import Path

import numpy as np
import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.metrics import (
    METRICS,
    CopyRate,
    Distinct,
    Diversity,
    EvaluationMetric,
    ExactMatch,
    LengthRatio,
    Meteor,
    MetricSettings,
    Novelty,
    SourceLengthRatio,
    TopicCoverage,
    build_metric,
)
from wean_fairseq.evaluation.metrics.embeddings import Tokens, greedy_f1
from wean_fairseq.evaluation.tokenizers import get_tokenizer, guess_tokenization
from wean_fairseq.optional import hide_broken_torchaudio


def corpus(metric: EvaluationMetric, outputs: list[str], references: list[str], sources: list[str]) -> float:
    metric.sources = sources
    return metric.corpus_score(outputs, [references]).score


def test_copy_rate() -> None:
    """One of the two outputs is a copy of its source, except for case."""
    assert corpus(CopyRate(), ["A b .", "a c"], ["x", "x"], ["a B .", "a b"]) == 50


def test_length_ratios() -> None:
    """The expected ratios use outputs of 2 + 3 tokens, references of 4 + 1 and sources of 5 + 5."""
    outputs, references, sources = ["a b", "c d e"], ["a b c d", "e"], ["v w x y z"] * 2
    assert corpus(LengthRatio(), outputs, references, sources) == 1.0
    assert corpus(SourceLengthRatio(), outputs, references, sources) == 0.5


def test_length_ratio_takes_the_closest_reference() -> None:
    """For length 3, the references 2 and 4 are equally close, so the shorter counts, as in BLEU. 4 is closer than 1."""
    assert LengthRatio().sentence_score("a b c", ["a b c d", "a b"]).score == 1.5
    assert LengthRatio().sentence_score("a b c", ["a", "a b c d"]).score == 0.75


def test_novelty() -> None:
    """The output a a b c of source a b has 2 of 4 new words (a second a, and c), and 2 of 3 new bigrams (aa, bc)."""
    assert corpus(Novelty(order=1), ["a a b c"], ["x"], ["a b"]) == 50
    assert corpus(Novelty(order=2), ["a a b c"], ["x"], ["a b"]) == pytest.approx(100 * 2 / 3)


def test_diversity_is_per_essay() -> None:
    """By PC-SAN's eq. 14, the essays have 2/4 and 1/1, so the mean is 3/4. An empty essay counts as 0."""
    assert Diversity().corpus_score(["a b a b", "a"], [["", ""]]).score == 75
    assert Diversity().corpus_score(["a b a b", ""], [["", ""]]).score == 25


def test_distinct_is_over_the_corpus() -> None:
    """The words a b a / a c have 3 different of 5, and the bigrams ab, ba / ac 3 of 3. Sentences have 2/3 and 2/2."""
    metric = Distinct(order=1)
    for _ in range(2):  # no state is kept from one corpus to the next
        assert metric.corpus_score(["a b a", "a c"], [["", ""]]).score == 60
    assert Distinct(order=2).corpus_score(["a b a", "a c"], [["", ""]]).score == 100
    metric.prepare([["", ""]])
    assert metric.sentence_scores(metric.rows(["a b a", "a c"])) == pytest.approx([200 / 3, 100])


def test_exact_at_k() -> None:
    """With n-best lists, the first input is solved at rank 2, the second at rank 1, and the third never."""
    nbest, references = ["x\na b\ny", "c\nd", "e\nf"], [["a  b", "c", "g"]]
    assert ExactMatch(k=1).corpus_score(nbest, references).score == pytest.approx(100 / 3)
    assert ExactMatch(k=2).corpus_score(nbest, references).score == pytest.approx(200 / 3)


def test_topic_coverage() -> None:
    """1 of 2 topics and 1 of 1 topic occur, so the coverage is 2 of 3.

    An English topic must be a whole word, but a Chinese topic may occur inside the text.
    """
    outputs, sources = ["a Cat sat", "cats"], ["cat dog", "cats"]
    assert corpus(TopicCoverage(), outputs, ["", ""], sources) == pytest.approx(200 / 3)
    assert corpus(TopicCoverage(), ["cats"], [""], ["cat"]) == 0
    for tokenize in ("none", "zh", "char"):
        assert corpus(TopicCoverage(tokenize=tokenize), ["谈 人际 交往"], [""], ["人际交往 法律"]) == 50


def test_meteor_exact_stem_by_hand() -> None:
    """All 3 words of "the cats sat" match the reference "the cat sat down" in one chunk (cats by its stem).

    P = 1, R = 3/4, F = P R / (0.9 P + 0.1 R) = 0.75 / 0.975, penalty = 0.5 * (1/3)^3.
    """
    pytest.importorskip("nltk")
    score = Meteor().sentence_score("the cats sat", ["the cat sat down"]).score
    assert score == pytest.approx(100 * (0.75 / 0.975) * (1 - 0.5 / 27))
    assert "modules:exact+stem" in _signature(Meteor())


def _signature(metric: EvaluationMetric) -> str:
    metric.prepare([["a"]])
    return metric.get_signature().format()


def test_meteor_without_nltk_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nltk", None)
    with pytest.raises(UserError, match=r"nltk, which is not installed: pip install 'wean-fairseq\[meteor\]'"):
        Meteor()


def test_meteor_with_synonyms_needs_wordnet(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pytest.importorskip("nltk.data")
    monkeypatch.setattr(data, "path", [])
    with pytest.raises(UserError, match="set NLTK_DATA to a copy or use meteor-exact-stem"):
        Meteor("METEOR", synonyms=True)


class _Lemma:
    def __init__(self, name: str) -> None:
        self.name = lambda: name


class _Synset:
    def __init__(self, *names: str) -> None:
        self.lemmas = lambda: [_Lemma(name) for name in names]


class _WordNet:
    """WordNet with a single set of synonyms."""

    ensure_loaded = staticmethod(lambda: None)
    get_version = staticmethod(lambda: "3.0")

    def synsets(self, word: str) -> list[_Synset]:
        return [_Synset("car", "auto")] if word in ("car", "auto") else []


def test_meteor_with_synonyms_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both words of "the car" match the reference "the auto" in one chunk, so F = 1, penalty 0.5 * (1/2)^3 = 1/16."""
    pytest.importorskip("nltk")
    monkeypatch.setattr("nltk.corpus.wordnet", _WordNet())
    metric = Meteor("METEOR", synonyms=True)
    assert metric.sentence_score("the car", ["the auto"]).score == pytest.approx(100 * 15 / 16)
    assert Meteor().sentence_score("the car", ["the auto"]).score < 50
    assert "modules:exact+stem+wordnet|alpha:0.9|beta:3|gamma:0.5|wordnet:3.0|nltk:" in _signature(metric)


def test_meteor_with_half_a_wordnet_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nltk")
    wordnet = _WordNet()
    wordnet.ensure_loaded = _incomplete
    monkeypatch.setattr("nltk.corpus.wordnet", wordnet)
    with pytest.raises(UserError, match=r"cannot read WordNet .*\(No such file\); put a complete copy"):
        Meteor("METEOR", synonyms=True)


def _incomplete() -> None:
    raise OSError("No such file")


def test_bertscore_needs_a_folder() -> None:
    with pytest.raises(UserError, match="give it with --bert-model FOLDER"):
        build_metric("bertscore", MetricSettings())


def tiny_bert(folder: Path) -> list[str]:
    """Save an untrained BERT of a few words, without a tokenizer. Return its vocabulary."""
    transformers = pytest.importorskip("transformers")
    hide_broken_torchaudio()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=6, num_hidden_layers=2, num_attention_heads=3, intermediate_size=7
    )
    transformers.BertModel(config).save_pretrained(folder)
    return words


def test_bertscore_with_a_tiny_local_model(tmp_path: Path) -> None:
    """Test that equal text has 100, empty text 0, order and batches do not matter, and no file is downloaded."""
    words = tiny_bert(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}', encoding="utf-8")
    metric = build_metric("bertscore", MetricSettings(bert_model=str(tmp_path)))
    assert metric.corpus_score(["a b c", "c"], [["a b c", "c"]]).score == pytest.approx(100)
    assert metric.sentence_score("", ["a b"]).score == 0
    both = metric.sentence_score("a b", ["c c", "b a c"]).score
    assert both == metric.sentence_score("a b", ["b a c", "c c"]).score
    assert 0 < both < 100
    assert f"model:{tmp_path.name}|" in metric.get_signature().format()


def test_bertscore_refuses_a_model_without_its_tokenizer(tmp_path: Path) -> None:
    """Test a missing tokenizer, for which transformers would create one without words, so that all texts are equal."""
    tiny_bert(tmp_path)
    with pytest.raises(UserError, match="its tokenizer knows 5 pieces, but the vocab_size is 13"):
        build_metric("bertscore", MetricSettings(bert_model=str(tmp_path)))


def test_greedy_matching_by_hand() -> None:
    """The unit vectors e1, e2 have precision (1 + 0)/2 and recall 1 against e1, so F1 = 2/3 (BERTScore eqs. 1, 2).

    A token may match a special token of the other text, but special tokens themselves need no match.
    """
    words = np.array([True, True])
    assert greedy_f1(Tokens(np.eye(2), words), Tokens(np.eye(2)[:1], words[:1])) == pytest.approx(2 / 3)
    assert greedy_f1(Tokens(np.eye(2), words), Tokens(np.eye(2), np.array([True, False]))) == 1
    assert greedy_f1(Tokens(np.eye(2)[:1], words[:1]), Tokens(np.eye(2), np.array([True, False]))) == 1
    assert greedy_f1(Tokens(np.eye(2), np.array([False, False])), Tokens(np.eye(2), words)) == 0


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["What is the best book ?"], "13a"),
        (["今天天气很好，我们出去玩。"], "zh"),
        (["今天 天气 很 好 ， 我们 出去 玩 。"], "none"),
        (["", "123"], "13a"),
        (["用iPhone拍照片很方便"], "zh"),
    ],
)
def test_tokenisation_is_guessed_from_the_script(lines: list[str], expected: str) -> None:
    assert guess_tokenization(lines) == expected


def test_unknown_names_list_the_choices() -> None:
    with pytest.raises(UserError, match="unknown metric 'blue'; choose from bleu, bleu2"):
        build_metric("blue", MetricSettings())
    with pytest.raises(UserError, match="unknown tokenisation 'spm'; choose one of 13a, zh"):
        get_tokenizer("spm")


def test_source_metrics_say_that_they_need_the_source() -> None:
    for name in METRICS:
        if (
            name in ("meteor", "bertscore", "bleu-nltk")
            or "similarity" in name
            or not build_metric(name, MetricSettings(), "x").needs_source
        ):
            continue
        with pytest.raises(UserError, match="give the source sentences"):
            build_metric(name, MetricSettings()).corpus_score(["a"], [["a"]])
