"""Test that the faster search gives the same words, scores and order as fairseq's search, for all options.

The expected values come from ``SequenceGenerator`` or ``PaperSequenceGenerator`` with the same model. The weights are
scaled up, because nearly equal scores could be ordered differently after rounding.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from tests.copy_contract import copy_batch, copy_task
from tests.families import families, tiny
from tests.model_contract import EOS, build_model, collate, make_dictionary, make_task, sentence, task_inputs
from tests.processors import needs_int8
from wean_fairseq.errors import UserError
from wean_fairseq.modules import QueryEmbedding, TiedOutput
from wean_fairseq.search import fast_generator, packed_linear, packed_model, vocabulary_scores
from wean_fairseq.search.fast_generator import FastSequenceGenerator
from wean_fairseq.search.generator import PaperSequenceGenerator
from wean_fairseq.search.vocabulary_scores import BF16, INT8

TINY = {"embed_dim": 6, "hidden_size": 10}
TRANSFORMER = {"embed_dim": 12, "ffn_dim": 10, "encoder_layers": 2, "decoder_layers": 2, "attention_heads": 3}
LEVELS = {"phrase_dim": 8, "phrase_heads": 2, "sentence_dim": 6, "sentence_heads": 3, "ffn_factor": 2}
SIZES = {"dnpg": LEVELS | {"encoder_layers": 2, "decoder_layers": 2, "separator_dim": 6, "aggregator_dim": 5}}
WORDS = 196  # with the four special symbols, these are more than three blocks
LENGTHS = (5, 2, 4, 3)

FAMILIES = {
    "wean_lstm": ("wean_lstm", {}),
    "dot": ("wean_lstm", {"embed_dim": 10, "query_score": "dot"}),
    "concat": ("wean_lstm", {"query_score": "concat"}),
    "bias": ("wean_lstm", {"query_bias": True}),
    "candidates": ("wean_lstm", {"num_candidates": 90}),
    "both directions": ("wean_lstm", {"encoder_bidirectional": True, "attention_tanh": True}),
    "padding attended to": ("wean_lstm", {"attn_pad_leak": True}),
    "seq2seq_lstm": ("seq2seq_lstm", {}),
    "copynet": ("copynet", {}),
    "copynet, queries": ("copynet", {"output_layer": "query_embedding"}),
    "copynet, coverage": ("copynet", {"attention_coverage": True, "location_width": 4, "cell": "lstm"}),
    "rnnsearch": ("rnnsearch", {}),
    "enc_dec": ("enc_dec", {}),
    "pointer_generator": ("pointer_generator", {}),
    "pointer_generator, coverage": ("pointer_generator", {"coverage": True}),
    "residual_lstm": ("residual_lstm", {}),
    "mta_lstm": ("mta_lstm", {}),
    "tat_lstm": ("tat_lstm", {}),
    "tav_lstm": ("tav_lstm", {}),
    "sc_lstm": ("sc_lstm", {}),
    "ppg": ("ppg", {"chunk_symbol": "w7"}),
    "nts": ("nts", {}),
    "enc_dec_a": ("enc_dec_a", {}),
    "dress_ls": ("dress_ls", {"lexical_dim": 7, "lexical_share": 0.4}),
    "paraphrase_transformer": ("paraphrase_transformer", {}),
    "paraphrase_transformer, queries": ("paraphrase_transformer", {"output_layer": "query_embedding"}),
    "copy_transformer": ("copy_transformer", {}),
    "copy_transformer, one softmax": ("copy_transformer", {"copy_mode": "shared-softmax"}),
    "copy_transformer, concat": ("copy_transformer", {"output_layer": "query_embedding", "query_score": "concat"}),
    "granularity, resonance": ("granularity_transformer_resonance", {}),
    "granularity, scope": ("granularity_transformer_scope", {}),
    "granularity, product": ("granularity_transformer_product", {}),
    "granularity, mean": ("granularity_transformer_mean", {"ga_normalize": "none"}),
    "granularity, release": ("granularity_transformer_release", {"ga_cross": "resonance"}),
    "dnpg": ("dnpg", {}),
    "dnpg, queries": ("dnpg", {"output_layer": "query_embedding"}),
    "pc_san": ("pc_san", {"bert_layers": "none"}),
    "pc_san, source": ("pc_san", {"bert_layers": "none", "context": "source"}),
    "pc_san, no context": ("pc_san", {"bert_layers": "none", "context": "none"}),
}
# The other families are tested with their default options.
OTHERS = sorted(set(families()) - {ARCH_MODEL_NAME_REGISTRY[arch] for arch, _ in FAMILIES.values()})
OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "greedy": {"beam_size": 1},
    "wide": {"beam_size": 13},
    "short": {"max_len_b": 3},
    "nothing but the end": {"max_len_b": 0, "min_len": 0},
    "empty outputs": {"min_len": 0},
    "one length": {"min_len": 7, "max_len_b": 7},
    "by the source": {"max_len_a": 1.5, "max_len_b": 1},
    "length penalty": {"len_penalty": 0.3},
    "sums": {"normalize_scores": False},
    "unk disliked": {"unk_penalty": 5.0},
    "unk never": {"unk_penalty": float("inf")},
    "unk liked": {"unk_penalty": -5.0},
    "temperature": {"temperature": 1.4},
    "suppressed": {"tokens_to_suppress": ("w3", "w4", "w5")},
}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Use several chunks even for these small dictionaries."""
    monkeypatch.setattr(vocabulary_scores, "CPU_CHUNK", 1500)


def make_model(arch: str, options: dict[str, Any], task: Any = None, seed: int = 11) -> torch.nn.Module:
    default = TRANSFORMER if "transformer" in arch or arch == "pc_san" else TINY
    sizes = {} if arch in OTHERS else SIZES.get(arch, default)
    task = task or make_task(make_dictionary(WORDS))
    model = build_model(arch, task, seed=seed, **sizes | options)
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(0.7 * torch.randn_like(parameter))
            if len(parameter) == len(model.decoder.word_embeddings):
                parameter[EOS] *= 3.0  # makes </s> the best word often, so that sentences end at different steps
            if name == "decoder.output.bias":
                parameter.mul_(0.1)  # otherwise this parameter alone determines the words of a Transformer
    return model


def make_sample(model: torch.nn.Module, batch: dict[str, torch.Tensor] | None = None) -> dict[str, Any]:
    if batch is None:
        generator = torch.Generator().manual_seed(5)
        sentences = [[sentence(generator, length, WORDS + 4) for length in LENGTHS] for _ in range(2)]
        batch = collate(*sentences)
    inputs = {name: batch[name] for name in ("src_tokens", "src_lengths")}
    return {"net_input": inputs | task_inputs(model, batch)}


def assert_same(found: list[list[dict[str, Any]]], expected: list[list[dict[str, Any]]]) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert [one["tokens"].tolist() for one in ours] == [one["tokens"].tolist() for one in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.keys() == other.keys()
            for name in ("score", "positional_scores", "attention"):
                torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=1e-4, msg=name)


def search(cls: type, models: list[torch.nn.Module], sample: dict[str, Any], call: Any = None, **options: Any) -> Any:
    generator = cls(models, models[0].decoder.dictionary, **{"beam_size": 5, "max_len_b": 12} | options)
    return generator.generate(models, sample, **call or {})


def compare(model: torch.nn.Module, sample: dict[str, Any], **options: Any) -> None:
    found = search(FastSequenceGenerator, [model], sample, **options)
    assert_same(found, search(SequenceGenerator, [model], sample, **options))


@pytest.fixture
def stock_is_not_used(monkeypatch):
    """Fail if the search falls back to fairseq's loop, because the comparison would then be meaningless."""
    monkeypatch.setattr(PaperSequenceGenerator, "generate", _own_generate)


def _own_generate(self: Any, models: Any, sample: Any, **call: Any) -> Any:
    assert self._fast_decoder() is not None
    return SequenceGenerator.generate(self, models, sample, **call)


@pytest.mark.parametrize(("arch", "options"), FAMILIES.values(), ids=FAMILIES)
def test_every_family_finds_what_fairseq_finds(arch, options, stock_is_not_used):
    model = make_model(arch, options)
    sample = make_sample(model)
    for beam in (2, 5):
        compare(model, sample, beam_size=beam)
    compare(model, sample, min_len=6, max_len_b=9, len_penalty=0.5, tokens_to_suppress=("w3", "w150"))


@pytest.mark.parametrize("family", OTHERS)
def test_every_other_family_finds_it_too_by_whichever_loop(family):
    model = make_model(family, tiny(family))
    compare(model, make_sample(model))
    compare(model, make_sample(model), min_len=6, max_len_b=9, len_penalty=0.5)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_option_does_what_it_does_in_fairseq(options, seed, stock_is_not_used):
    model = make_model("wean_lstm", {}, seed=seed)
    compare(model, make_sample(model), **options)


@pytest.mark.parametrize(
    "arch", ["copynet", "rnnsearch", "pointer_generator", "copy_transformer", "paraphrase_transformer", "dnpg"]
)
@pytest.mark.parametrize(
    "options", [{}, {"unk_penalty": float("inf")}, {"tokens_to_suppress": ("w3",)}, {"max_len_b": 2}]
)
def test_words_outside_the_vocabulary_are_copied_alike(arch, options, stock_is_not_used):
    model = make_model(arch, {}, copy_task())
    compare(model, make_sample(model, copy_batch()), **options)


def test_a_source_with_nothing_to_copy(stock_is_not_used):
    model = make_model("pointer_generator", {}, copy_task())
    compare(model, make_sample(model, collate([torch.tensor([2]), torch.tensor([5, 6, 2])], [torch.tensor([2])] * 2)))


@pytest.mark.parametrize(
    "case", ["wean_lstm", "copynet", "rnnsearch", "mta_lstm", "pointer_generator", "copy_transformer", "dnpg", "pc_san"]
)
def test_sources_of_one_word_and_of_none(case, stock_is_not_used):
    model = make_model(*FAMILIES[case])
    sources = [torch.tensor([EOS]), torch.tensor([9, EOS]), torch.tensor([EOS]), torch.tensor([5, 6, 7, 5, EOS])]
    compare(model, make_sample(model, collate(sources, [torch.tensor([5, 6, EOS])] * 4)))


@pytest.mark.parametrize("case", ["wean_lstm", "concat", "seq2seq_lstm", "copynet", "copy_transformer", "dnpg"])
def test_a_search_uses_the_weights_of_its_time(case, stock_is_not_used):
    """A training uses one generator for all validations, so the generator must notice that weights have changed."""
    model = make_model(*FAMILIES[case])
    sample = make_sample(model)
    generator = FastSequenceGenerator([model], model.decoder.dictionary, beam_size=5, max_len_b=12)
    before = generator.generate([model], sample)
    for parameter in model.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    after = generator.generate([model], sample)
    assert_same(after, search(SequenceGenerator, [model], sample))
    assert [one["tokens"].tolist() for one in after[0]] != [one["tokens"].tolist() for one in before[0]]


def test_in_float64_a_search_of_large_states_is_the_same(stock_is_not_used):
    """In float64 rounding is negligible, so that only an error in the algorithm could cause a difference."""
    model = make_model("wean_lstm", {"embed_dim": 40, "hidden_size": 60}).double()
    compare(model, make_sample(model), max_len_b=40, beam_size=8)


@pytest.mark.parametrize("wanted", [1, 3])
@pytest.mark.parametrize("rule", ["stop_when_best_finished", "stop_when_nothing_better"])
@pytest.mark.parametrize("arch", ["wean_lstm", "copynet"])
def test_the_stop_rules_are_those_of_the_plain_class(arch, rule, wanted, stock_is_not_used):
    model = make_model(arch, {})
    sample = make_sample(model)
    options = {rule: wanted, "max_len_b": 15, "unk_penalty": 1.0}
    found = search(FastSequenceGenerator, [model], sample, **options)
    plain = PaperSequenceGenerator([model], model.decoder.dictionary, beam_size=5, **options)
    assert_same(found, SequenceGenerator.generate(plain, [model], sample))


@pytest.mark.parametrize("arch", ["wean_lstm", "copynet", "dnpg"])
def test_without_unknown_words_the_others_have_all_probability(arch, stock_is_not_used):
    """The expected scores come from the slower search, which applies log_softmax to all words except ``<unk>``."""
    model = make_model(*FAMILIES[arch])
    sample = make_sample(model)
    options = {"max_len_b": 10, "renormalise": True}
    found = search(FastSequenceGenerator, [model], sample, **options)
    plain = PaperSequenceGenerator([model], model.decoder.dictionary, beam_size=5, **options)
    assert_same(found, SequenceGenerator.generate(plain, [model], sample))
    encoder_out = model.encoder(**{name: sample["net_input"][name] for name in ("src_tokens", "src_lengths")})
    for row, hypotheses in enumerate(found):
        tokens = hypotheses[0]["tokens"]
        assert model.decoder.dictionary.unk() not in tokens
        read = torch.cat([tokens.new_tensor([EOS]), tokens[:-1]]).expand(len(found), -1)
        scores = model.get_normalized_probs(model.decoder(read, encoder_out=encoder_out), log_probs=True)[row]
        scores[:, model.decoder.dictionary.unk()] = -torch.inf
        expected = scores.log_softmax(dim=-1).gather(1, tokens.unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(hypotheses[0]["positional_scores"], expected, rtol=1e-4, atol=1e-4)


def test_alignments_for_unknown_words_are_the_same():
    model = make_model("wean_lstm", {})
    sample = make_sample(model)
    found, expected = (
        search(cls, [model], sample, source_positions=True) for cls in (FastSequenceGenerator, PaperSequenceGenerator)
    )
    assert_same(found, expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert [one["alignment"] for one in ours] == [one["alignment"] for one in theirs]


@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({}, {"prefix_tokens": torch.tensor([[8, 9], [7, 1], [5, 5], [6, 2]])}),
        ({"no_repeat_ngram_size": 2}, {}),
        ({"beam_size": 120}, {}),  # twice the beam is more than the number of words
    ],
)
def test_what_fairseqs_loop_is_left_to_do_comes_out_as_well(options, call):
    model = make_model("wean_lstm", {})
    sample = make_sample(model)
    found, expected = (
        search(cls, [model], sample, call, **options) for cls in (FastSequenceGenerator, PaperSequenceGenerator)
    )
    assert_same(found, expected)


def test_outputs_may_begin_after_another_word(stock_is_not_used):
    model = make_model("wean_lstm", {})
    sample = make_sample(model)
    found, expected = (
        search(cls, [model], sample, {"bos_token": 7}) for cls in (FastSequenceGenerator, SequenceGenerator)
    )
    assert_same(found, expected)


def test_an_ensemble_is_left_to_fairseq():
    models = [make_model("wean_lstm", {}, seed=seed) for seed in (1, 2)]
    sample = make_sample(models[0])
    generator = FastSequenceGenerator(models, models[0].decoder.dictionary, beam_size=5, max_len_b=12)
    assert not generator.is_fast
    assert_same(generator.generate(models, sample), search(SequenceGenerator, models, sample))


@pytest.mark.parametrize(("beam", "suppressed", "fast"), [(10, 0, True), (11, 0, False), (10, 1, True), (10, 2, False)])
def test_a_beam_needs_two_words_per_hypothesis(beam, suppressed, fast):
    """Of 24 entries 3 are never written, and the others without suppressed words must be at least twice the beam."""
    model = make_model("wean_lstm", {}, make_task(make_dictionary(20)))
    words = [f"w{number}" for number in range(suppressed)]
    generator = FastSequenceGenerator(
        [model], model.decoder.dictionary, beam_size=beam, tokens_to_suppress=tuple(words)
    )
    assert generator.is_fast == fast


def test_copying_with_a_temperature_is_left_to_fairseq():
    model = make_model("copynet", {})
    compare(model, make_sample(model), temperature=1.4)


@pytest.mark.parametrize("case", ["wean_lstm", "copynet", "copy_transformer"])
def test_scores_that_are_not_finite_are_one_sentence(case, stock_is_not_used):
    """All words then have the same score, for which an earlier version chose padding beyond the dictionary."""
    model = make_model(*FAMILIES[case])
    for parameter in model.parameters():
        parameter.data.fill_(3e38)
    with pytest.raises(UserError, match="the scores of the model are not finite"):
        search(FastSequenceGenerator, [model], make_sample(model))


def test_the_longest_output_must_be_as_long_as_the_shortest():
    model = make_model("wean_lstm", {})
    with pytest.raises(UserError, match="--min-len 9 is more than the 8 words that an output may have"):
        search(FastSequenceGenerator, [model], make_sample(model), min_len=9, max_len_b=8)


@pytest.mark.parametrize("case", ["wean_lstm", "dnpg, queries"])
def test_scores_in_bfloat16_are_those_of_an_output_layer_that_rounds(case, stock_is_not_used, monkeypatch):
    """The expected values come from teacher forcing with an output layer that uses bfloat16 only for its products.

    The search of that model is not comparable, because many of its scores are equal.
    """
    model = make_model(*FAMILIES[case])
    sample = make_sample(model)
    found = search(FastSequenceGenerator, [model], sample, factors=BF16)
    exact = teacher_forced(model, sample, found)
    monkeypatch.setattr(QueryEmbedding, "scores", _rounded_scores)
    rounded = teacher_forced(model, sample, found)
    for hypotheses, expected, other in zip(found, rounded, exact, strict=True):
        torch.testing.assert_close(hypotheses[0]["positional_scores"], expected, rtol=1e-4, atol=1e-4)
        assert (expected - other).abs().max() > 1e-3


@pytest.mark.parametrize("factors", [BF16, INT8])
def test_scores_that_are_no_product_cannot_be_rounded(factors):
    """An error is raised, because the option would have no effect on such scores."""
    model = make_model(*FAMILIES["concat"])
    with pytest.raises(UserError, match=f"--{factors}-scores rounds .*--query-score concat scores words without"):
        FastSequenceGenerator([model], model.decoder.dictionary, factors=factors)


def test_integers_that_a_machine_cannot_multiply_are_refused(monkeypatch):
    model = make_model("wean_lstm", {})
    monkeypatch.setattr(fast_generator, "int8_is_exact", lambda: False)
    with pytest.raises(UserError, match="--int8-scores is for CPUs on which"):
        FastSequenceGenerator([model], model.decoder.dictionary, factors=INT8)


@pytest.mark.parametrize(
    "arch", ["wean_lstm", "copynet", "copy_transformer", "granularity_transformer_product", "dnpg"]
)
def test_scores_by_integers_are_near_those_of_the_model(arch, stock_is_not_used):
    """The expected values come from teacher forcing in float32.

    Rounding to steps of 1/127 of the largest number changes each score only a little.
    """
    needs_int8()
    model = make_model(arch, {})
    sample = make_sample(model)
    found = search(FastSequenceGenerator, [model], sample, factors=INT8)
    for hypotheses, expected in zip(found, teacher_forced(model, sample, found), strict=True):
        off = (hypotheses[0]["positional_scores"] - expected).abs().max()
        assert 0.0 < off < 0.5


@pytest.fixture
def all_maps_are_packed(monkeypatch):
    """Pack even small linear maps."""
    monkeypatch.setattr(packed_model, "FEWEST_WEIGHTS", 0)


@pytest.mark.parametrize("case", ["wean_lstm", "copynet", "paraphrase_transformer", "granularity, product", "dnpg"])
def test_maps_that_are_packed_give_the_same_outputs(case, all_maps_are_packed, stock_is_not_used):
    model = make_model(*FAMILIES[case])
    state = {name: value.clone() for name, value in model.state_dict().items()}
    sample = make_sample(model)
    compare(model, sample)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2 and len(parameter) < WORDS:  # only linear maps, not embeddings
                parameter.mul_(-0.5)
    compare(model, sample)
    model.load_state_dict(state)
    compare(model, sample)


@pytest.mark.parametrize("arch", ["paraphrase_transformer", "copy_transformer"])
def test_integers_are_the_factors_of_the_large_maps_too(arch, all_maps_are_packed, stock_is_not_used, monkeypatch):
    """The expected values come from teacher forcing with every map computed by ``Int8Linear``, which has its own test.

    It rounds each row independently of the others, so that beams and batches make no difference.
    """
    needs_int8()
    model = make_model(arch, {})
    sample = make_sample(model)
    found = search(FastSequenceGenerator, [model], sample, factors=INT8)
    exact = teacher_forced(model, sample, found)
    monkeypatch.setattr(nn.Linear, "forward", _rounded_map)
    with torch.no_grad():
        encoder_out = model.encoder(**sample["net_input"])
    monkeypatch.setattr(model.encoder, "forward", lambda *_inputs, **_more: encoder_out)
    monkeypatch.setattr(TiedOutput, "scores", _rounded_words)
    decoder = model.decoder
    for row, hypotheses in enumerate(found):
        target = hypotheses[0]["tokens"]
        words = torch.cat([target[-1:], target[:-1]]).unsqueeze(0)
        one = {name: part[row : row + 1] for name, part in encoder_out.items()}
        with torch.no_grad():
            logits, _ = decoder(words, one)
        rounded = logits[0].log_softmax(dim=1).gather(1, target.unsqueeze(1)).squeeze(1)
        off = (hypotheses[0]["positional_scores"] - rounded).abs().max()
        # a number near the middle between two steps may be rounded differently
        assert off < (rounded - exact[row]).abs().max() / 5


def _rounded_map(self: nn.Linear, inputs: torch.Tensor) -> torch.Tensor:
    product = packed_linear.Int8Linear(self.weight, self.bias, 16)
    return product(inputs.flatten(0, -2)).unflatten(0, inputs.shape[:-1])


def _rounded_words(self: TiedOutput, query: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
    parts = self.parts(query.flatten(0, -2), embeddings)
    scores = packed_linear.Int8Linear(parts.weight[: self.num_candidates], parts.bias, 16)(parts.query)
    return scores.unflatten(0, query.shape[:-1])


def test_weights_are_packed_once_for_all_batches_until_they_change(monkeypatch):
    """The expected scores come from a search that does not reuse packed weights.

    fairseq's optimisers change weights without PyTorch's version counter noticing.
    """
    model, packed = make_model("wean_lstm", {}), []
    pack = packed_linear.pack
    monkeypatch.setattr(packed_linear, "pack", lambda weight, rows: packed.append(len(weight)) or pack(weight, rows))
    sample = make_sample(model)
    generator = FastSequenceGenerator([model], model.decoder.dictionary, beam_size=5, max_len_b=12)

    def changes() -> Iterator[None]:
        yield
        with torch.no_grad():
            model.decoder.word_embeddings[7:90].mul_(-1.5)
        yield
        model.decoder.word_embeddings.data[70].mul_(-1.5)
        yield
        generator.release()
        yield

    for _ in changes():
        packed.clear()
        found = generator.generate([model], sample)
        assert sum(packed) == WORDS + 4
        assert_same(generator.generate([model], sample), found)
        assert sum(packed) == WORDS + 4
        compare(model, sample)


@torch.no_grad()
def teacher_forced(model: torch.nn.Module, sample: dict[str, Any], found: Any) -> list[torch.Tensor]:
    """Return the log-probabilities of the words in each sentence's best output, from one forward pass."""
    source = sample["net_input"]["src_tokens"]
    rows = []
    for row, hypotheses in enumerate(found):
        target = hypotheses[0]["tokens"]
        words = torch.cat([target[-1:], target[:-1]]).unsqueeze(0)
        logits, _ = model(source[row : row + 1], None, words)
        rows.append(logits[0].log_softmax(dim=1).gather(1, target.unsqueeze(1)).squeeze(1))
    return rows


def _rounded_scores(self: QueryEmbedding, query: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
    return (self.score.query_proj(query).bfloat16() @ embeddings.bfloat16().t()).float()


@pytest.mark.parametrize("arch", ["wean_lstm", "seq2seq_lstm"])
def test_without_onednns_operators_the_outputs_are_the_same(arch, monkeypatch, stock_is_not_used):
    monkeypatch.setattr(packed_linear, "pack", lambda weight, rows: None)
    model = make_model(arch, {})
    sample = make_sample(model)
    for beam in (1, 5):  # a beam of 1 and of 5 gives few and many rows
        compare(model, sample, beam_size=beam)


@pytest.mark.parametrize("arch", ["wean_lstm", "pointer_generator", "sc_lstm", "copy_transformer", "dnpg"])
def test_half_precision_models_are_searched(arch, stock_is_not_used):
    model = make_model(arch, {}).bfloat16()
    for hypotheses in search(FastSequenceGenerator, [model], make_sample(model)):
        assert len(hypotheses) == 5
        assert all(torch.isfinite(one["score"]) for one in hypotheses)
