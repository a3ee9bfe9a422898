"""Compare traces of the search with the values that the model computes for all steps at once."""

from typing import Any

import pytest
import torch

from tests.copy_contract import choices, copy_batch, copy_task
from tests.unit.search.test_fast_generator import make_model, make_sample
from wean_fairseq.search.fast_generator import FastSequenceGenerator
from wean_fairseq.search.output_writer import describe_granularity, describe_provenance
from wean_fairseq.search.traces import Trace, follow, has_traces

COPYING = ["copynet", "pointer_generator", "copy_transformer", "dnpg"]
SHOWN = {"granularity_transformer": "granularity", "mta_lstm": "topic_weights", "sc_lstm": "keywords"}


def searched(model: torch.nn.Module, sample: dict[str, Any], **options: Any) -> list[list[dict[str, Any]]]:
    generator = FastSequenceGenerator([model], model.decoder.dictionary, beam_size=4, max_len_b=9, **options)
    generator.traces = True
    assert generator.is_fast
    return generator.generate([model], sample)


def read_words(tokens: torch.Tensor) -> torch.Tensor:
    """Return the decoder input (1, T) for an output (T,)."""
    return tokens.roll(1).unsqueeze(0)


def assert_close(trace: Trace, other: Trace) -> None:
    assert (trace.steps.keys(), trace.source.keys()) == (other.steps.keys(), other.source.keys())
    for ours, theirs in ((trace.steps, other.steps), (trace.source, other.source)):
        for name, tensor in ours.items():
            torch.testing.assert_close(tensor, theirs[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"renormalise": True}])
@pytest.mark.parametrize("arch", COPYING)
def test_copies_are_those_of_the_distribution(arch, options):
    """The expected values are computed for all steps at once: the copied share of p, and the share of each position."""
    model = make_model(arch, {}, copy_task())
    sample = make_sample(model, copy_batch())
    for row, hypotheses in enumerate(searched(model, sample, **options)):
        source = sample["net_input"]["src_tokens"][row]
        source = source[source.ne(model.decoder.padding_idx)]
        encoder_out = model.encoder(source.unsqueeze(0))
        for hypothesis in hypotheses:
            tokens, steps = hypothesis["tokens"], hypothesis["trace"].steps
            distribution = choices(model, read_words(tokens), encoder_out)
            p = distribution.log_probs(model.decoder.num_slots)[0].gather(1, tokens.unsqueeze(1)).squeeze(1).exp()
            copies = distribution.copy[0].exp() * source.eq(tokens.unsqueeze(1))  # (T, S)
            torch.testing.assert_close(steps["copied"], copies.sum(1) / p, rtol=1e-3, atol=1e-4)
            places = (copies / copies.sum(1, keepdim=True)).nan_to_num(0.0)
            torch.testing.assert_close(steps["copied_from"], places, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("arch", SHOWN)
def test_what_is_shown_of_steps_is_what_the_decoder_returns(arch):
    model = make_model(arch, {})
    sample = make_sample(model)
    encoder_out = model.encoder(**sample["net_input"])
    for row, hypotheses in enumerate(searched(model, sample)):
        one = {name: tensor[row : row + 1] for name, tensor in encoder_out.items() if not name.startswith("final_")}
        one |= {name: tensor[:, row : row + 1] for name, tensor in encoder_out.items() if name.startswith("final_")}
        for hypothesis in hypotheses:
            _, extra = model.decoder(read_words(hypothesis["tokens"]), one)
            found = hypothesis["trace"].steps[SHOWN[arch]]
            torch.testing.assert_close(found, extra[SHOWN[arch]][0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("arch", [*COPYING, *SHOWN])
def test_following_outputs_gives_the_traces_of_the_search(arch):
    """Only the fast search records traces, so after other searches the steps are computed again."""
    model = make_model(arch, {}, copy_task() if arch in COPYING else None)
    sample = make_sample(model, copy_batch() if arch in COPYING else None)
    hypotheses = searched(model, sample)
    del hypotheses[1][2:]  # sentences may have different numbers of hypotheses
    traces = [hypothesis.pop("trace") for of_sentence in hypotheses for hypothesis in of_sentence]
    follow(model, sample, hypotheses)
    followed = [hypothesis["trace"] for of_sentence in hypotheses for hypothesis in of_sentence]
    for trace, other in zip(traces, followed, strict=True):
        assert_close(trace, other)


def test_granularities_are_numbered_by_layer():
    model = make_model("granularity_transformer", {"ga_start_layer": 2})
    sample = make_sample(model)
    trace = searched(model, sample)[0][0]["trace"]
    of_source, of_output = trace.granularities()
    assert list(of_source) == list(of_output) == [2]
    words = sample["net_input"]["src_tokens"][0].ne(model.decoder.padding_idx)
    expected = model.encoder(**sample["net_input"])["granularity"][0, 0, words]
    torch.testing.assert_close(of_source[2], expected)
    assert Trace({}, {}).granularities() == ({}, {})


def test_a_baseline_that_copies_nothing_says_so():
    model = make_model("rnnsearch", {}, copy_task())
    trace = searched(model, make_sample(model, copy_batch()))[0][0]["trace"]
    assert trace.steps == {}
    assert describe_provenance(["a"], trace) == {"output": [{"word": "a", "copied": 0.0, "positions": {}}]}


def test_lines_about_outputs_have_four_digits_and_no_position_below_half_a_percent():
    steps = {
        "copied": torch.tensor([0.123456, 1.0]),
        "copied_from": torch.tensor([[0.0051, 0.0049, 0.99], [0.25, 0.123456, 0.0]]),
        "granularity": torch.tensor([[0.123456], [0.5]]),
    }
    trace = Trace(steps, {"granularity": torch.tensor([[0.98766, 0.25, 1.0]])}, granular_from=2)
    assert describe_provenance(["a", "</s>"], trace)["output"] == [
        {"word": "a", "copied": 0.1235, "positions": {"0": 0.0051, "2": 0.99}},
        {"word": "</s>", "copied": 1.0, "positions": {"0": 0.25, "1": 0.1235}},
    ]
    assert describe_granularity(["a", "</s>"], trace) == {
        "source_granularity": {"2": [0.9877, 0.25, 1.0]},
        "output": ["</s>", "a"],
        "output_granularity": {"2": [0.1235, 0.5]},
    }


def test_models_of_fairseq_have_no_traces():
    assert not has_traces(torch.nn.Module())
    archs = ("wean_lstm", "paraphrase_transformer", "copynet")
    assert [has_traces(make_model(arch, {})) for arch in archs] == [False, False, True]
