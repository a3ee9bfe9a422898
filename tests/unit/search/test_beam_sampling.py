"""Test the distribution, the number and the order of candidates that are drawn at random."""

import pytest
import torch

from tests.model_contract import make_dictionary
from wean_fairseq.search import beam_sampling

LPROBS = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()


def search() -> beam_sampling.BeamSampling:
    return beam_sampling.BeamSampling(make_dictionary())


def test_candidates_are_drawn_by_the_sums_of_their_hypotheses(monkeypatch):
    """The oracle is the softmax over the sums of both hypotheses, -0.2 and -0.9 so far, over all eight candidates."""
    torch.manual_seed(1)
    sentences = 40_000
    lprobs = LPROBS.repeat(sentences, 2, 1)
    so_far = torch.tensor([-0.2, -0.9]).view(1, 2, 1).repeat(sentences, 1, 1)
    monkeypatch.setattr(beam_sampling, "CONTINUATIONS", 3)
    sums, words, hypotheses = search().step(1, lprobs, so_far, candidate_multiple=1)  # two candidates per sentence
    assert sums.shape == words.shape == hypotheses.shape == (sentences, 2)
    torch.testing.assert_close(sums, LPROBS[words] + torch.tensor([-0.2, -0.9])[hypotheses])
    assert (sums[:, 0] >= sums[:, 1]).all()
    assert words.max() == 2  # only the three best words of each hypothesis are drawn
    places = hypotheses * 4 + words
    assert (places[:, 0] != places[:, 1]).all()
    weights = (LPROBS[:3] + torch.tensor([[-0.2], [-0.9]])).exp().flatten()
    first = weights / weights.sum()
    # When two words are drawn without replacement, word i is drawn with p_i + sum over j of p_j p_i / (1 - p_j).
    expected = torch.stack(
        [p * (1 + sum(first[j] / (1 - first[j]) for j in range(6) if j != i)) for i, p in enumerate(first)]
    )
    found = torch.bincount(hypotheses.flatten() * 3 + words.flatten(), minlength=6) / sentences
    torch.testing.assert_close(found, expected, rtol=0, atol=0.01)  # the tolerance is four standard errors


def test_the_first_step_draws_from_one_hypothesis_alone():
    lprobs = LPROBS.repeat(5, 3, 1)
    _, words, hypotheses = search().step(0, lprobs, None)
    assert not hypotheses.any()
    # there are V - 1 candidates, so the worst word is never drawn
    assert all(len(set(row)) == 3 for row in words.tolist())


@pytest.mark.parametrize("seed", [3, 4])
def test_a_seed_gives_the_same_candidates(seed):
    lprobs = torch.randn(4, 2, 30, generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    found = []
    for _ in range(2):
        torch.manual_seed(seed)
        found.append(search().step(0, lprobs, None)[1])
    assert torch.equal(*found)
