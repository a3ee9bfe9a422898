"""Test ``wean_lstm`` with the checks that all models share, and test its equations, presets and checkpoints."""

from typing import Any, ClassVar

import pytest
import torch

from tests.model_contract import PAD, ModelContract, build_model, log_probs, make_batch, make_dictionary, make_task
from tests.processors import needs_bf16_lstm
from tests.reference import wean_lstm as reference
from wean_fairseq.errors import UserError

TINY = {"embed_dim": 6, "hidden_size": 10}


class TestWeanLstmContract(ModelContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "wean_lstm": ("wean_lstm", TINY),
        "wean_lstm_pwkp": ("wean_lstm_pwkp", TINY),
        "wean_lstm_ew_sew": ("wean_lstm_ew_sew", TINY),
        "wean_lstm_lcsts": ("wean_lstm_lcsts", TINY),
        "seq2seq_lstm": ("seq2seq_lstm", TINY),
        "seq2seq_lstm_lcsts": ("seq2seq_lstm_lcsts", TINY),
        "dot": ("wean_lstm", {"embed_dim": 6, "hidden_size": 6, "query_score": "dot"}),
        "concat": ("wean_lstm", TINY | {"query_score": "concat"}),
        "query bias": ("wean_lstm", TINY | {"query_bias": True}),
        "bidirectional": ("wean_lstm", TINY | {"encoder_bidirectional": True}),
        "small chunks": ("wean_lstm", TINY | {"loss_chunk_size": 2}),
        "more decoder layers": ("wean_lstm", TINY | {"encoder_layers": 1, "decoder_layers": 3, "bridge": "linear"}),
    }


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("wean_lstm", {}),
        ("seq2seq_lstm", {}),
        ("wean_lstm_lcsts", {}),  # the bottom layer of 2 starts the decoder's single layer
        ("wean_lstm", {"encoder_layers": 3, "decoder_layers": 2, "bridge": "top"}),
        ("wean_lstm", {"encoder_layers": 1, "decoder_layers": 2, "bridge": "linear"}),
        ("wean_lstm", {"encoder_bidirectional": True, "query_score": "concat"}),
        ("wean_lstm", {"query_bias": True}),
    ],
)
def test_the_scores_are_those_of_the_equations(arch, options):
    """The expected values come from the naive forward pass of ``tests/reference/wean_lstm.py``."""
    model = build_model(arch, **TINY, **options)
    batch = make_batch()
    with torch.no_grad():
        found, _ = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
        for row in range(3):
            source = batch["src_tokens"][row]
            previous = batch["prev_output_tokens"][row]
            previous = previous[previous != PAD]
            expected = reference.logits(model, source[source != PAD], previous)
            torch.testing.assert_close(found[row, : len(previous)], expected, rtol=1e-4, atol=1e-5)


def test_dropout_falls_on_the_query():
    """A share p of the query's elements is 0 and the others are scaled by 1 / (1 - p)."""
    model = build_model("wean_lstm", **TINY, dropout=0.25, encoder_layers=1, decoder_layers=1).train()
    batch = make_batch()
    encoder_out = model.encoder(batch["src_tokens"])
    model.decoder.dropout.eval()
    plain = model.decoder(batch["prev_output_tokens"], encoder_out)[1]["features"]
    model.decoder.dropout.train()
    torch.manual_seed(0)
    dropped = model.decoder(batch["prev_output_tokens"], encoder_out)[1]["features"]
    kept = dropped != 0
    assert 0.5 < kept.float().mean() < 0.9
    torch.testing.assert_close(dropped[kept], plain[kept] / 0.75)


def test_fairseqs_criterions_get_unk_for_words_that_are_no_candidates():
    model = build_model("wean_lstm", **TINY, num_candidates=5)
    target = torch.tensor([[4, 8, 9, 22, 2, 1]])
    assert model.get_targets({"target": target}, None).tolist() == [[4, 8, 3, 3, 2, 1]]


def test_the_loss_under_autocast_is_close_to_the_one_without():
    """bfloat16 has 8 significant bits, so the tolerances are 2% of the loss and 5% of each gradient norm."""
    needs_bf16_lstm()
    batch = make_batch()
    results = {}
    for enabled in (False, True):
        model = build_model("wean_lstm", **TINY)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = model(**batch).loss
        loss.backward()
        results[enabled] = loss.detach(), [p.grad for p in model.parameters()]
    torch.testing.assert_close(results[True][0], results[False][0], rtol=0.02, atol=0.0)
    for half, full in zip(results[True][1], results[False][1], strict=True):
        assert half.dtype == torch.float32
        assert (half - full).norm() <= 0.05 * full.norm()


def test_the_defaults_are_the_papers_setting_for_pwkp():
    # The spec states 256 units, 2 encoder and 2 decoder layers, and dropout 0.4.
    model = build_model("wean_lstm_pwkp", make_task(make_dictionary()))
    assert model.encoder.embed_tokens.weight.shape == (23, 256)
    assert (model.encoder.lstm.num_layers, model.decoder.lstm.num_layers) == (2, 2)
    assert not model.encoder.lstm.bidirectional
    assert model.encoder.lstm.dropout == model.decoder.lstm.dropout == model.decoder.dropout.p == 0.4
    assert not model.decoder.attention.tanh
    assert model.decoder.bridge.kind == "bottom"


def test_the_lcsts_preset_is_the_papers_setting():
    model = build_model("wean_lstm_lcsts")  # spec: 512 units, 2 / 1 layers, no dropout, tanh in the attention
    assert model.encoder.embed_tokens.embedding_dim == model.encoder.lstm.hidden_size == 512
    assert (model.encoder.lstm.num_layers, model.decoder.lstm.num_layers) == (2, 1)
    assert model.decoder.dropout.p == 0.0
    assert model.decoder.attention.tanh
    assert model.decoder.bridge.kind == "bottom"


def test_a_flag_wins_over_its_preset():
    assert build_model("wean_lstm_lcsts", embed_dim=6, hidden_size=6, dropout=0.3).decoder.dropout.p == 0.3


def test_one_embedding_serves_encoder_decoder_and_output():
    model = build_model("wean_lstm", **TINY)
    assert model.encoder.embed_tokens is model.decoder.embed_tokens
    assert sum(p.shape == (23, 6) for p in model.parameters()) == 1
    with torch.no_grad():  # a large embedding along the query must get the best score
        model.encoder.embed_tokens.weight[7] = 50.0 * model.decoder.output.score.query_proj(torch.ones(10))
        assert model.decoder.output.scores(torch.ones(1, 1, 10), model.decoder.word_embeddings).argmax().item() == 7


def test_detaching_removes_exactly_the_third_source():
    """Words that occur only in targets get no gradient if the output layer is detached."""
    batch = make_batch(dictionary_size=22)
    batch["target"][0, 0] = 22  # a word that is in no input
    assert not (batch["src_tokens"] == 22).any()
    assert not (batch["prev_output_tokens"] == 22).any()
    moved = {}
    for detach in (False, True):
        model = build_model("wean_lstm", **TINY, detach_query_embedding=detach)
        model(**batch).loss.backward()
        moved[detach] = model.encoder.embed_tokens.weight.grad
    assert moved[False][22].any()
    assert not moved[True][22].any()
    read = batch["src_tokens"][0, -2]
    assert moved[True][read].any()


def test_leaking_padding_is_the_releases_behaviour_and_off_by_default():
    """Without the mask, a padded position has the score 0 and gets the weight exp(0) in the softmax."""
    batch = make_batch()
    for leak in (False, True):
        model = build_model("wean_lstm", **TINY, attn_pad_leak=leak)
        _, extra = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
        on_padding = extra["attn"][0].transpose(1, 2)[batch["src_tokens"] == 1]
        assert bool(on_padding.any()) is leak


def test_attention_columns_follow_the_source_as_given():
    """Moving the padding from left to right moves the attention with the words."""
    model = build_model("wean_lstm", **TINY)
    left, right = make_batch(left_pad_source=True), make_batch(left_pad_source=False)
    attention = [model(b["src_tokens"], b["src_lengths"], b["prev_output_tokens"])[1]["attn"][0] for b in (left, right)]
    for row in range(3):
        kept = [a[row][:, b["src_tokens"][row] != 1] for a, b in zip(attention, (left, right), strict=True)]
        torch.testing.assert_close(*kept)


def test_a_bidirectional_encoder_sums_its_directions():
    model = build_model("wean_lstm", **TINY, encoder_layers=1, decoder_layers=1, encoder_bidirectional=True)
    tokens = torch.tensor([[5, 9, 4, 2]])
    out = model.encoder(tokens)
    outputs, (hidden, _) = model.encoder.lstm(model.encoder.embed_tokens(tokens))
    torch.testing.assert_close(out["encoder_out"], outputs[..., :10] + outputs[..., 10:])
    torch.testing.assert_close(out["final_hidden"], hidden[:1] + hidden[1:])


def test_fewer_candidates_at_test_time_renormalise_over_the_prefix():
    full = build_model("wean_lstm", **TINY)
    few = build_model("wean_lstm", **TINY, num_candidates=5)  # 4 special symbols + 5 words
    few.load_state_dict(full.state_dict())
    expected = full(**{k: v for k, v in make_batch().items() if k != "target"})[0][..., :9].log_softmax(-1)
    torch.testing.assert_close(log_probs(few, make_batch())[..., :9], expected)
    assert torch.isneginf(log_probs(few, make_batch())[..., 9:]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query_score": "dot"}, "needs queries as wide as the embeddings, but they are 10 and 6 wide"),
        ({"num_candidates": 20}, "--num-candidates must be at most 19"),
        ({"loss_chunk_size": -5}, "--loss-chunk-size must be 0"),
        ({"bridge": "sideways"}, "--bridge must be one of bottom, top, linear, but is sideways"),
        ({"query_score": "cosine"}, "--query-score must be one of dot, general, concat, linear, but is cosine"),
        ({"decoder_layers": 3}, "there are 2 and 3: use the bridge 'linear'"),
        ({"query_score": "concat", "query_bias": True}, "`bias` belongs to the score 'general'"),
    ],
)
def test_contradictory_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        build_model("wean_lstm", **TINY, **options)


def test_the_longest_output_is_a_number_that_a_search_can_count_to():
    assert isinstance(build_model("wean_lstm", **TINY).max_decoder_positions(), int)


def test_two_dictionaries_are_refused():
    task = make_task()
    task.target_dictionary = make_dictionary(5)
    with pytest.raises(UserError, match="--joined-dictionary"):
        build_model("wean_lstm", task, **TINY)


def test_left_padded_targets_are_refused():
    with pytest.raises(UserError, match="--left-pad-target"):
        build_model("wean_lstm", make_task(left_pad_target=True), **TINY)


@pytest.mark.parametrize("arch", ["wean_lstm", "copynet"])
def test_a_checkpoint_of_an_earlier_version_loads(arch):
    """In earlier versions, the output layer was called ``query_embedding``.

    The order of the parameters must stay the same, because the optimiser's state depends on it.
    """
    model, other = (build_model(arch, embed_dim=6, hidden_size=10, seed=seed) for seed in (1, 2))
    old = {
        name.replace("decoder.output.", "decoder.query_embedding."): value for name, value in model.state_dict().items()
    }
    assert old.keys() != model.state_dict().keys()
    assert "output" in list(model.decoder.state_dict())[-1]
    other.load_state_dict(old)
    assert torch.equal(log_probs(other, make_batch()), log_probs(model, make_batch()))
