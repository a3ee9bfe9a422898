"""Test similarity by a sentence encoder, BERTScore's layer, PINC, Levenshtein similarity and the rows of --lead."""

import json
import math
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from tests.bert_directory import write_bert
from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.cli import main
from wean_fairseq.evaluation.corpus import lead_rows
from wean_fairseq.evaluation.metrics.registry import MetricSettings, build_metric

OUTPUTS = ["a b c", "d", "b b e a d c f"]
REFERENCES = ["b c a", "e f", "a b"]
SOURCES = ["a c", "d", "f e d c b a"]
BIAS = "bert.encoder.layer.1.output.dense.bias"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small untrained BERT."""
    pytest.importorskip("transformers")
    return write_bert(tmp_path_factory.mktemp("encoder") / "bert", list("abcdef"))


def states(folder: Path, text: str, layer: int) -> np.ndarray:
    """Return the hidden states of one text, computed alone and without padding, shape (tokens, dimension)."""
    import torch
    import transformers

    pieces = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        hidden = model(**pieces(text, return_tensors="pt"), output_hidden_states=True).hidden_states
    return hidden[layer][0].numpy()


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    """Return the cosine of two vectors."""
    return float(first @ second / np.sqrt((first @ first) * (second @ second)))


@pytest.mark.parametrize(("name", "others"), [("similarity-reference", REFERENCES), ("similarity-source", SOURCES)])
def test_similarity_is_the_cosine_of_mean_states(encoder: Path, name: str, others: list[str]) -> None:
    """The oracle takes the mean over all tokens of one text, [CLS] and [SEP] included, in plain loops."""
    metric = build_metric(name, MetricSettings(sentence_model=str(encoder)))
    metric.sources = SOURCES
    metric.prepare([REFERENCES])
    found = metric.sentence_scores(metric.rows(OUTPUTS))
    expected = [
        100 * cosine(states(encoder, output, -1).mean(axis=0), states(encoder, other, -1).mean(axis=0))
        for output, other in zip(OUTPUTS, others, strict=True)
    ]
    assert found == pytest.approx(expected, abs=1e-3)


def test_the_best_reference_counts_and_empty_outputs_have_no_similarity(encoder: Path) -> None:
    metric = build_metric("similarity-reference", MetricSettings(sentence_model=str(encoder)))
    assert metric.sentence_score("a b", ["c d e", "a b"]).score == pytest.approx(100)
    of_source = build_metric("similarity-source", MetricSettings(sentence_model=str(encoder)))
    other = metric.sentence_score("a b", ["c d e"]).score
    assert of_source.sentence_score("a b", ["a b"], "c d e").score == pytest.approx(other) != pytest.approx(100)
    assert metric.sentence_score("", ["a b"]).score == 0
    assert "|pool:mean|" in metric.get_signature().format()


@pytest.mark.parametrize("layer", [-1, 0, 2])
def test_bertscore_matches_with_special_tokens(encoder: Path, layer: int) -> None:
    """The expected values come from loops over the tokens of one text at a time.

    The first and the last token are special.
    """
    metric = build_metric("bertscore", MetricSettings(bert_model=str(encoder), bert_layer=layer))
    for output, reference in product(OUTPUTS, REFERENCES):
        ours, theirs = states(encoder, output, layer), states(encoder, reference, layer)
        precision = np.mean([max(cosine(token, other) for other in theirs) for token in ours[1:-1]])
        recall = np.mean([max(cosine(token, other) for other in ours) for token in theirs[1:-1]])
        expected = 200 * precision * recall / (precision + recall)
        assert metric.sentence_score(output, [reference]).score == pytest.approx(expected, abs=1e-3)


def rewrite_weights(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Replace the weights of a model by changed ones."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def overlap(folder: Path) -> None:
    """Let all tensors claim the same bytes."""
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(re.sub(rb'"data_offsets":\[\d+', b'"data_offsets":[0', content))


def infinite(weights: dict[str, Any]) -> None:
    weights[BIAS].fill_(math.inf)


def change_tokenizer(folder: Path, **changes: object) -> None:
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def renumber(file: Path) -> None:
    """Give a word piece an id for which the embedding has no row."""
    content = json.loads(file.read_text(encoding="utf-8"))
    content["model"]["vocab"]["a"] = 999
    file.write_text(json.dumps(content), encoding="utf-8")


def score(kind: str, settings: MetricSettings) -> None:
    metric = build_metric(kind, settings)
    metric.prepare([REFERENCES])
    metric.rows(OUTPUTS)


@pytest.mark.parametrize("kind", ["bertscore", "similarity-reference"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (overlap, r"^the model in \S*bert cannot be loaded: "),
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), r"^the model in \S*bert cannot be loaded: "),
        (
            lambda folder: (folder / "config.json").unlink(),
            r"^\S*bert has no config.json: give --(bert|sentence)-model a",
        ),
        (
            lambda folder: (folder / "tokenizer.json").write_bytes(bytes(1 << 27)),
            r"^\S*tokenizer.json cannot be read .File too large.: give --(bert|sentence)-model ",
        ),
        (
            lambda folder: rewrite_weights(folder, lambda own: own.pop("bert.encoder.layer.1.output.dense.bias")),
            "missing",
        ),
        (
            lambda folder: change_tokenizer(folder, pad_token=None),
            "cannot be loaded: Asking to pad",
        ),
        (
            lambda folder: change_tokenizer(folder, model_input_names=["input_ids"]),
            "its tokenizer marks no padding",
        ),
        (
            lambda folder: renumber(folder / "tokenizer.json"),
            "its tokenizer has a piece 999, but the vocab_size is 11",
        ),
        (lambda folder: rewrite_weights(folder, infinite), "the outputs of the model are not finite numbers"),
    ],
)
def test_damaged_models_give_one_sentence_and_no_score(
    tmp_path: Path, kind: str, damage: Callable[[Path], object], message: str
) -> None:
    copy = write_bert(tmp_path / "bert", list("abcdef"))
    damage(copy)
    settings = MetricSettings(bert_model=str(copy), sentence_model=str(copy))
    with pytest.raises(UserError, match=message) as caught:
        score(kind, settings)
    assert "\n" not in str(caught.value)


def test_metrics_of_one_folder_load_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wean_fairseq.data import bert_features

    loaded = []
    load = bert_features.load_transformer
    monkeypatch.setattr(bert_features, "load_transformer", lambda path: [loaded.append(path), load(path)][1])
    folder = str(write_bert(tmp_path / "bert", list("abcdef")))
    for kind in ("bertscore", "similarity-reference", "similarity-source", "bertscore"):
        build_metric(kind, MetricSettings(bert_model=folder, sentence_model=folder))
    assert loaded == [folder]


@pytest.mark.parametrize("kind", ["bertscore", "similarity-reference"])
def test_outputs_for_padding_may_be_infinite(encoder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The expected value is the score with the finite outputs that the model has for padding."""
    metric, changed = (
        build_metric(kind, MetricSettings(bert_model=str(encoder), sentence_model=str(encoder))) for _ in range(2)
    )
    model = metric._model

    def forward(attention_mask: Any, **inputs: Any) -> Any:
        outputs = model(attention_mask=attention_mask, **inputs)
        for states in outputs.hidden_states:
            states[attention_mask == 0] = math.nan
        return outputs

    monkeypatch.setattr(changed, "_model", forward)
    expected, found = (one.corpus_score(OUTPUTS, [REFERENCES]).score for one in (metric, changed))
    assert found == pytest.approx(expected)


def change_config(folder: Path, **changes: object) -> None:
    """Change members of the config.json of a model."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")


@pytest.mark.parametrize("kind", ["bertscore", "similarity-reference"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt2", "n_layer": 10**9}, "Invalid enum value 'gpt2'"),
        ({"model_type": "t5", "d_model": 10**9}, "Invalid enum value 't5'"),
        ({"model_type": "longformer", "attention_window": [10**9] * 3}, "Invalid enum value 'longformer'"),
        ({"model_type": "xmod", "languages": ["a"] * 10**5}, "Invalid enum value 'xmod'"),
        ({"model_type": "distilbert", "n_layers": 10**9}, r"Expected `int` <= 1000 - at `\$.n_layers`"),
        ({"model_type": "albert", "num_hidden_groups": 10**9}, r"Expected `int` <= 1000 - at `\$.num_hidden_groups`"),
        ({"model_type": "albert", "inner_group_num": 10**9}, r"Expected `int` <= 1000 - at `\$.inner_group_num`"),
        ({"num_hidden_layers": 10**9}, r"Expected `int` <= 1000 - at `\$.num_hidden_layers`"),
        ({"num_labels": 10**9}, r"Expected `int` <= 1000 - at `\$.num_labels`"),
        ({"model_type": None}, r"Expected `str`, got `null` - at `\$.model_type`"),
    ],
)
def test_other_types_of_models_and_endless_ones_are_refused(
    tmp_path: Path, kind: str, changes: dict[str, Any], message: str
) -> None:
    """The names of the types are from the documentation of transformers."""
    change_config(copy := write_bert(tmp_path / "bert", list("abcdef")), **changes)
    types = "albert, bert, camembert, deberta, deberta-v2, distilbert, electra, mpnet, roberta, xlm-roberta"
    with pytest.raises(UserError, match=f"{message}.*; give --[a-z]*-model a model of one of the types {types}.$"):
        score(kind, MetricSettings(bert_model=str(copy), sentence_model=str(copy)))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("albert", "embedding_size"),
        ("bert", "intermediate_size"),
        ("electra", "embedding_size"),
        ("mpnet", "relative_attention_num_buckets"),
    ]
    + [("deberta", "max_relative_positions"), ("deberta-v2", "conv_kernel_size"), ("distilbert", "hidden_dim")]
    + [("roberta", "max_position_embeddings"), ("xlm-roberta", "type_vocab_size"), ("camembert", "vocab_size")],
)
def test_models_that_are_much_larger_than_their_weights_take_no_memory(tmp_path: Path, kind: str, name: str) -> None:
    """Test a config with 10^10 rows of 10 numbers of four bytes, which would take 400 GB."""
    copy = write_bert(tmp_path / "bert", list("abcdef"))
    sizes = {"dim": 10, "n_layers": 3, "n_heads": 2} if kind == "distilbert" else {}
    more = {"relative_attention": True, "position_buckets": -1, "embedding_size": 10}
    change_config(copy, **(sizes | more | {"model_type": kind, name: 10**10}))
    with pytest.raises(
        UserError, match=r"cannot be loaded: its config\.json has [0-9,]{14,} parameters, but its weights"
    ):
        score("bertscore", MetricSettings(bert_model=str(copy)))


@pytest.mark.parametrize(
    "kind",
    "albert bert camembert deberta deberta-v2 distilbert electra mpnet roberta xlm-roberta".split(),
)
def test_every_supported_type_scores_its_own_texts(tmp_path: Path, kind: str) -> None:
    """Test that text is as similar to itself as possible with any weights."""
    import transformers

    copy = write_bert(tmp_path / "bert", list("abcdef"))
    names = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}
    sizes = {"hidden_size": 10, "num_hidden_layers": 2, "num_attention_heads": 2}
    if kind == "distilbert":
        sizes = {names[name]: size for name, size in sizes.items()}
    config = transformers.AutoConfig.for_model(kind, vocab_size=11, max_position_embeddings=24, **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(copy)
    for metric in ("bertscore", "similarity-reference"):
        settings = MetricSettings(bert_model=str(copy), sentence_model=str(copy))
        assert build_metric(metric, settings).corpus_score(["a b c", "d"], [["a b c", "d"]]).score == pytest.approx(100)


def test_models_that_do_not_fit_are_refused(encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give it with --sentence-model FOLDER"):
        build_metric("similarity-reference", MetricSettings(bert_model=str(encoder)))
    with pytest.raises(UserError, match="--bert-layer 4: the model has the layers 0 to 3"):
        build_metric("bertscore", MetricSettings(bert_model=str(encoder), bert_layer=4))
    copy = write_bert(tmp_path / "bert", list("abcdef"))
    (copy / "1_Pooling").mkdir()
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (copy / "1_Pooling/config.json").write_text(json.dumps(pooling), encoding="utf-8")
    with pytest.raises(UserError, match="the model pools by pooling_mode_cls_token; give one with pooling_mode_mean"):
        build_metric("similarity-reference", MetricSettings(sentence_model=str(copy)))
    (copy / "1_Pooling/config.json").write_text('{"max_seq_length": "x"}', encoding="utf-8")
    with pytest.raises(UserError, match=r"Expected `int \| null`, got `str` - at `\$.max_seq_length`; give a complete"):
        build_metric("similarity-reference", MetricSettings(sentence_model=str(copy)))
    (copy / "1_Pooling/config.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"is not JSON .*; give a complete copy of the model"):
        build_metric("similarity-reference", MetricSettings(sentence_model=str(copy)))


def naive_pinc(output: str, source: str) -> float:
    """Return the PINC of one sentence, computed with lists and loops (Chen and Dolan, 2011, section 4)."""
    shares = []
    for order in (1, 2, 3, 4):
        grams = [" ".join(words[i : i + order]) for words in [output.split()] for i in range(len(words) - order + 1)]
        known = [" ".join(words[i : i + order]) for words in [source.split()] for i in range(len(words) - order + 1)]
        different = sorted(set(grams))
        if different:
            shares.append(1 - len([gram for gram in different if gram in known]) / len(different))
    return 100 * sum(shares) / len(shares) if shares else 0.0


@pytest.mark.parametrize(
    ("output", "source"),
    [("a b c d e", "a b x d e"), ("a b", "a b c d"), ("a a a", "a"), ("x y z w", "a b"), ("", "a b"), ("a b", "")],
)
def test_pinc_by_loops(output: str, source: str) -> None:
    metric = build_metric("pinc", MetricSettings(tokenize="none"))
    assert metric.sentence_score(output, ["r"], source).score == pytest.approx(naive_pinc(output, source))


def test_pinc_by_hand() -> None:
    """The source has 4 of 5 words, 2 of 4 bigrams and no longer n-gram, so PINC is (1/5 + 1/2 + 1 + 1) / 4."""
    metric = build_metric("pinc", MetricSettings(tokenize="none"))
    assert metric.sentence_score("a b q d e", ["r"], "a b x d e").score == pytest.approx(100 * 2.7 / 4)
    assert metric.sentence_score("A b", ["r"], "a B").score == 0  # case is ignored


def naive_ratio(first: str, second: str) -> float:
    """Return 1 - edits / characters, where a substitution costs 2, from the usual table."""
    table = [[i + j for j in range(len(second) + 1)] for i in range(len(first) + 1)]
    for i, j in product(range(1, len(first) + 1), range(1, len(second) + 1)):
        change = table[i - 1][j - 1] + 2 * (first[i - 1] != second[j - 1])
        table[i][j] = min(change, table[i - 1][j] + 1, table[i][j - 1] + 1)
    return 1 - table[-1][-1] / (len(first) + len(second))


@pytest.mark.parametrize(
    ("output", "source"), [("kitten", "sitting"), ("a cat sat", "the cat is sitting"), ("", "abc"), ("same", "same")]
)
def test_levenshtein_similarity_by_the_table(output: str, source: str) -> None:
    """For kitten and sitting, Levenshtein.ratio of the package Levenshtein 0.27.5 also gives 0.6153846."""
    metric = build_metric("levenshtein", MetricSettings())
    assert metric.sentence_score(output, ["r"], source).score == pytest.approx(naive_ratio(output, source))
    assert naive_ratio("kitten", "sitting") == pytest.approx(0.6153846)


def test_levenshtein_similarity_of_empty_texts_is_that_of_equal_ones() -> None:
    assert build_metric("levenshtein", MetricSettings()).sentence_score("", ["r"], "").score == 1


def test_ibleu_with_less_reward_for_copies() -> None:
    """A copy of the source that also equals the reference has 0.7 * 100 - 0.3 * 100 = 40."""
    metric = build_metric("ibleu-0.7", MetricSettings(alpha=0.9))
    assert metric.sentence_score("a b c d", ["a b c d"], "a b c d").score == pytest.approx(40)
    assert "alpha:0.7" in metric.get_signature().format()


@pytest.mark.parametrize(
    ("source", "length", "characters", "expected"),
    [
        ("the quick  brown fox", 3, False, "the quick  brown"),
        ("one two", 5, False, "one two"),
        ("  a b", 1, False, "a"),
        ("", 2, False, ""),
        ("今天 天气好", 3, True, "今天 天"),
        ("今天", 9, True, "今天"),
    ],
)
def test_the_beginning_of_a_source(source: str, length: int, characters: bool, expected: str) -> None:
    (row,) = lead_rows([source], [length], characters)
    assert (row.name, row.hypotheses) == (f"lead-{length}", [expected])


def test_lead_rows_are_scored_beside_the_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """lead-2 equals the reference, so its score is 100. Systems are compared with each other, but not with the lead."""
    lines = {"src": "a b c d\ne f g h\n", "ref": "a b\ne f\n", "x": "a c\ne f\n", "y": "a b\ng h\n"}
    for name, text in lines.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = ["--hyp", f"X={tmp_path}/x", f"Y={tmp_path}/y", "--ref", f"{tmp_path}/ref", "--resamples", "20"]
    options = [*files, "--metric", "rouge-1", "--lead", "2", "3", "2", "--json", f"{tmp_path}/json", "--trials", "20"]
    assert main([*options, "--src", f"{tmp_path}/src", "--all-pairs"]) == 0
    result = json.loads((tmp_path / "json").read_text(encoding="utf-8"))
    assert list(result["systems"]) == ["copy-source", "lead-2", "lead-3", "X", "Y"]
    assert result["systems"]["lead-2"]["rouge-1"]["score"] == 100
    assert [(test["baseline"], test["system"]) for test in result["pairwise"]] == [("X", "Y")]
    assert "lead-2 beats X on rouge-1 (100.00 > 75.00)" in capsys.readouterr().out
    assert main([*options, "--overwrite"]) == 2
    assert "--lead takes the beginning of the source; give the source with --src" in capsys.readouterr().err
    alone = ["--ref", f"{tmp_path}/ref", "--src", f"{tmp_path}/src", "--metric", "rouge-1", "--lead", "2"]
    assert main(alone) == 0
    assert "lead-2 100.00" in " ".join(capsys.readouterr().out.split())
    assert main(["--hyp", f"lead-4={tmp_path}/x", "--ref", f"{tmp_path}/ref"]) == 2
    assert "'lead-4' is the name of a row made from the source" in capsys.readouterr().err
