"""Test ``nts`` with the checks that all models share, and test its input feeding and its word vectors."""

from typing import Any, ClassVar

import pytest
import torch

import wean_fairseq.models.nts  # noqa: F401 - registers the archs
from tests.model_contract import PAD, ModelContract, build_model, make_batch, make_dictionary, make_task
from tests.reference import nts as reference
from wean_fairseq.errors import UserError

# The initial weights are large, because with weights in +-0.1 and tiny layers every output would be near 0.
TINY = {"embed_dim": 6, "hidden_size": 8, "init_range": 0.7, "local_dim": 0}
LEXICAL = {**TINY, "lexical_dim": 5}


class TestNtsContract(ModelContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "nts": ("nts", TINY),
        "nts_w2v": ("nts_w2v", TINY),
        "enc_dec_a": ("enc_dec_a", TINY),
        "query embedding": ("nts", TINY | {"output_layer": "query_embedding"}),
        "concat": ("nts", TINY | {"output_layer": "query_embedding", "query_score": "concat"}),
        "one layer": ("nts", TINY | {"num_layers": 1}),
        "three layers": ("enc_dec_a", TINY | {"num_layers": 3}),
        "dress_ls": ("dress_ls", LEXICAL),
        "lexical model alone": ("nts", LEXICAL | {"lexical_share": 1.0}),
        "pytorch's start": ("nts", TINY | {"init_range": 0.0}),
    }


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("nts", {}),
        ("enc_dec_a", {}),  # dot attention, and the source is read backwards
        ("nts", {"num_layers": 3, "embed_dim": 9}),
        ("nts", {"reverse_source": True}),
        ("enc_dec_a", {"num_layers": 1, "output_layer": "query_embedding"}),
    ],
)
def test_scores_and_attention_are_those_of_the_paper(arch, options):
    """The expected values come from the naive forward pass of ``tests/reference/nts.py``."""
    model = build_model(arch, **TINY | options)
    batch = make_batch()
    with torch.no_grad():
        found, extra = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
        for row in range(3):
            source, previous = (batch[name][row] for name in ("src_tokens", "prev_output_tokens"))
            words, previous = source != PAD, previous[previous != PAD]
            scores, attention = reference.logits_and_attention(model, source[words], previous)
            torch.testing.assert_close(found[row, : len(previous)], scores, rtol=1e-4, atol=1e-5)
            weights = extra["attn"][0][row, : len(previous)]
            torch.testing.assert_close(weights[:, words], attention, rtol=1e-4, atol=1e-5)
            assert not weights[:, ~words].any()


def test_gradients_are_those_of_the_paper():
    """The oracle is autograd through the naive forward pass and the naive cross entropy of a whole batch."""
    model = build_model("nts", **TINY)
    batch = make_batch()
    model(**batch).loss.backward()
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    loss = torch.zeros(())
    for source, previous, target in zip(batch["src_tokens"], batch["prev_output_tokens"], batch["target"], strict=True):
        scores, _ = reference.logits_and_attention(model, source[source != PAD], previous[previous != PAD])
        loss = loss - scores.log_softmax(-1).gather(1, target[target != PAD].unsqueeze(1)).sum()
    loss.backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-4, atol=1e-5, msg=name)


def features_and_dropouts(model):
    """Return the attentional states of a batch, and the input and output of every dropout of the loop, in order."""
    calls = []
    model.decoder.stack.dropout.register_forward_hook(lambda _module, given, out: calls.append((given[0], out)))
    torch.manual_seed(2)
    batch = make_batch()
    encoder_out = model.encoder(batch["src_tokens"])
    _, extra = model.decoder(batch["prev_output_tokens"], encoder_out)
    return extra["features"], calls


def test_nts_has_dropout_between_layers_and_on_the_state_that_words_are_scored_from():
    """OpenNMT applies no dropout to the words. ``test_input_feeding.py`` tests the states that are fed."""
    model = build_model("nts", **TINY, dropout=0.5).train()
    features, calls = features_and_dropouts(model)
    steps = features.size(1)
    assert len(calls) == 2 * steps  # dropout after layer 1 and on the attentional state
    assert (features == 0).any()
    torch.testing.assert_close(torch.stack([out for _, out in calls[1::2]], dim=1), features)


def test_enc_dec_a_feeds_the_state_before_dropout_and_drops_what_is_read():
    """The release of EncDecA applies dropout three times per step.

    The first one is applied to the previous attentional state, which is fed before its own dropout.
    """
    model = build_model("enc_dec_a", **TINY | {"dropout": 0.5}).train()
    features, calls = features_and_dropouts(model)
    assert len(calls) == 3 * features.size(1)  # dropout on the fed state, after layer 1 and on the attentional state
    fed = [given for given, _ in calls[0::3]]
    attentional = [given for given, _ in calls[2::3]]
    assert not fed[0].any()  # the first step has no previous state, so zeros are fed
    for given, before in zip(fed[1:], attentional, strict=False):
        torch.testing.assert_close(given, before)
    torch.testing.assert_close(torch.stack([out for _, out in calls[2::3]], dim=1), features)
    assert model.encoder.dropout.p == model.decoder.dropout.p == 0.5


def test_the_fed_state_reaches_the_next_step():
    """If the weights of the fed state are 0, the scores of the first step stay the same and the later scores change."""
    model = build_model("nts", **TINY)
    batch = make_batch()
    arguments = (batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
    with torch.no_grad():
        before = model(*arguments)[0]
        model.decoder.stack.lstm.weight_ih_l0[:, 6:] = 0
        after = model(*arguments)[0]
    torch.testing.assert_close(after[:, 0], before[:, 0])
    assert not torch.isclose(after[1, 1:4], before[1, 1:4]).all(dim=-1).any()


def test_the_papers_sizes_and_initialisation():
    model = build_model("nts")  # NTS sec. 2: 2 layers of 500, embeddings 500, dropout 0.3, uniform in [-0.1, 0.1]
    encoder, stack = model.encoder.lstm, model.decoder.stack
    assert (encoder.input_size, encoder.hidden_size, encoder.num_layers) == (500, 500, 2)
    assert (stack.lstm.input_size, stack.lstm.hidden_size, stack.lstm.num_layers) == (1000, 500, 2)
    assert encoder.dropout == stack.dropout.p == 0.3
    assert model.decoder.dropout.p == model.encoder.dropout.p == 0.0
    assert model.encoder.embed_tokens is not model.decoder.embed_tokens
    for parameter in model.parameters():
        assert 0.09 < parameter.abs().max() <= 0.1
    assert not model.decoder.embed_tokens.weight[PAD].any()


def test_enc_dec_a_has_the_releases_sizes():
    model = build_model("enc_dec_a")  # DRESS's encdeca script: 300, 2 layers of 256, dot, dropout 0.2
    assert (model.encoder.lstm.input_size, model.encoder.lstm.hidden_size) == (300, 256)
    assert model.decoder.stack.lstm.input_size == 300 + 256
    assert model.decoder.stack.attention.key_proj is None
    assert model.decoder.stack.dropout.p == 0.2
    assert model.encoder.reverse


# The following tests initialise words with vectors from files.


def write_vectors(path, words, dim, start):
    """Write a file in which the vector of the n-th word is start + n in every dimension, and return its path."""
    path.write_text(
        "".join(f"{word} {' '.join([str(start + number)] * dim)}\n" for number, word in enumerate(words)),
        encoding="utf-8",
    )
    return str(path)


def test_embeddings_start_from_global_and_local_vectors_side_by_side(tmp_path):
    """The ids of w0 to w18 are 4 to 22.

    The global file has vectors for w0 and w1, and the local files have vectors for w1 and w2.
    """
    model = build_model(
        "nts_w2v",
        **TINY | {"local_dim": 2},
        global_vectors=write_vectors(tmp_path / "global", ["w0", "w1"], 4, 10),
        local_source_vectors=write_vectors(tmp_path / "source", ["w1", "w2"], 2, 20),
        local_target_vectors=write_vectors(tmp_path / "target", ["w1", "w2"], 2, 30),
    )
    source, target = model.encoder.embed_tokens.weight, model.decoder.embed_tokens.weight
    for words, local in ((source, 20.0), (target, 30.0)):
        assert words[4, :4].tolist() == [10.0] * 4
        assert words[5].tolist() == [11.0] * 4 + [local] * 2
        assert words[6, 4:].tolist() == [local + 1] * 2
        # w0 has no local vector, so these values start at random like other weights
        assert words[4, 4:].abs().max() <= 0.7
        assert not words[PAD].any()


@pytest.mark.parametrize(("std", "low", "high"), [(0.9, 0.85, 0.95), (0.0, 0.0, 0.06)])
def test_words_without_a_global_vector_are_drawn(tmp_path, std, low, high):
    """For 2,000 missing words of 4 numbers, the standard deviation is within 0.9 +- 5 / sqrt(2 * 8000) * 0.9."""
    task = make_task(make_dictionary(2001))
    path = write_vectors(tmp_path / "global", ["w0"], 4, 10)
    model = build_model(
        "nts_w2v", task, **TINY | {"local_dim": 2, "init_range": 0.1}, global_vectors=path, missing_vector_std=std
    )
    missing = model.encoder.embed_tokens.weight[5:, :4]
    assert low < missing.std() < high
    assert abs(missing.mean()) < 0.05
    assert model.encoder.embed_tokens.weight[5:, 4:].abs().max() <= 0.1


def test_frozen_words_keep_their_vectors_and_others_learn(tmp_path):
    """The vectors of w0 and w1 (ids 4 and 5) stay fixed in SGD with momentum. A word without a vector is trained."""
    path = write_vectors(tmp_path / "global", ["w0", "w1"], 6, 1)
    model = build_model("enc_dec_a", **TINY, global_vectors=path, freeze_vectors=True)
    batch = make_batch()
    batch["src_tokens"][0, -3:-1] = torch.tensor([4, 6])
    batch["prev_output_tokens"][1, 1:3] = torch.tensor([5, 6])
    before = model.decoder.embed_tokens.weight.clone(), model.encoder.embed_tokens.weight.clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=False)  # a zero gradient, with which the momentum continues
        model(**batch).loss.backward()
        optimizer.step()
    for words, start in zip((model.decoder.embed_tokens, model.encoder.embed_tokens), before, strict=True):
        assert torch.equal(words.weight[4:6], start[4:6])
        assert not torch.equal(words.weight[6], start[6])
    # The checkpoint stores which words are frozen.
    again = build_model("enc_dec_a", **TINY, freeze_vectors=True)
    again.load_state_dict(model.state_dict())
    assert again.encoder.embed_tokens.kept.nonzero().flatten().tolist() == [4, 5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "--num-layers must be 1 or more"),
        ({"init_range": -1.0}, "--init-range must be 0"),
        ({"missing_vector_std": -0.9}, "--missing-vector-std must be 0 or more"),
        ({"local_source_vectors": "file"}, "need --local-dim, their width, from 1 to the 6 of --embed-dim"),
        ({"global_vectors": "file", "local_dim": 6}, "--local-dim 6 leaves no part of --embed-dim 6"),
        ({"freeze_vectors": True, "local_dim": 2, "local_target_vectors": "file"}, "leave the local vectors out"),
        ({"freeze_vectors": True, "output_layer": "query_embedding"}, "use one of the two"),
        ({"global_vectors": "nowhere"}, "the word vectors 'nowhere' cannot be read"),
        ({"output_layer": "query_embedding", "query_score": "dot"}, "needs queries as wide as the embeddings"),
    ],
)
def test_contradictory_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        build_model("nts", **TINY | options)


def test_two_dictionaries_are_refused():
    task = make_task()
    task.target_dictionary = make_dictionary(5)
    with pytest.raises(UserError, match="--joined-dictionary"):
        build_model("nts", task, **TINY)
