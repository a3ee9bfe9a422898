"""Test ``pc_san`` with the checks that all models share for every arch and option, and test its equations.

BERT's states are made up: each topic word has the same (L, H) numbers at every position.
"""

from argparse import Namespace
from typing import Any, ClassVar

import pytest
import torch

from tests import model_contract
from tests.model_contract import EOS, PAD, ModelContract, build_model, collate, log_probs, make_batch, make_task
from tests.reference import pc_san as reference
from tests.reference.transformer import lively
from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.layer_mixture import load_mixture

LAYERS, WIDTH = 3, 6  # the layers and the width of BERT
TINY = {"embed_dim": 6, "ffn_dim": 10, "attention_heads": 3, "decoder_layers": 2}
DEFAULTS = {
    "bert_layers": "dynamic",
    "bert_mix": "softmax",
    "topic_fuse": "feature",
    "context": "target",
    "context_inclusive": False,
}
# The variants are all options of section 6.5 and all readings of eq. 2, 3, 8 and 9, as changes to the full model.
VARIANTS: dict[str, dict[str, Any]] = {
    "full model": {},
    "free mixture": {"bert_mix": "free"},
    "wide keys": {"topic_fuse": "kv1536"},
    "in sequence": {"topic_fuse": "sequence"},
    "static": {"bert_layers": "static"},
    "static, free": {"bert_layers": "static", "bert_mix": "free"},
    "last": {"bert_layers": "last"},
    "last, in sequence": {"bert_layers": "last", "topic_fuse": "sequence"},
    "no BERT": {"bert_layers": "none"},
    "source context": {"context": "source"},
    "source context, wide keys": {"context": "source", "topic_fuse": "kv1536"},
    "source context, in sequence": {"context": "source", "topic_fuse": "sequence"},
    "no context": {"context": "none"},
    "inclusive": {"context_inclusive": True},
}


def bert(**changed: Any) -> Namespace:
    return Namespace(**{"num_layers": LAYERS, "dim": WIDTH, "digest": "5a" * 32, "path": "some/bert"} | changed)


def essay_task(**changed: Any) -> Namespace:
    """Return a simple task with the BERT settings that ``topic_essay --bert`` has."""
    return Namespace(**vars(make_task()), bert=bert(**changed))


def features(src_tokens: torch.Tensor) -> torch.Tensor:
    """Return made-up states (B, S, L, H) of the topics, which are 0 at padding and end symbols."""
    table = torch.randn(23, LAYERS, WIDTH, generator=torch.Generator().manual_seed(2))
    table[[PAD, EOS]] = 0.0
    return table[src_tokens]


def build_with_features(arch: str, task: Namespace | None = None, seed: int = 11, **options: Any) -> torch.nn.Module:
    """Build a model whose encoder uses made-up states if its caller passes none."""

    def complete(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = dict(zip(("src_tokens", "src_lengths", "bert_features"), args, strict=False)) | kwargs
        if given.get("bert_features") is None:
            given["bert_features"] = features(given["src_tokens"])
        return (), given

    model = build_model(arch, task or essay_task(), seed, **options)
    model.encoder.register_forward_pre_hook(complete, with_kwargs=True)
    return model


def build(**options: Any) -> torch.nn.Module:
    return build_with_features("pc_san", **TINY | options)


class TestPcSanContract(ModelContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "pc_san_small": ("pc_san_small", TINY | {"decoder_layers": 3}),
        **{name: ("pc_san", TINY | options) for name, options in VARIANTS.items()},
    }

    @pytest.fixture(autouse=True)
    def _features(self, monkeypatch):
        monkeypatch.setattr(model_contract, "build_model", build_with_features)

    @pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
    def test_the_smoothed_loss_is_that_of_fairseq(self, model, label_smoothing):
        from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

        batch = make_batch()
        expected = label_smoothed_nll_loss(
            log_probs(model, batch).flatten(0, 1), batch["target"].flatten(), label_smoothing, ignore_index=PAD
        )
        sums = model(**batch, label_smoothing=label_smoothing)
        torch.testing.assert_close(sums.loss, expected[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(sums.nll_loss, expected[1], rtol=1e-5, atol=1e-5)

    def test_a_word_changes_nothing_before_it(self, model):
        """A changed word changes all later scores and no earlier score."""
        batch = make_batch()
        before = log_probs(lively(model), batch)
        batch["prev_output_tokens"][:, 3] = 4 + (batch["prev_output_tokens"][:, 3] - 3) % 19
        changed = (log_probs(model, batch) != before).any(dim=-1)
        assert not changed[:, :3].any()
        assert changed[:2, 3:].all()


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("left_pad_source", [False, True])
def test_the_probabilities_are_those_of_the_equations(options, left_pad_source):
    """The expected values come from the naive forward pass of ``tests/reference/pc_san.py``."""
    model, batch = lively(build(**options)), make_batch(left_pad_source=left_pad_source)
    named = DEFAULTS | {"decoder_layers": 2} | options
    with torch.no_grad():
        found, extra = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
        for row in range(3):
            previous = batch["prev_output_tokens"][row]
            tokens = batch["src_tokens"][row]
            is_topic = (tokens != PAD) & (tokens != EOS)
            expected, shares = reference.forward(
                model, tokens[is_topic].tolist(), features(tokens)[is_topic], previous[previous != PAD].tolist(), named
            )
            steps = len(expected)
            torch.testing.assert_close(found[row, :steps].exp(), expected, rtol=1e-3, atol=1e-6)
            attention = extra["attn"][0][row, :steps]
            torch.testing.assert_close(attention[:, is_topic], shares, rtol=1e-3, atol=1e-5)
            assert not attention[:, ~is_topic].any()


def shapes(**options: Any) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in build(**options).state_dict().items()}


GATE = ("context_proj.weight", "query_gate.weight", "context_gate.weight")
QUERIES = {f"decoder.network.layers.{layer}.self_attention.query_proj.{name}" for layer in range(2) for name in GATE}
MIX, FUSE = "encoder.bert_states.mixture.", {f"encoder.bert_states.fusion.proj.{name}" for name in ("weight", "bias")}
KEYS = {
    f"decoder.network.layers.{layer}.cross_attention.{name}_proj.weight"
    for layer in range(2)
    for name in ("key", "value")
}


@pytest.mark.parametrize(
    ("name", "missing", "added", "resized"),
    [
        ("static", set(), set(), {MIX + "logits"}),
        ("last", {MIX + "logits"}, set(), set()),
        ("no BERT", {MIX + "logits", "encoder.bert_states.digest", *FUSE}, set(), set()),
        ("free mixture", {MIX + "logits"}, {MIX + "weights"}, set()),
        ("wide keys", FUSE, set(), KEYS),
        ("in sequence", FUSE, set(), set()),
        ("no context", QUERIES, set(), set()),
        ("source context", set(), set(), set()),
        ("inclusive", set(), set(), set()),
    ],
)
def test_an_ablation_differs_in_exactly_its_parameters(name, missing, added, resized):
    full, ablated = shapes(), shapes(**VARIANTS[name])
    assert full.keys() - ablated.keys() == missing
    assert ablated.keys() - full.keys() == added
    assert {key for key in full.keys() & ablated.keys() if full[key] != ablated[key]} == resized


def test_mixtures_have_one_row_for_each_decoder_layer_or_one_for_all():
    assert shapes(decoder_layers=4)[MIX + "logits"] == (4, LAYERS)
    assert shapes(decoder_layers=4, bert_layers="static")[MIX + "logits"] == (1, LAYERS)


def test_each_decoder_layer_reads_its_own_mixture():
    """A change to mixture j changes only the input of the cross-attention of layer j."""
    model, batch = lively(build(decoder_layers=3)), make_batch()
    heard: list[torch.Tensor] = []
    for layer in model.decoder.network.layers:
        layer.cross_attention.key_proj.register_forward_hook(lambda _m, args, _out: heard.append(args[0].detach()))
    log_probs(model, batch)
    before, heard[:] = list(heard), []
    with torch.no_grad():
        model.encoder.bert_states.mixture.logits[1] += torch.tensor([1.0, -2.0, 0.5])
    log_probs(model, batch)
    assert [torch.equal(*pair) for pair in zip(before, heard, strict=True)] == [True, False, True]


@pytest.mark.parametrize("options", [{}, {"bert_mix": "free"}, {"bert_layers": "static"}], ids=str)
def test_the_mixtures_of_a_checkpoint_can_be_exported(options, tmp_path):
    model = lively(build(**options))
    torch.save({"model": model.state_dict()}, tmp_path / "checkpoint.pt")
    exported = load_mixture(str(tmp_path / "checkpoint.pt"))
    torch.testing.assert_close(exported, model.encoder.bert_states.mixture.alphas().detach())


def test_bert_is_in_no_checkpoint_but_for_its_digest():
    state = build().state_dict()
    assert [name for name, value in state.items() if not value.is_floating_point()] == ["encoder.bert_states.digest"]
    assert bytes(state["encoder.bert_states.digest"].tolist()).hex() == "5a" * 32
    own = {"encoder.words.weight", "encoder.bert_states.digest", MIX + "logits", *FUSE}
    assert {name for name in state if name.startswith("encoder.")} == own


def test_dropout_falls_on_what_the_decoder_reads():
    """Dropout removes a quarter of the units in topic vectors and in states, and scales the rest by 4 / 3."""
    model, tokens = build(embed_dim=300, topic_fuse="kv1536", dropout=0.25), make_batch()["src_tokens"]
    kept = model.encoder(tokens)["encoder_out"]
    torch.manual_seed(1)
    dropped = model.train().encoder(tokens)["encoder_out"]
    there = kept.ne(0)
    assert 0.2 < dropped[there].eq(0).float().mean() < 0.3
    torch.testing.assert_close(dropped[dropped.ne(0)], kept[dropped.ne(0)] / 0.75)


def test_another_bert_is_refused_at_load():
    state = build().state_dict()
    other = build_model("pc_san", essay_task(digest="0f" * 32, path="other/bert"), **TINY)
    with pytest.raises(UserError, match=r"SHA-256 5a5a5a5a5a5a, but that of other/bert is 0f0f0f0f0f0f: give --bert"):
        other.load_state_dict(state)
    build_model("pc_san", essay_task(path="moved/bert"), **TINY).load_state_dict(state)


def test_the_digest_survives_half_precision_and_an_average_of_checkpoints():
    """fairseq's script sums tensors and divides with integer division, so a sum of 20 bytes must not overflow."""
    digest = build().state_dict()["encoder.bert_states.digest"]
    half = build().half().state_dict()["encoder.bert_states.digest"]
    assert torch.equal(sum(half.clone() for _ in range(20)) // 20, digest)


def test_the_end_symbol_is_no_topic():
    """A second end symbol does not change a sentence."""
    model = lively(build())
    once = collate([torch.tensor([5, 6, EOS])], [torch.tensor([7, 8, EOS])])
    twice = once | {"src_tokens": torch.tensor([[5, 6, EOS, EOS]])}
    torch.testing.assert_close(log_probs(model, once), log_probs(model, twice))


def test_topics_are_a_set():
    """The made-up states do not depend on the order of the topics. Real BERT states do."""
    model = lively(build())
    there = collate([torch.tensor([5, 6, 9, EOS])], [torch.tensor([7, 8, EOS])])
    back = there | {"src_tokens": there["src_tokens"][:, [2, 0, 1, 3]]}
    torch.testing.assert_close(log_probs(model, there), log_probs(model, back), rtol=1e-4, atol=1e-5)


def test_one_embedding_for_topics_essay_and_scores():
    model = build()
    states = torch.randn(1, 2, 6)
    words = model.decoder.network.embedding.words.weight
    torch.testing.assert_close(model.decoder.output.scores(states, model.decoder.word_embeddings), states @ words.t())
    assert model.encoder.words is model.decoder.network.embedding.words
    assert sum(p.shape == (23, 6) for p in model.parameters()) == 1


def test_topics_and_essays_may_have_dictionaries_of_their_own():
    task = essay_task()
    task.source_dictionary = model_contract.make_dictionary(5)
    model = build_with_features("pc_san", task, **TINY)
    assert (model.encoder.words.num_embeddings, model.decoder.network.embedding.words.num_embeddings) == (9, 23)
    batch = make_batch(dictionary_size=9)
    batch["target"][:] = 20
    assert torch.isfinite(model(**batch).loss)


def test_the_defaults_are_those_of_the_paper():
    """The expected values are in spec 6.2 and 6.3.

    The parameters are counted by hand for d = 768, F = 3072, L = 12, V = 23 and one embedding.
    """
    model = build_model("pc_san", essay_task(num_layers=12, dim=768))
    d, inner, words = 768, 3072, 23
    attention, norm, feed_forward = 4 * (d * d + d), 2 * d, d * inner + inner + inner * d + d
    layers = 6 * (2 * attention + d * d + 2 * d + feed_forward + 3 * norm)
    topics = 6 * 12 + 2 * d * d + d
    assert sum(p.numel() for p in model.parameters()) == words * d + layers + topics
    attentions = [module for module in model.modules() if hasattr(module, "query_proj")]
    assert [(module.heads, module.dropout) for module in attentions] == [(8, 0.1)] * 12
    assert {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)} == {0.1}
    assert model.max_positions()[1] == 512


def test_a_flag_wins_over_its_preset():
    model = build_model("pc_san_small", essay_task(), decoder_layers=3)
    assert len(model.decoder.network.layers) == 3
    assert model.encoder.words.embedding_dim == 128


def test_maps_start_from_glorots_bound_and_words_with_length_one():
    """Words start at N(0, 1 / D) with length 1, maps within Glorot's bound, and padding and biases at 0."""
    model = build_model("pc_san_small", essay_task())
    for words in (model.encoder.words, model.decoder.network.embedding.words):
        assert 0.8 < words.weight[2:].norm(dim=1).mean() < 1.2
        assert not words.weight[PAD].any()
    inner = model.decoder.network.layers[0].feed_forward[0]
    bound = (6 / (128 + 512)) ** 0.5
    assert 0.95 * bound < inner.weight.abs().max() <= bound
    assert not inner.bias.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention_heads": 4}, "there are 4 heads and 6 units"),
        ({"decoder_layers": 0}, "--decoder-layers must be 1 or more, but is 0"),
        ({"topic_fuse": "sequence", "embed_dim": 9}, "they have 9 and 6 units"),
        ({"context": "none", "context_inclusive": True}, "--context-inclusive belongs to --context target"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        build(**options)


def test_a_task_without_bert_is_refused_and_not_needed_for_topic_vectors_alone():
    for task in (make_task(), Namespace(**vars(make_task()), bert=None)):
        with pytest.raises(
            UserError, match=r"the task has no BERT: give --task topic_essay --bert .* --bert-layers none"
        ):
            build_model("pc_san", task, **TINY)
        assert build_model("pc_san", task, **TINY, bert_layers="none").encoder.bert_states is None


def test_a_batch_without_states_is_refused():
    with pytest.raises(UserError, match="the data has none: give --bert"):
        build_model("pc_san", essay_task(), **TINY)(**make_batch())


def test_padding_the_target_on_the_left_is_refused():
    task = Namespace(**vars(make_task(left_pad_target=True)), bert=bert())
    with pytest.raises(UserError, match="do not use --left-pad-target"):
        build_model("pc_san", task, **TINY)


def test_an_essay_longer_than_the_positions_is_refused():
    batch = make_batch()
    with pytest.raises(UserError, match=r"a sentence has 7 tokens, .* at most 6"):
        build(max_positions=6)(**batch)


def test_topic_vectors_start_the_topic_embedding_and_are_trained(tmp_path):
    """Words that the file lacks keep their random initialisation."""
    path = tmp_path / "vectors.txt"
    path.write_text("2 6\nw1 1 2 3 4 5 6\nw3 -1 0 0 0 0 0.5\n", encoding="utf-8")
    plain, started = (build(topic_vectors=vectors).encoder.words.weight for vectors in (None, str(path)))
    rows = [5, 7]  # w1 and w3, because the four special symbols precede w0
    torch.testing.assert_close(started[rows], torch.tensor([[1.0, 2, 3, 4, 5, 6], [-1.0, 0, 0, 0, 0, 0.5]]))
    others = [row for row in range(23) if row not in rows]
    assert torch.equal(started[others], plain[others])
    assert started.requires_grad


def test_the_loss_under_autocast_is_close_to_the_one_without():
    """bfloat16 has 8 significant bits, so the tolerance is 2% of the loss."""
    losses = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            losses.append(build()(**make_batch()).loss)
    torch.testing.assert_close(*losses, rtol=0.02, atol=0.0)
