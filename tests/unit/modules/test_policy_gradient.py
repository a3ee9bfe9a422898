"""Test the loss of REINFORCE with the expectation over all sentences, and test its curriculum and baseline."""

import itertools

import pytest
import torch

from wean_fairseq.modules.policy_gradient import given_words, mean_of_others, policy_loss

WORDS, END, LENGTH = 3, 0, 3  # sentences of the words 1 and 2 that end with 0 or have three words


def all_sentences():
    """Yield every sentence that can be drawn. The end symbol comes last or not at all."""
    for length in range(1, LENGTH + 1):
        for words in itertools.product(range(WORDS), repeat=length):
            if END not in words[:-1] and (words[-1] == END or length == LENGTH):
                yield words


def reward(words):
    """Return an arbitrary number that depends on the whole sentence."""
    return 0.3 * len(words) - 0.7 * words.count(2) + 0.11 * words[0]


@pytest.mark.parametrize("baseline", [0.0, 0.4])
def test_its_expected_gradient_is_that_of_the_reward(baseline):
    """The expected gradient is that of sum_y P(y) r(y) over all 15 sentences, which does not depend on the baseline."""
    torch.manual_seed(1)
    logits = torch.randn(LENGTH, WORDS, dtype=torch.double, requires_grad=True)
    lprobs = logits.log_softmax(dim=1)
    chances = [sum(lprobs[place, word] for place, word in enumerate(words)).exp() for words in all_sentences()]
    assert len(chances) == 15
    torch.testing.assert_close(sum(chances), torch.tensor(1.0, dtype=torch.double))
    mean = sum(chance * reward(words) for chance, words in zip(chances, all_sentences(), strict=True))
    (expected,) = torch.autograd.grad(mean, logits, retain_graph=True)
    found = torch.zeros_like(logits)
    for chance, words in zip(chances, all_sentences(), strict=True):
        picked = lprobs[torch.arange(len(words)), list(words)].unsqueeze(0)
        drawn = torch.ones_like(picked, dtype=torch.bool)
        rewards = torch.tensor([reward(words)], dtype=torch.double)
        loss = policy_loss(picked, rewards, torch.full_like(picked, baseline), ~drawn, drawn)
        found -= chance.detach() * torch.autograd.grad(loss, logits, retain_graph=True)[0]
    torch.testing.assert_close(found, expected)


def test_given_words_cost_their_likelihood_and_padding_nothing():
    """By hand, the loss is -(-1 - 2) - (0.5 - 0.2) (-4) = 3 + 1.2. Padding has probability 0 and must not count."""
    lprobs = torch.tensor([[-1.0, -2.0, -4.0, -torch.inf]], requires_grad=True)
    given, drawn = torch.tensor([[True, True, False, False]]), torch.tensor([[False, False, True, False]])
    rewards, baseline = torch.tensor([0.5], requires_grad=True), torch.full((1, 1), 0.2, requires_grad=True)
    loss = policy_loss(lprobs, rewards, baseline, given, drawn)
    loss.backward()
    assert loss.item() == pytest.approx(4.2)
    torch.testing.assert_close(lprobs.grad, torch.tensor([[-1.0, -1.0, -0.3, 0.0]]))
    assert rewards.grad is None
    assert baseline.grad is None


def test_given_words_fall_in_steps_to_none():
    """In the schedule of the paper, 24 words are given at first, and three fewer every second epoch.

    From epoch 17 on, all words are drawn.
    """
    assert [given_words(epoch, 24, 3, 2) for epoch in range(1, 20)] == [
        *(24, 24, 21, 21, 18, 18, 15, 15, 12, 12, 9, 9, 6, 6, 3, 3, 0, 0, 0)
    ]
    assert [given_words(epoch, 5, 3, 1) for epoch in range(1, 5)] == [5, 2, 0, 0]


def test_the_mean_of_the_others_leaves_out_the_own_reward_and_those_that_do_not_count():
    """For the rewards 1, 4 and 7, the means of the other two rewards are 5.5, 4 and 2.5.

    The row with reward 100 is excluded from the means, and gets the mean of all three.
    """
    found = mean_of_others(torch.tensor([1.0, 4.0, 100.0, 7.0]), torch.tensor([True, True, False, True]))
    assert found.tolist() == [5.5, 4.0, 4.0, 2.5]
    assert mean_of_others(torch.tensor([3.0, 5.0]), torch.tensor([True, True])).tolist() == [5.0, 3.0]
    assert mean_of_others(torch.tensor([3.0]), torch.tensor([True])).tolist() == [0.0]
