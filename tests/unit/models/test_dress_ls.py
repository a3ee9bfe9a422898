"""Test the scores, the losses, the unchanged base model and the lexical model of DRESS-LS.

``test_nts.py`` runs the checks that all models share, and ``test_policy_gradient.py`` tests the commands.
"""

import itertools
import math
from argparse import Namespace

import pytest
import torch
from torch import nn

from tests.model_contract import EOS, build_model, collate, log_probs, make_batch, unpad
from tests.processors import needs_int8
from tests.reference import dress_ls as reference
from wean_fairseq.errors import UserError
from wean_fairseq.modules.log_linear import LogLinearOutput
from wean_fairseq.search.packed_linear import Int8Linear

TINY = {"embed_dim": 6, "hidden_size": 8, "lexical_dim": 5, "init_range": 0.7}


def expected(model, batch):
    """Return the log-probabilities (T,) of each reference under the mixture and under the lexical model."""
    found = []
    for source, target in zip(*unpad(batch), strict=True):
        both = reference.log_probs(model, source, torch.cat([target[-1:], target[:-1]]))
        found.append([part.gather(1, target.unsqueeze(1)).squeeze(1) for part in both])
    return found


@pytest.mark.parametrize("share", [0.1, 0.6, 1.0])
def test_scores_are_those_of_a_loop(share):
    """The oracle is (1 - w) log P_base + w log P_lexical, normalised.

    The score of the first word comes from the base alone.
    """
    model, batch = build_model("dress_ls", **TINY, lexical_share=share), make_batch()
    with torch.no_grad():
        found = log_probs(model, batch)
        for row, (source, target) in enumerate(zip(*unpad(batch), strict=True)):
            mixed, _ = reference.log_probs(model, source, torch.cat([target[-1:], target[:-1]]))
            torch.testing.assert_close(found[row, : len(target)], mixed, rtol=1e-4, atol=1e-5)


def test_with_a_frozen_base_the_loss_is_that_of_the_lexical_model():
    """The loss is the lexical model's in training and in validation, but the scores come from the mixture."""
    model, batch = build_model("dress_ls", **TINY, dropout=0.0), make_batch()
    mixed, lexical = (sum(part.sum() for part in parts) for parts in zip(*expected(model, batch), strict=True))
    torch.testing.assert_close(model(**batch).loss, -mixed, rtol=1e-5, atol=1e-4)
    before = log_probs(model, batch)
    model.freeze_base()
    sums = model.train()(**batch)
    assert model.decoder.output.training
    for found in (sums.loss, sums.nll_loss, model.eval()(**batch).loss):
        torch.testing.assert_close(found, -lexical, rtol=1e-5, atol=1e-4)
    assert torch.equal(log_probs(model, batch), before)


def test_a_frozen_base_learns_nothing_and_drops_nothing():
    model, batch = build_model("dress_ls", **TINY | {"dropout": 0.5}), make_batch()
    model.freeze_base()
    model.train()
    used = []
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.register_forward_pre_hook(lambda part, _: used.append(part))
    model(**batch).loss.backward()
    dropped = {name for name, part in model.named_modules() if part in used and part.training}
    assert dropped == {"encoder.lexical.dropout", "decoder.lexical_dropout"}
    assert [part.training for part in (model.encoder.lstm, model.encoder.lexical.lstm)] == [False, True]
    learnt = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert learnt == {name for name, _ in model.named_parameters() if ".lexical." in name}


def test_a_criterion_that_would_train_the_mixture_is_refused_beside_a_base():
    """The criterions of fairseq compute their loss from the scores.

    Without a frozen base they may do so, because the model's own loss trains the mixture, too.
    """
    model, batch = build_model("dress_ls", **TINY).train(), make_batch()
    inputs = {name: value for name, value in batch.items() if name != "target"}
    model(**inputs)
    model.freeze_base()
    with pytest.raises(UserError, match="trained by its own loss, which this --criterion does not compute"):
        model.train()(**inputs)


def test_the_releases_sizes_and_start():
    """train_lexical_simp.sh has 2 layers of 256 units, embeddings of 256, dropout 0.2, and weights in [-0.1, 0.1]."""
    model = build_model("dress_ls")
    lexical, output = model.encoder.lexical, model.decoder.output.lexical.score.out_proj
    assert (lexical.lstm.input_size, lexical.lstm.hidden_size, lexical.lstm.num_layers) == (256, 256, 2)
    assert lexical.dropout.p == lexical.lstm.dropout == model.decoder.lexical_dropout.p == 0.2
    assert lexical.reverse
    assert output.in_features == 256
    assert model.decoder.share == 0.1
    for parameter in (*lexical.parameters(), *output.parameters()):
        assert parameter.abs().max() <= 0.1


def test_biases_that_are_far_apart_cost_int8_no_precision():
    """The error is less than 1.5 times the error for equal biases.

    Without scaling, the error was three times as large for weights of up to 0.3.
    """
    needs_int8()
    torch.manual_seed(1)
    output = LogLinearOutput(64, 64, 500, share=0.1, unk_index=3)
    base, lexical = output.score.out_proj, output.lexical.score.out_proj
    query = torch.cat([torch.rand(9, 128) * 2 - 1, torch.full((9, 1), 0.1)], dim=1)

    def error():
        product = output.parts(query, torch.empty(0))
        exact = product.query @ product.weight.t() + product.bias
        return (Int8Linear(product.weight, product.bias, 9)(product.query) - exact).abs().mean()

    with torch.no_grad():
        for layer in (base, lexical):
            layer.weight.uniform_(-0.3, 0.3)
            layer.bias.normal_(std=1.5)
        far = error()
        lexical.bias.copy_(base.bias)
        assert far < 1.5 * error()


SOURCE = range(4, 11)
COPY, SYNONYM = 0, 8  # target id minus source id, for a copy and for a synonym


def pairs(*kinds):
    """Return all pairs of words as sources, and as targets the same pairs with ``kinds`` added to them."""
    sources = list(itertools.combinations(SOURCE, 2))
    targets = [[word + kind for word, kind in zip(words, kinds, strict=True)] for words in sources]
    return collate(*([torch.tensor([*words, EOS]) for words in side] for side in (sources, targets)))


def fit(model, *batches, updates):
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], 0.01)
    for _ in range(updates):
        optimizer.zero_grad()
        sum(weight * model(**batch).loss / len(batch["target"]) for batch, weight in batches).backward()
        optimizer.step()


def test_the_lexical_model_changes_words_from_the_second_one_on():
    """The base model has learnt to copy with probability 0.6, and to write a synonym with probability 0.4.

    The lexical model knows only synonyms.

    Therefore the base model alone copies. In the mixture, the second word becomes a synonym. The first word does not
    change, because the lexical model does not score it.
    """
    options = {"embed_dim": 16, "hidden_size": 32, "dropout": 0.0, "init_range": 0.0}
    base = build_model("enc_dec_a", **options).train()
    shares = {COPY: 0.6, SYNONYM: 0.4}
    fit(base, *((pairs(a, b), shares[a] * shares[b]) for a in shares for b in shares), updates=80)
    model = build_model("dress_ls", **options, lexical_dim=32)
    model.load_state_dict(base.state_dict(), strict=False)
    model.freeze_base()
    fit(model.train(), (pairs(SYNONYM, SYNONYM), 1.0), updates=60)
    batch = pairs(COPY, COPY)

    def best(share):
        model.decoder.share = share
        with torch.no_grad():
            return log_probs(model.eval(), batch).argmax(dim=-1)

    for share, second in ((0.0, COPY), (0.3, SYNONYM)):
        assert torch.equal(best(share), pairs(COPY, second)["target"]), share


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lexical_share": 1.5}, "--lexical-share must be from 0 to 1, but is 1.5"),
        ({"lexical_share": -0.5}, "--lexical-share must be from 0 to 1, but is -0.5"),
        ({"lexical_share": math.nan}, "--lexical-share must be from 0 to 1, but is nan"),
        ({"output_layer": "query_embedding"}, "is mixed into --output-layer linear alone"),
        ({"lexical_dim": 0, "base_checkpoint": "file"}, "--base-checkpoint is for a lexical model"),
        ({"base_checkpoint": "nowhere.pt"}, "nowhere.pt"),
    ],
)
def test_contradictory_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        build_model("dress_ls", **TINY | options)


@pytest.mark.parametrize("cfg", [None, {"model": Namespace(arch="lstm", encoder_embed_dim=6)}])
def test_a_base_of_an_arch_of_fairseq_is_refused(tmp_path, cfg):
    """Archs without a dataclass have their options in a namespace. A checkpoint may also contain no options."""
    path = tmp_path / "base.pt"
    history = [{"num_updates": 1, "optimizer_name": "FairseqAdam", "lr_scheduler_state": {}}]
    torch.save({"cfg": cfg, "args": None, "model": {}, "extra_state": {}, "optimizer_history": history}, path)
    with pytest.raises(UserError, match=r"must be of the nts family .* its embed_dim is None and not 6"):
        build_model("dress_ls", **TINY, base_checkpoint=str(path))
