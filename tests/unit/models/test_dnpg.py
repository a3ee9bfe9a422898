"""Test ``dnpg`` with the checks that all models share, and test its labels, levels and annealing."""

import re
from typing import Any, ClassVar

import pytest
import torch

from tests.copy_contract import BASE, SLOTS, CopyContract, copy_batch, copy_task
from tests.model_contract import EOS, PAD, UNK, build_model, collate, log_probs, make_dictionary, make_task
from tests.reference import dnpg as reference
from tests.reference.transformer import lively
from wean_fairseq.errors import UserError
from wean_fairseq.models.copying import CopyingDecoder
from wean_fairseq.models.dnpg import DnpgDecoder
from wean_fairseq.search.vocabulary_scores import VocabularyScores, WholeScores

TINY = {
    "phrase_dim": 8,
    "phrase_heads": 2,
    "sentence_dim": 6,
    "sentence_heads": 3,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "ffn_factor": 2,
    "separator_dim": 4,
    "aggregator_dim": 5,
}


def build(slots: int = SLOTS, **options: Any) -> torch.nn.Module:
    return lively(build_model("dnpg", copy_task(slots), **TINY | options))


def labels_of(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return weak labels that assign words with odd ids to the phrase level. Padding has no label."""

    def labelled(tokens: torch.Tensor) -> torch.Tensor:
        return (1 - tokens % 2).masked_fill(tokens == PAD, -1)

    return {"source_labels": labelled(batch["src_tokens"]), "target_labels": labelled(batch["target"])}


class TestDnpgContract(CopyContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "dnpg": ("dnpg", TINY),
        "query embedding": ("dnpg", TINY | {"output_layer": "query_embedding"}),
        "concat": ("dnpg", TINY | {"output_layer": "query_embedding", "query_score": "concat"}),
        "dot": ("dnpg", TINY | {"output_layer": "query_embedding", "query_score": "dot"}),
        "weak labels in training": ("dnpg", TINY | {"decoder_labels": "weak"}),
        "sharp labels": ("dnpg", TINY | {"temperature": 0.1}),
        "narrow window": ("dnpg", TINY | {"window": 1}),
        "other depths": ("dnpg", TINY | {"encoder_layers": 1, "decoder_layers": 3}),
    }

    def has_no_gradient(self, case, name):
        """A window of one word always has attention weight 1, so its query and key get no gradient."""
        own_word_alone = case[1].get("window") == 1
        return own_word_alone and re.search(r"phrase\..*self_attention\.(query|key)_proj", name) is not None


@pytest.mark.parametrize("left_pad_source", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"window": 1}, {"temperature": 0.5}, {"output_layer": "query_embedding", "decoder_layers": 1}]
)
def test_probabilities_and_labels_are_those_of_the_equations(options, left_pad_source):
    """The expected values come from the naive forward pass of ``tests/reference/dnpg.py``."""
    model, batch = build(**options), copy_batch(left_pad_source=left_pad_source)
    with torch.no_grad():
        encoder_out = model.encoder(batch["src_tokens"])
        _, extra = model.decoder(batch["prev_output_tokens"], encoder_out)
        found = log_probs(model, batch).exp()
        for row in range(3):
            source, previous = (batch[name][row] for name in ("src_tokens", "prev_output_tokens"))
            words = source != PAD
            expected = reference.read(
                model,
                source[words].tolist(),
                previous[previous != PAD].tolist(),
                num_base=BASE,
                num_slots=SLOTS,
                unk=UNK,
                special={0, PAD, EOS},
            )
            steps = len(expected.probs)
            torch.testing.assert_close(found[row, :steps], expected.probs, rtol=1e-4, atol=1e-6)
            torch.testing.assert_close(encoder_out["labels"][row][words].exp(), expected.source_labels)
            torch.testing.assert_close(extra["labels"][row, :steps].exp(), expected.target_labels)


@pytest.mark.parametrize("chunk", [None, 2])
@pytest.mark.parametrize("options", [{}, {"output_layer": "query_embedding"}])
def test_the_loss_in_chunks_is_that_of_all_words_at_once(options, chunk, monkeypatch):
    """The expected loss is the log of the mixture, computed for all words at once."""
    model, batch = build(**options).eval(), copy_batch()
    model.decoder.phrase_output.chunk_size = chunk
    found = []
    for method in (DnpgDecoder._token_loss, CopyingDecoder._whole_token_loss):
        monkeypatch.setattr(DnpgDecoder, "_token_loss", method)
        model.zero_grad()
        loss = model(**batch).loss
        (3 * loss).backward()
        found.append((loss.item(), {name: weight.grad.clone() for name, weight in model.named_parameters()}))
    (loss, gradients), (expected, others) = found
    assert loss == pytest.approx(expected, rel=1e-6)
    largest = max(gradient.abs().max().item() for gradient in others.values())
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, others[name], rtol=1e-4, atol=1e-6 * largest)


def test_the_loss_with_weak_labels_is_the_papers_sum():
    """The oracle is -sum log P(y) - lambda (sum log P(z* | X) + sum log P(z* | y)).

    All three terms come from ``tests/reference/dnpg.py``.
    """
    model, batch = build(label_weight=0.3), copy_batch()
    weak = labels_of(batch)
    nll = source_loss = target_loss = torch.zeros(())
    with torch.no_grad():
        sums = model(**batch, **weak)
        for row in range(3):
            source, previous, target = (batch[name][row] for name in ("src_tokens", "prev_output_tokens", "target"))
            steps, words = target != PAD, source != PAD
            expected = reference.read(
                model,
                source[words].tolist(),
                previous[steps].tolist(),
                num_base=BASE,
                num_slots=SLOTS,
                unk=UNK,
                special={0, PAD, EOS},
            )
            nll = nll - expected.probs.gather(1, target[steps].unsqueeze(1)).log().sum()
            of_source, of_target = weak["source_labels"][row][words], weak["target_labels"][row][steps]
            source_loss = source_loss - expected.source_labels.gather(1, of_source.unsqueeze(1)).log().sum()
            target_loss = target_loss - expected.target_labels.gather(1, of_target.unsqueeze(1)).log().sum()
    torch.testing.assert_close(sums.nll_loss, nll)
    torch.testing.assert_close(sums.logged["source_label_loss"], source_loss)
    torch.testing.assert_close(sums.logged["target_label_loss"], target_loss)
    torch.testing.assert_close(sums.loss, nll + 0.3 * (source_loss + target_loss))


def test_weak_labels_can_stand_for_the_aggregators_in_training():
    """The expected loss comes from ``tests/reference/dnpg.py`` with the same weak labels.

    With tau = 1e6 all drawn labels are nearly uniform despite the noise, and weak labels do not depend on tau.
    """
    options = {"decoder_labels": "weak", "dropout": 0.0, "attention_dropout": 0.0, "temperature": 1e6}
    model, batch = build(**options), copy_batch()
    weak = labels_of(batch)
    model.train()
    with torch.no_grad():
        found = model(**batch, **weak).nll_loss
        nll = torch.zeros(())
        for row in range(3):
            source, previous, target = (batch[name][row] for name in ("src_tokens", "prev_output_tokens", "target"))
            steps = target != PAD
            expected = reference.read(
                model,
                source[source != PAD].tolist(),
                previous[steps].tolist(),
                num_base=BASE,
                num_slots=SLOTS,
                unk=UNK,
                special={0, PAD, EOS},
                given=weak["target_labels"][row][steps].tolist(),
            )
            nll = nll - expected.probs.gather(1, target[steps].unsqueeze(1)).log().sum()
        torch.testing.assert_close(found, nll, rtol=1e-4, atol=1e-4)
        other = model(**batch, **weak | {"target_labels": weak["target_labels"].clamp(min=1)}).nll_loss
    assert abs(other - found) > 0.01


def test_words_that_are_no_sentence_words_are_invisible_to_the_sentence_level():
    """If P(z = 1) of a source word is almost 0, replacing the word does not change the sentence level."""
    model, network = build(), build().encoder.network
    tokens = torch.tensor([[5, 6, 7, 8, EOS]])
    other = torch.tensor([[5, 6, 9, 8, EOS]])
    labels = torch.tensor([[1.0, 1.0, 1e-30, 1.0, 1.0]]).log()
    found = []
    for words in (tokens, other):
        embedded = network.sentence_embedding(words, labels.exp().cumsum(dim=1))
        found.append(network.sentence(embedded, labels[:, None, None, :]))
    torch.testing.assert_close(*(states[:, [0, 1, 3, 4]] for states in found))
    assert not torch.allclose(*(states[:, 2] for states in found))
    assert model.encoder.network.window == 3


def test_the_phrase_level_reads_two_words_to_each_side():
    """With one layer, a change at position 4 reaches positions 2 to 6 in the encoder, and 4 to 6 in the decoder."""
    model = build(encoder_layers=1, decoder_layers=1)
    first, second = torch.full((1, 9), 5), torch.full((1, 9), 5)
    second[0, 4] = 6
    encoder, padding = model.encoder.network, torch.zeros(1, 9, dtype=torch.bool)
    with torch.no_grad():
        encoded = [encoder(words, padding, 1.0, noisy=False) for words in (first, second)]
        changed = (encoded[0].phrase != encoded[1].phrase).any(dim=2)[0]
        assert changed.nonzero().flatten().tolist() == [2, 3, 4, 5, 6]
        network = model.decoder.network
        memory = network.remember(encoded[0], padding)
        decoded = [
            network(words, memory, network.begin(memory), 1.0, noisy=False)[0].phrase.states
            for words in (first, second)
        ]
    assert (decoded[0] != decoded[1]).any(dim=2)[0].nonzero().flatten().tolist() == [4, 5, 6]


def test_only_the_phrase_level_copies():
    """If the biases set all labels to the sentence level, the model cannot write any slot."""
    model, batch = build(), copy_batch()
    with torch.no_grad():
        model.decoder.network.aggregator.label_proj.weight.zero_()
        for bias, copies in (([0.0, 60.0], False), ([60.0, 0.0], True)):
            model.decoder.network.aggregator.label_proj.bias.copy_(torch.tensor(bias))
            slots = log_probs(model, batch)[0, :, BASE : BASE + 2].exp()
            assert bool((slots > 1e-12).all()) is copies


def test_training_draws_labels_and_generation_does_not():
    batch = copy_batch()
    for noisy, training, differs in ((False, False, False), (False, True, True), (True, False, True)):
        model = build(dropout=0.0, attention_dropout=0.0, noisy_inference=noisy).train(training)
        with torch.no_grad():
            first, second = (log_probs(model, batch).nan_to_num(neginf=0.0) for _ in range(2))
        assert (not torch.equal(first, second)) is differs


@pytest.mark.parametrize(("noisy", "training"), [(False, False), (False, True), (True, False), (True, True)])
def test_each_side_draws_labels_in_training_and_where_generation_is_to_be_noisy(noisy, training):
    """The encoder and the decoder draw labels only in training or with noisy inference.

    The labels that are compared with the weak labels contain no noise.
    """
    model, batch = build(dropout=0.0, attention_dropout=0.0, noisy_inference=noisy).train(training), copy_batch()
    with torch.no_grad():
        first, second = (model.encoder(batch["src_tokens"]) for _ in range(2))
        scores = [model.decoder(batch["prev_output_tokens"], first)[0].nan_to_num(neginf=0.0) for _ in range(2)]
    drawn = noisy or training
    assert torch.equal(first["labels"], second["labels"]) is not drawn
    assert torch.equal(*scores) is not drawn
    assert torch.equal(first["labels"], first["expected_labels"]) is not drawn
    if not drawn:
        assert torch.equal(first["expected_labels"], second["expected_labels"])


def test_temperature_and_label_weight_fall_after_three_epochs():
    """The paper (section 3.2) uses tau 1 and lambda 1 for three epochs, then 0.9 and 0.01."""
    model, batch = build(), copy_batch()
    weak, found = labels_of(batch), []
    for epoch in (1, 3, 4, 9):
        model.set_epoch(epoch)
        sums = model(**batch, **weak)
        labels = sum(sums.logged[name] for name in ("source_label_loss", "target_label_loss"))
        weight = ((sums.loss - sums.nll_loss) / labels).item()
        found.append((round(float(model.decoder.annealing.temperature), 4), round(weight, 4)))
    assert found == [(1.0, 1.0), (1.0, 1.0), (0.9, 0.01), (0.9, 0.01)]


def test_the_temperature_in_force_is_saved_with_the_model():
    model, other = build(), build()
    model.set_epoch(4)
    assert not torch.equal(log_probs(model, copy_batch()), log_probs(other, copy_batch()))
    other.load_state_dict(model.state_dict())
    assert torch.equal(log_probs(model, copy_batch()), log_probs(other, copy_batch()))


def test_training_without_weak_labels_is_refused_unless_asked_for():
    batch = copy_batch()
    for options, message in (({}, "preprocess/weak_labels.py"), ({"label_weight": 0.0}, "--granularity-labels")):
        model = build(**options).train()
        with pytest.raises(UserError, match=message):
            model(**batch)
        assert torch.isfinite(model.eval()(**batch).loss)  # validation data has no weak labels
    off = {"label_weight": 0.0, "final_label_weight": 0.0}
    assert torch.isfinite(build(**off).train()(**batch).loss)
    with pytest.raises(UserError, match="--decoder-labels aggregator"):
        build(**off, decoder_labels="weak").train()(**batch)


@pytest.mark.parametrize("decoder_labels", ["aggregator", "weak"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_training_with_labels_has_finite_gradients_everywhere(decoder_labels, dtype):
    """Sharp labels, sources of phrase-level words only, and a sentence without words give finite gradients."""
    model = build(decoder_labels=decoder_labels, temperature=0.05).train().to(dtype)
    sources = [torch.tensor([7, 9, 11, EOS]), torch.tensor([EOS])]
    targets = [torch.tensor([7, 9, 5, EOS]), torch.tensor([5, EOS])]
    batch = collate(sources, targets)
    weak = {name: labels.clamp(max=0) for name, labels in labels_of(batch).items()}
    sums = model(**batch, **weak)
    sums.loss.backward()
    assert torch.isfinite(sums.loss)
    without = [name for name, p in model.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
    assert not without


def test_the_loss_under_autocast_is_close_to_the_one_without():
    """bfloat16 has 8 significant bits, so the loss may differ by 2%, and gradients above rounding error by 5%."""
    batch, results = copy_batch(), {}
    for enabled in (False, True):
        model = build_model("dnpg", copy_task(), **TINY)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = model(**batch, **labels_of(batch)).loss
        loss.backward()
        results[enabled] = loss.detach(), {name: p.grad for name, p in model.named_parameters()}
    torch.testing.assert_close(results[True][0], results[False][0], rtol=0.02, atol=0.0)
    whole = torch.stack([grad.norm() for grad in results[False][1].values()]).norm()
    for name, full in results[False][1].items():
        assert (results[True][1][name] - full).norm() <= 0.05 * full.norm() + 0.005 * whole, name


def test_the_defaults_are_those_of_the_paper():
    """Spec 4.5 has 3 layers per level, widths 300 and 150, and FFNs of 4 widths.

    The number of parameters is counted by hand for V = 23.
    """
    model = build_model("dnpg")

    def layer(d: int, attentions: int) -> int:
        return attentions * (4 * d * d + 4 * d) + 8 * d * d + 5 * d + (attentions + 1) * 2 * d

    def lstm(given: int, hidden: int) -> int:
        return 4 * hidden * (given + hidden + 2)

    words = 23
    levels = sum(3 * layer(d, 1) + 3 * layer(d, 2) + 2 * words * d + words * d + words for d in (300, 150))
    separator = words * 300 + 2 * lstm(300, 150) + lstm(302, 300) + 2 * 300 + 2
    aggregator = (300 + 150 + 300) * 300 + 300 + lstm(300, 300) + 2 * 300 + 2
    assert sum(p.numel() for p in model.parameters()) == levels + separator + aggregator + 3 * 300 + 1
    assert model.encoder.network.phrase.layers[0].self_attention.heads == 6
    assert model.decoder.network.sentence.layers[0].cross_attention.heads == 3
    assert model.encoder.network.window == model.decoder.network.window == 3
    assert {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)} == {0.1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"phrase_heads": 3}, "there are 3 heads and 8 units"),
        ({"sentence_dim": 3}, "even width, but it is 3"),
        ({"separator_dim": 5}, "must be even, for its two directions, but is 5"),
        ({"window": 0}, "--window must be 1 or more, but is 0"),
        ({"temperature": 0.0}, "--temperature must be a finite number above 0"),
        ({"final_temperature": -1.0}, "--final-temperature must be a finite number above 0"),
        ({"label_weight": -1.0}, "--label-weight must be 0 or more"),
        ({"anneal_after": -1}, "--anneal-after must be 0 or more"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        build_model("dnpg", **TINY | options)


def test_two_dictionaries_are_refused():
    task = make_task()
    task.target_dictionary = make_dictionary(5)
    with pytest.raises(UserError, match="--joined-dictionary"):
        build_model("dnpg", task, **TINY)


@pytest.mark.parametrize("kind", [VocabularyScores, WholeScores])
@pytest.mark.parametrize("output_layer", ["linear", "query_embedding"])
@torch.no_grad()
def test_the_scores_of_a_search_are_those_of_all_words_at_once(kind, output_layer):
    """The expected values come from ``LevelOutputs.scores``, which computes the mixture of section 2.3."""
    decoder, rows = build(output_layer=output_layer).eval().decoder, 4
    scores = decoder.search_scores(lambda output, words: kind(output, words, output.num_candidates, rows))
    states = torch.randn(rows, 8 + 6, generator=torch.Generator().manual_seed(3))
    features = torch.cat([states, torch.tensor([0.3, 0.7]).log().expand(rows, 2)], dim=1)
    expected = decoder.output.scores(features, decoder.word_embeddings)
    torch.testing.assert_close(scores.compute(features), expected.logsumexp(dim=1))
    words = torch.arange(expected.size(1)).expand(rows, -1)
    torch.testing.assert_close(scores.get(words), expected)
