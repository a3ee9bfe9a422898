"""Checks of slots that every copying model must pass in addition to ``ModelContract``, for every arch of the family.

``ModelContract`` uses a dictionary without slots (K = 0). The checks of this module use three slots.
"""

from typing import Any

import pytest
import torch

from tests.model_contract import (
    EOS,
    PAD,
    UNK,
    ModelContract,
    build_model,
    collate,
    log_probs,
    make_dictionary,
    make_task,
    token_log_probs,
    unpad,
)
from wean_fairseq.data.extended_vocabulary import ExtendedDictionary
from wean_fairseq.modules import CopyDistribution

SLOTS = 3
BASE = 23  # number of ids of the base vocabulary: 4 special symbols and 19 words
FIRST, SECOND, THIRD = BASE, BASE + 1, BASE + 2

# Sources in the format of SlotMap, which numbers slots in the order of first occurrence and uses <unk> for a fourth
# unknown word.
SOURCES = [
    [FIRST, 7, FIRST, SECOND, 9, EOS],  # one unknown word occurs twice, another occurs once
    [8, 5, EOS],  # no unknown word
    [FIRST, SECOND, THIRD, UNK, 6, 6, 12, EOS],  # more unknown words than slots, and a known word that occurs twice
]
TARGETS = [
    [SECOND, FIRST, 7, 11, EOS],  # copied, copied from two places, copied or generated, only generated
    [5, UNK, EOS],
    [6, UNK, THIRD, 20, FIRST, 12, EOS],
]


def copy_task(slots: int = SLOTS) -> Any:
    dictionary = ExtendedDictionary(make_dictionary(BASE - 4))
    dictionary.reserve_slots(slots)
    return make_task(dictionary)


def copy_batch(**layout: Any) -> dict[str, torch.Tensor]:
    """Return ``SOURCES`` and ``TARGETS`` as a batch, padded as fairseq pads them."""
    return collate([torch.tensor(row) for row in SOURCES], [torch.tensor(row) for row in TARGETS], **layout)


def rename(tokens: torch.Tensor, names: dict[int, int]) -> torch.Tensor:
    renamed = tokens.clone()
    for old, new in names.items():
        renamed[tokens == old] = new
    return renamed


def choices(model: Any, previous: torch.Tensor, encoder_out: dict[str, torch.Tensor]) -> CopyDistribution:
    """Return the probabilities of generating and copying at every step of ``previous`` (B, T)."""
    memory = model.decoder.remember(encoder_out)
    return model.decoder.choices(model.decoder.steps(previous, memory), memory)


class CopyContract(ModelContract):
    """Test classes inherit this class instead of ``ModelContract``."""

    @pytest.fixture
    def copier(self, case):
        arch, options = case
        return build_model(arch, copy_task(), **options)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_probabilities_sum_to_one_over_words_and_slots(self, copier, dtype):
        batch = copy_batch()
        lprobs = log_probs(copier.to(dtype), batch)
        assert lprobs.shape == (*batch["target"].shape, BASE + SLOTS)
        torch.testing.assert_close(lprobs.float().exp().sum(-1), torch.ones(batch["target"].shape), rtol=0, atol=1e-5)

    def test_only_slots_that_the_source_uses_have_probability(self, copier):
        lprobs = log_probs(copier, copy_batch())
        assert torch.isfinite(lprobs[..., :BASE]).all()
        used = torch.tensor([[True, True, False], [False, False, False], [True, True, True]]) & copier.decoder.copies
        possible = (lprobs[..., BASE:] != float("-inf")).all(dim=1)
        impossible = (lprobs[..., BASE:] == float("-inf")).all(dim=1)
        assert torch.equal(possible, used)
        assert torch.equal(impossible, ~used)

    def test_boundaries_and_padding_are_never_copied(self, copier):
        batch = copy_batch()
        distribution = choices(copier, batch["prev_output_tokens"], copier.encoder(batch["src_tokens"]))
        boundary = (batch["src_tokens"] == PAD) | (batch["src_tokens"] == EOS)
        assert (distribution.copy.movedim(1, -1)[boundary] == float("-inf")).all()

    def test_the_loss_with_slots_is_the_nll_of_the_scores(self, copier):
        batch = copy_batch()
        known = batch | {"target": copier.decoder.known_targets(batch["target"])}
        expected = -sum(row.sum() for row in token_log_probs(copier, known))
        sums = copier(**batch)
        torch.testing.assert_close(sums.loss, expected, rtol=1e-5, atol=1e-5)

    def test_label_smoothing_goes_to_the_base_vocabulary_alone(self, copier):
        """Test against a loop over the base words: (1 - e - e_i) nll - e_i sum(log p), with e_i = e / (V - 1)."""
        batch, eps = copy_batch(), 0.1
        target = copier.decoder.known_targets(batch["target"])
        lprobs = log_probs(copier, batch)
        nll = -lprobs.gather(2, target.unsqueeze(2)).squeeze(2)
        each = eps / (BASE - 1)
        per_token = (1 - eps - each) * nll - each * lprobs[..., :BASE].sum(-1)
        expected = per_token[batch["target"] != PAD].sum()
        sums = copier(**batch, label_smoothing=eps)
        torch.testing.assert_close(sums.loss, expected, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
    def test_a_batch_without_targets_has_no_loss(self, copier, label_smoothing):
        """Test a batch without targets, which empty lines cause with ``--skip-first-target``."""
        batch = copy_batch()
        batch["target"] = torch.full_like(batch["target"], PAD)
        loss = copier.eval()(**batch, label_smoothing=label_smoothing).loss
        loss.backward()
        assert loss.item() == 0.0
        assert all(weight.grad is None or weight.grad.eq(0).all() for weight in copier.parameters())

    def test_which_slot_a_word_has_does_not_matter(self, copier):
        batch = copy_batch()
        names = {FIRST: SECOND, SECOND: FIRST}
        renamed = {name: rename(value, names) if value.dim() == 2 else value for name, value in batch.items()}
        order = [*range(BASE), SECOND, FIRST, THIRD]
        torch.testing.assert_close(log_probs(copier, renamed)[..., order], log_probs(copier, batch))

    @pytest.mark.parametrize("left_pad_source", [False, True])
    def test_padding_and_neighbours_change_nothing_with_slots(self, copier, left_pad_source):
        batch = copy_batch()
        batch["target"] = copier.decoder.known_targets(batch["target"])
        expected = token_log_probs(copier, batch)
        sources, targets = unpad(batch)
        padded = collate(sources, targets, left_pad_source=left_pad_source, extra_source=4, extra_target=3)
        # ``known_targets`` may have replaced slots in the targets, but the previous words must keep the slots of the
        # batch.
        previous = torch.nn.functional.pad(batch["prev_output_tokens"], (0, 3), value=PAD)
        padded["prev_output_tokens"] = previous
        torch.testing.assert_close(token_log_probs(copier, padded), expected, rtol=1e-5, atol=1e-5)
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            alone = collate([source], [target])
            alone["prev_output_tokens"] = batch["prev_output_tokens"][row : row + 1, : len(target)]
            torch.testing.assert_close(token_log_probs(copier, alone)[0], expected[row], rtol=1e-5, atol=1e-5)

    def test_generation_steps_equal_teacher_forcing_with_slots(self, copier):
        batch = copy_batch()
        expected = log_probs(copier, batch)
        encoder_out = copier.encoder(batch["src_tokens"], batch["src_lengths"])
        state: dict[str, Any] = {}
        rows = torch.arange(3)
        for step in range(batch["target"].size(1)):
            if step == 1:
                rows = torch.tensor([2, 0, 0, 1])
                encoder_out = copier.encoder.reorder_encoder_out(encoder_out, rows)
                copier.decoder.reorder_incremental_state_scripting(state, rows)
            tokens = batch["prev_output_tokens"][rows][:, : step + 1]
            scores, _ = copier.decoder(tokens, encoder_out, incremental_state=state)
            torch.testing.assert_close(scores[:, 0], expected[rows, step], rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
    def test_gradients_are_finite_with_slots_and_with_nothing_to_copy(self, copier, label_smoothing):
        batch = copy_batch()
        empty = collate([torch.tensor([EOS]), torch.tensor([7, EOS])], [torch.tensor([5, EOS]), torch.tensor([7, EOS])])
        for sample in (batch, empty):
            copier.zero_grad()
            sums = copier(**sample, label_smoothing=label_smoothing)
            sums.loss.backward()
            assert torch.isfinite(sums.loss)
            assert all(torch.isfinite(p.grad).all() for p in copier.parameters() if p.grad is not None)
            torch.testing.assert_close(log_probs(copier, sample).exp().sum(-1), torch.ones(sample["target"].shape))
