"""Test the criterion ``policy_gradient``: sentences sampled from every family, their loss and their rewards."""

import itertools
import math
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.logging import metrics
from fairseq.models import ARCH_MODEL_NAME_REGISTRY

from tests import families
from tests.copy_contract import copy_batch, copy_task
from tests.model_contract import (
    EOS,
    PAD,
    build_model,
    collate,
    make_batch,
    make_dictionary,
    make_task,
    task_inputs,
    token_log_probs,
    unpad,
)
from tests.reference import sari
from wean_fairseq.criterions import policy_gradient, rewards
from wean_fairseq.criterions.policy_gradient import PolicyGradientConfig, PolicyGradientCriterion, draw
from wean_fairseq.errors import UserError
from wean_fairseq.host import precision

DICTIONARY = make_dictionary()
SIZES = {"embed_dim": 6, "hidden_size": 8, "dropout": 0.0}


def make_criterion(epoch=1, dictionary=DICTIONARY, tf32=False, **options):
    """Create the criterion with the simplicity reward only, unless ``options`` differ."""
    cfg = PolicyGradientConfig(**{"relevance_weight": 0.0, "fluency_weight": 0.0, **options})
    words = {"source_dictionary": dictionary, "target_dictionary": dictionary}
    return PolicyGradientCriterion(Namespace(**words, epoch=epoch, cfg=Namespace(tf32=tf32)), cfg)


def make_sample(model, batch=None):
    batch = batch or make_batch()
    net_input = {name: tensor for name, tensor in batch.items() if name != "target"} | task_inputs(model, batch)
    return {"net_input": net_input, "target": batch["target"], "ntokens": int(batch["target"].ne(PAD).sum())}


def make_wean():
    return build_model("wean_lstm", make_task(DICTIONARY), **SIZES)


def gradients(model):
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


# --- sampled sentences ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", families.families())
def test_every_family_is_trained_and_validated(family):
    """Test that with one given word all numbers are finite, the decoder learns, and the mode does not change."""
    dictionary = make_dictionary()
    model = build_model(family, make_task(dictionary), **families.tiny(family)).train()
    sources, targets = unpad(make_batch())
    # The sources have at most five ids, because some families accept no longer lists of topics.
    batch = collate([source[-5:] for source in sources], targets)
    criterion, sample = make_criterion(dictionary=dictionary, given_words=1), make_sample(model, batch)
    torch.manual_seed(3)
    loss, size, log = criterion(model, sample)
    loss.backward()
    assert model.training
    assert size == log["nsentences"] == 3
    assert log["rewarded"] >= 2
    assert loss.isfinite()
    found = gradients(model)
    assert all(gradient.isfinite().all() for gradient in found.values())
    assert any(name.startswith("decoder.") and gradient.any() for name, gradient in found.items())
    _, size, log = criterion(model.eval(), sample)
    assert size == sample["ntokens"]
    assert log["rewarded"] == 3
    assert 0 <= log["reward:reward"] <= 3
    assert log["reward:reward"] == log["reward:reward_simplicity"]
    words = draw(model, sample["net_input"], sample["target"], 0, round(1.2 * sample["target"].size(1)), greedy=True)
    assert log["reward:reward"] == criterion.reward(sample, words)[0].sum()


def test_what_is_given_stands_at_the_beginning_and_what_is_too_short_is_given_whole():
    model, sample = make_wean(), make_sample(None)
    words = draw(model, sample["net_input"], sample["target"], given=3, longest=9)
    assert words.size(1) <= 9
    assert torch.equal(words[:, :3], sample["target"][:, :3])
    targets = unpad(make_batch())[1]
    assert [len(target) for target in targets] == [5, 7, 2]  # the lengths include end symbols
    assert words[2].tolist()[2:] == [PAD] * (words.size(1) - 2)
    # a row has one end symbol and then only padding, or no end symbol if the sentence was too long
    for row in words.tolist():
        end = row.index(EOS) if EOS in row else len(row)
        assert set(row[end + 1 :]) <= {PAD}
        assert PAD not in row[:end]


def test_words_are_drawn_by_their_probabilities():
    """In 4,000 draws, the frequency of each first word is within five standard deviations of its probability."""
    model = make_wean()
    batch = collate([torch.tensor([4, 9, EOS])] * 4000, [torch.tensor([5, EOS])] * 4000)
    scores = model(batch["src_tokens"][:1], batch["src_lengths"][:1], batch["prev_output_tokens"][:1, :1])
    chances = model.get_normalized_probs(scores, log_probs=False)[0, 0]
    chances = chances.index_fill(0, torch.tensor(PAD), 0.0) / (1 - chances[PAD])
    torch.manual_seed(7)
    words = draw(model, make_sample(model, batch)["net_input"], batch["target"], given=0, longest=1)
    found = torch.bincount(words[:, 0], minlength=len(chances)) / 4000
    assert ((found - chances).abs() <= 5 * (chances * (1 - chances) / 4000).sqrt()).all()
    assert found.count_nonzero() > 10


def test_greedy_words_are_the_most_probable_ones():
    """Test that each word has the highest score, computed from the previous words without dropout."""
    model = build_model("wean_lstm", make_task(DICTIONARY), **SIZES | {"dropout": 0.9}).train()
    sample = make_sample(None)
    words = draw(model, sample["net_input"], sample["target"], given=0, longest=6, greedy=True)
    read = torch.cat([torch.full((3, 1), EOS), words[:, :-1]], dim=1)
    scores, _ = model.eval()(**{**sample["net_input"], "prev_output_tokens": read})
    best = scores.index_fill(2, torch.tensor(PAD), -torch.inf).argmax(dim=2)
    assert torch.equal(best[words.ne(PAD)], words[words.ne(PAD)])


# --- the loss -------------------------------------------------------------------------------------------------------


def test_targets_that_are_given_whole_cost_what_they_always_do():
    """The expected loss and gradients come from fairseq's cross entropy, because no sentence has a reward."""
    model, sample = make_wean(), make_sample(None)
    expected, _, _ = CrossEntropyCriterion(make_task(DICTIONARY), False)(model, sample)
    expected.backward()
    by_hand = gradients(model)
    model.zero_grad()
    loss, size, log = make_criterion(given_words=7)(model.train(), sample)
    loss.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradients(model), by_hand, rtol=1e-4, atol=1e-5)
    assert (size, log["rewarded"], log["ntokens"]) == (3, 0, sample["ntokens"])


@pytest.mark.parametrize(("epoch", "given"), [(1, 4), (2, 2), (3, 0)])
def test_the_loss_of_what_was_drawn_is_that_of_a_loop(epoch, given):
    """The oracle computes the loss in a loop over words.

    The baseline is the mean reward of the other sentences with sampled words.
    """
    model, sample = make_wean(), make_sample(None)
    criterion = make_criterion(epoch, given_words=4, fewer_words=2, fewer_every=1)
    torch.manual_seed(5)
    words = draw(model, sample["net_input"], sample["target"], given, longest=8)
    torch.manual_seed(5)
    loss, _, log = criterion(model.train(), sample)
    _, values = criterion.reward(sample, words)
    rows = [row[row.ne(PAD)] for row in words]
    whole = [row.tolist()[:given] == row.tolist() for row in rows]
    assert any(whole) == (given > 0)
    lprobs = token_log_probs(model, sample_batch(sample, words))
    total = 0.0
    for number, row in enumerate(lprobs):
        others = [float(values["reward"][other]) for other in range(3) if other != number and not whole[other]]
        advantage = float(values["reward"][number]) - (sum(others) / len(others) if others else 0.0)
        total -= sum(value * (1.0 if place < given else advantage) for place, value in enumerate(row.tolist()))
    assert float(loss) == pytest.approx(total, rel=1e-4)
    assert log["rewarded"] == whole.count(False)
    rewarded = [float(value) for value, given_whole in zip(values["reward"], whole, strict=True) if not given_whole]
    assert float(log["reward:reward"]) == pytest.approx(sum(rewarded))


def sample_batch(sample, words):
    """Return the batch with ``words`` (B, T) as targets."""
    read = torch.cat([torch.full((len(words), 1), EOS), words[:, :-1]], dim=1)
    return {**sample["net_input"], "prev_output_tokens": read, "target": words}


def test_a_learnt_baseline_is_taken_off_and_learns_the_reward_while_features_do_not():
    """Compare with a sum of (r - b_t) log P(y_t), which trains the model, and (b_t - r)^2 / 2, word by word."""
    model, sample = make_wean(), make_sample(None)
    criterion = make_criterion(given_words=0, baseline_width=8)
    assert not any(parameter.any() for parameter in criterion.parameters())  # the weights of the baseline start at 0
    weight, bias = torch.linspace(-0.5, 0.9, 8), 0.2
    criterion.load_state_dict({"baseline.weight": weight.unsqueeze(0), "baseline.bias": torch.tensor([bias])})
    torch.manual_seed(5)
    words = draw(model, sample["net_input"], sample["target"], given=0, longest=8)
    torch.manual_seed(5)
    loss, _, _ = criterion(model.train(), sample)
    loss.backward()
    found = gradients(model)
    model.zero_grad()
    reward, _ = criterion.reward(sample, words)
    batch = sample_batch(sample, words)
    _, extra = model(**{name: value for name, value in batch.items() if name != "target"})
    policy, error, gradient = torch.zeros(()), 0.0, torch.zeros(8)
    for row, lprobs in enumerate(token_log_probs(model, batch)):
        for place, lprob in enumerate(lprobs):
            features = extra["features"][row, place].detach()
            missed = float(features @ weight) + bias - float(reward[row])
            policy = policy + missed * lprob
            error += missed**2 / 2
            gradient += missed * features
    torch.testing.assert_close(loss, policy + error, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(criterion.baseline.weight.grad[0], gradient, rtol=1e-4, atol=1e-5)
    policy.backward()
    torch.testing.assert_close(found, gradients(model), rtol=1e-4, atol=1e-5)


def test_a_baseline_begins_anew_after_another_criterion():
    """If a criterion has no parameters, the checkpoint contains ``None`` instead (see fairseq's trainer)."""
    criterion = make_criterion(baseline_width=4)
    criterion.load_state_dict(None, strict=True)
    criterion.load_state_dict({"baseline.weight": torch.ones(1, 4), "baseline.bias": torch.ones(1)}, strict=True)
    assert criterion.baseline.weight.tolist() == [[1.0] * 4]


def test_means_of_rewards_are_over_the_sentences_of_all_workers_that_have_some():
    """The mean by hand is (1 + 4) / (1 + 2), with four digits.

    Batches without sampled words or rewards do not count.
    """
    common = {"loss": 1.0, "nll_loss": 1.0, "ntokens": 1, "nsentences": 2, "sample_size": 2}
    logs = [
        {**common, "reward:reward": 1.0, "rewarded": 1},
        {**common, "reward:reward": 4.0, "rewarded": 2},
        {**common, "reward:reward": 0.0, "rewarded": 0},
        common,
    ]
    for kept, expected in ((logs, 1.6667), (logs[2:], None)):
        with metrics.aggregate() as aggregated:
            PolicyGradientCriterion.reduce_metrics(kept)
        assert aggregated.get_smoothed_values().get("reward") == expected


@pytest.mark.parametrize("arch", ["rnnsearch", "paraphrase_transformer"])
def test_slots_in_targets_are_unknown_words_to_models_that_do_not_copy(arch):
    """The expected values come from ``model_loss``."""
    model = build_model(arch, copy_task(), **families.tiny(ARCH_MODEL_NAME_REGISTRY[arch])).train()
    for module in model.modules():
        module.p = 0.0  # switches dropout off
    batch = copy_batch()
    sample = make_sample(model, batch)
    loss, *_ = make_criterion(dictionary=model.decoder.dictionary, given_words=99)(model, sample)
    torch.testing.assert_close(loss, model(**batch).loss)


def test_the_reward_reads_words_without_padding_and_ends():
    """The expected values come from the loops of ``tests/reference/sari.py``."""
    sample = make_sample(None)
    words = sample["target"].flip(0)
    _, found = make_criterion(sari_forward=1.0).reward(sample, words)
    rows = zip(*(unpad_rows(one) for one in (sample["net_input"]["src_tokens"], words, sample["target"])), strict=True)
    expected = [sum(sari.sentence(source, output, [target])) / 300 for source, output, target in rows]
    assert found["reward_simplicity"].tolist() == pytest.approx(expected)


def unpad_rows(tokens):
    return [[word for word in row if word not in (PAD, EOS)] for row in tokens.tolist()]


def test_a_baseline_reads_features_of_half_precision():
    """Test with ``dnpg``, whose features are float32 in a half-precision model."""
    model = build_model("dnpg", make_task(DICTIONARY), **families.tiny("dnpg")).train()
    width = sum(words.size(1) for words in model.decoder.output.embeddings) + 2
    criterion = make_criterion(given_words=1, baseline_width=width).bfloat16()
    loss, *_ = criterion(model.bfloat16(), make_sample(model))
    assert loss.isfinite()


def test_a_model_of_no_numbers_has_a_loss_that_is_none():
    """Test that the loss is NaN, which the task refuses with a message that names the batch."""
    model = make_wean().train()
    next(iter(model.decoder.parameters())).data.fill_(torch.nan)
    loss, *_ = make_criterion(given_words=0)(model, make_sample(model))
    assert loss.isnan()
    assert model.training


@pytest.mark.parametrize("tf32", [False, True])
def test_the_precision_of_the_training_stays(tf32, monkeypatch):
    """Test that the precision setting of a reward model's task does not apply to the training."""
    monkeypatch.setattr(policy_gradient, "AutoEncoder", lambda *_: precision.set_tf32(not tf32))
    try:
        make_criterion(tf32=tf32, auto_encoder="a", relevance_weight=1.0)
        assert torch.backends.cuda.matmul.fp32_precision == ("tf32" if tf32 else "ieee")
    finally:
        precision.set_tf32(False)


def test_words_of_two_dictionaries_are_not_compared():
    words = {"source_dictionary": DICTIONARY, "target_dictionary": make_dictionary(7)}
    cfg = PolicyGradientConfig(relevance_weight=0.0, fluency_weight=0.0)
    with pytest.raises(UserError, match="--joined-dictionary"):
        PolicyGradientCriterion(Namespace(**words, epoch=1), cfg)


# --- rewards --------------------------------------------------------------------------------------------------------


def test_simplicity_is_the_weighted_sari_of_both_directions():
    """The expected values come from the loops of ``tests/reference/sari.py``, whose scores are percentages."""
    source, output, target = [4, 5, 6, 7, 8], [4, 9, 7, 8], [4, 9, 8]
    there = sum(sari.sentence(source, output, [target])) / 3
    back = sum(sari.sentence(source, target, [output])) / 3
    assert abs(there - back) > 1
    found = rewards.simplicity([source, source], [output, target], [target, target], forward=0.1)
    assert found.tolist() == pytest.approx([(0.1 * there + 0.9 * back) / 100, found[1].item()])
    assert found[1] > found[0]
    assert rewards.simplicity([[4, 5]], [[]], [[4]], forward=0.5).isfinite().all()


def reward_model(kind, model):
    """Return a reward of class ``kind`` for ``model``, without reading a checkpoint."""
    made = kind.__new__(kind)
    made.dictionary, made.model = DICTIONARY, model
    return made


class Bigrams(torch.nn.Module):
    """A language model whose bigram probabilities are in a table."""

    def __init__(self, lprobs):
        super().__init__()
        self.lprobs = lprobs

    def forward(self, tokens):
        return self.lprobs[tokens]

    def get_normalized_probs(self, scores, log_probs):
        assert log_probs
        return scores


def test_fluency_is_the_geometric_mean_over_words_and_end():
    """The expected values come from a loop over a table of probabilities.

    The id after the dictionary is a slot, which has no row in the table.
    """
    size = len(DICTIONARY)
    table = torch.randn(size, size, generator=torch.Generator().manual_seed(2)).log_softmax(dim=1)
    outputs = [[4, 7, size + 2], [9], []]
    found = reward_model(rewards.LanguageModel, Bigrams(table))(outputs, torch.device("cpu"))
    for value, words in zip(found.tolist(), outputs, strict=True):
        known = [EOS, *(word if word < size else DICTIONARY.unk() for word in words), EOS]
        chances = [table[before, word].exp().item() for before, word in itertools.pairwise(known)]
        assert value == pytest.approx(math.prod(chances) ** (1 / len(chances)), rel=1e-5)


def test_relevance_is_the_cosine_of_the_last_states_whatever_the_padding():
    """The oracle encodes each sentence by itself. A sentence has relevance 1 to itself."""
    model = build_model("residual_lstm", make_task(DICTIONARY), embed_dim=6, hidden_size=8, num_layers=2)
    ask = reward_model(rewards.AutoEncoder, model)
    sources, outputs = [[4, 7, 11], [9]], [[4, 12, 13, 5], [9]]
    found = ask(sources, outputs, torch.device("cpu"))

    def state(words):
        return model.encoder(torch.tensor([[*words, EOS]]))["final_hidden"][-1, 0]

    first, second = state(sources[0]), state(outputs[0])
    assert found.tolist() == pytest.approx([float(first @ second / first.norm() / second.norm()), 1.0], abs=1e-5)


def test_rewards_are_weighted_and_no_gradient_comes_from_them(monkeypatch):
    """The reward by hand is 2 * 0.5 + 0.25 * (-1) + 0.5 * 0.1. The reward models are not part of the criterion."""
    encoder = build_model("residual_lstm", make_task(DICTIONARY), embed_dim=6, hidden_size=8, num_layers=1)
    table = torch.nn.Parameter(torch.zeros(len(DICTIONARY), len(DICTIONARY)))
    made = {
        "AutoEncoder": reward_model(rewards.AutoEncoder, encoder),
        "LanguageModel": reward_model(rewards.LanguageModel, Bigrams(table)),
    }
    for name, model in made.items():
        monkeypatch.setattr(policy_gradient, name, lambda *_, model=model: model)
    criterion = make_criterion(
        auto_encoder="a", language_model="b", relevance_weight=0.25, fluency_weight=0.5, simplicity_weight=2.0
    )
    assert not list(criterion.parameters())
    assert not criterion.state_dict()
    model, sample = make_wean(), make_sample(None)
    loss, _, log = criterion(model.train(), sample)
    loss.backward()
    assert table.grad is None
    assert not gradients(encoder)
    assert log["reward:reward_fluency"] == log["rewarded"]
    monkeypatch.setattr(policy_gradient, "simplicity", lambda *_: torch.tensor([0.5]))
    criterion.auto_encoder = lambda *_: torch.tensor([-1.0])
    criterion.language_model = lambda *_: torch.tensor([0.1])
    total, parts = criterion.reward(sample, sample["target"][:1])
    assert total.item() == pytest.approx(0.8)
    assert sorted(parts) == ["reward", "reward_fluency", "reward_relevance", "reward_simplicity"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"relevance_weight": 0.25}, "--relevance-weight 0.25 needs --auto-encoder CHECKPOINT; 0 leaves the relevance"),
        ({"fluency_weight": 0.5}, "--fluency-weight 0.5 needs --language-model CHECKPOINT"),
        ({"auto_encoder": "a.pt"}, "--auto-encoder is for a --relevance-weight above 0"),
        ({"sari_forward": 1.5}, "--sari-forward must be from 0 to 1, but is 1.5"),
        ({"fewer_every": 0}, "--fewer-every must be 1 or more, but is 0"),
        ({"fluency_weight": 1, "language_model": "nowhere.pt"}, "there is no checkpoint nowhere.pt"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        make_criterion(**options)


def test_the_smallest_and_largest_values_of_options_are_accepted():
    smallest = {"simplicity_weight": 0, "sari_forward": 0, "given_words": 0, "fewer_words": 0, "fewer_every": 1}
    assert make_criterion(**smallest).cfg.fewer_every == 1
    assert make_criterion(sari_forward=1).cfg.sari_forward == 1


def test_the_defaults_are_those_of_the_authors():
    """The values come from the authors' train_dress.sh. It has 24 given words, and 3 fewer every second epoch."""
    cfg = PolicyGradientConfig()
    assert (cfg.simplicity_weight, cfg.relevance_weight, cfg.fluency_weight, cfg.sari_forward) == (1.0, 0.25, 0.5, 0.1)
    assert (cfg.given_words, cfg.fewer_words, cfg.fewer_every, cfg.baseline_width) == (24, 3, 2, 0)


def test_a_sample_has_at_most_a_fifth_more_words_than_the_longest_target(monkeypatch):
    """For a target of 7 words, the maximum is 8.4, which is rounded."""
    monkeypatch.setattr(policy_gradient, "draw", lambda model, net_input, target, given, longest, greedy: longest)
    assert make_criterion()._draw(None, make_sample(None), given=0) == 8


def test_other_tasks_and_models_are_refused():
    words = {"source_dictionary": DICTIONARY, "target_dictionary": DICTIONARY}
    cfg = PolicyGradientConfig(relevance_weight=0.0, fluency_weight=0.0)
    with pytest.raises(UserError, match="is for --task paraphrase and topic_essay"):
        PolicyGradientCriterion(Namespace(**words), cfg)
    with pytest.raises(UserError, match="is for the archs of this package, not SimpleNamespace"):
        make_criterion()(SimpleNamespace(decoder=None), {})


def test_a_baseline_of_another_width_is_refused():
    with pytest.raises(UserError, match="--baseline-width 5 is not the width of the decoder's features, which is 8"):
        make_criterion(baseline_width=5, given_words=0)(make_wean().train(), make_sample(None))
