"""Test ``rnn_distract`` with the checks that all models share, and test its equations and its beam search."""

from typing import Any, ClassVar

import pytest
import torch

from tests.model_contract import EOS, ModelContract, build_model, make_batch, make_dictionary, unpad
from tests.reference import rnn_distract as reference
from wean_fairseq.errors import UserError
from wean_fairseq.search.fast_generator import FastSequenceGenerator

TINY = {"embed_dim": 6, "hidden_size": 8, "attention_dim": 5}
WEIGHTS = (0.7, 1.1, 0.4)
PREFERRING = dict(zip(("distract_attention", "distract_content", "distract_state"), WEIGHTS, strict=True))


class TestRnnDistractContract(ModelContract):
    cases: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "rnn_distract": ("rnn_distract", TINY),
        "query embedding": ("rnn_distract", TINY | {"output_layer": "query_embedding"}),
    }


def distracting(**options):
    """Build a model with random distraction weights, because the initial weights have no effect."""
    model = build_model("rnn_distract", **TINY | options)
    torch.nn.init.normal_(model.decoder.content_distraction.before)
    return model


@pytest.mark.parametrize("options", [{}, {"output_layer": "query_embedding"}])
def test_the_scores_are_those_of_the_equations(options):
    """The expected values come from the naive forward pass of ``tests/reference/rnn_distract.py``, with any padding."""
    model, batch = distracting(**options), make_batch()
    found, _ = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
    for row, (source, target) in enumerate(zip(*unpad(batch), strict=True)):
        previous = torch.cat([target[-1:], target[:-1]])
        expected = reference.read(model, source, previous).logits
        torch.testing.assert_close(found[row, : len(previous)], expected, rtol=1e-4, atol=1e-5)


def test_a_search_ranks_hypotheses_by_the_distance_of_their_last_step():
    """The expected score of a hypothesis is its log-probability plus the reference's preference for its last step."""
    model, batch = distracting(**PREFERRING).requires_grad_(False), make_batch()
    sample = {"net_input": {name: batch[name] for name in ("src_tokens", "src_lengths")}}
    generator = FastSequenceGenerator([model], make_dictionary(), beam_size=4, max_len_b=8, normalize_scores=False)
    sources, _ = unpad(batch)
    for source, hypotheses in zip(sources, generator.generate([model], sample), strict=True):
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"]
            reading = reference.read(model, source, torch.cat([torch.tensor([EOS]), tokens[:-1]]))
            logs = reading.logits.log_softmax(dim=-1).gather(1, tokens.unsqueeze(1)).sum()
            preferred = reference.preference(reading, len(tokens) - 1, WEIGHTS)
            assert float(hypothesis["score"]) == pytest.approx(float(logs) + preferred, abs=1e-4)
            assert len(tokens) == 1 or preferred


def test_nothing_is_looked_back_at_without_a_weight():
    model = build_model("rnn_distract", **TINY)
    memory = model.decoder.remember(model.encoder(make_batch()["src_tokens"]))
    assert model.decoder.begin(memory).before is None


def test_a_negative_weight_is_refused():
    with pytest.raises(UserError, match="--distract-content must be 0 or more"):
        build_model("rnn_distract", **TINY, distract_content=-1.0)
