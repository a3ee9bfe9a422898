"""Test that a loss which is NaN, infinite or very large stops the training.

The weights are not updated, and the message names the batch.
"""

import math

import pytest
import torch

from wean_fairseq.host import training
from wean_fairseq.host.divergence import Diverged, check_loss, describe
from wean_fairseq.tasks.guarded import GuardedConfig, GuardedTask

BATCH = {"id": torch.tensor([9, 3, 4]), "ntokens": 10}


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (math.nan, "the loss is nan"),
        (math.inf, "the loss is inf"),
        (-math.inf, "the loss is -inf"),
        (10_001.0, "the loss is 1000 nats a token, more than --loss-limit 1000"),
        (1.6e22, "the loss is 1.6e+21 nats a token, more than --loss-limit 1000"),
    ],
)
def test_a_diverged_loss_is_refused(loss, said):
    with pytest.raises(Diverged, match="training diverged at update 12: ") as caught:
        check_loss(torch.tensor(loss), BATCH, 1000.0, "update 12")
    assert said in str(caught.value)
    assert "the sentences 3, 4, 9 (counted from 0). No checkpoint was changed" in str(caught.value)


@pytest.mark.parametrize(("loss", "limit"), [(10_000.0, 1000.0), (0.0, 1000.0), (1.6e22, 0.0)])
def test_other_losses_pass(loss, limit):
    check_loss(torch.tensor(loss, requires_grad=True), BATCH, limit, "update 12")


def test_the_first_eight_sentences_of_all_batches_are_named():
    samples = [{"id": torch.arange(5, 10)}, {}, None, {"id": torch.arange(5)}]
    assert "with the sentences 0, 1, 2, 3, 4, 5, 6, 7 and 2 more (counted" in describe(samples, "update 1", "nan")


class Trainer:
    """A trainer whose learning rates are given in advance, one for each number of updates."""

    def __init__(self, rates: list[float], updates: int = 0) -> None:
        self.rates, self.updates = rates, updates

    is_data_parallel_master = True

    def get_num_updates(self) -> int:
        return self.updates

    def get_lr(self) -> float:
        return self.rates[self.updates]


@pytest.mark.parametrize(
    ("rates", "end"),
    [([0.0, 0.1, 0.2], None), ([0.2, 0.1, 0.0], 3), ([0.0, 0.1, 0.0, 0.0, 0.0], 3), ([0.1, 0.1], None)],
    ids=["warm-up", "decay", "both", "constant"],
)
def test_a_rate_that_has_fallen_to_0_is_reported_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, rates: list[float], end: int | None
) -> None:
    monkeypatch.setattr(training.revision, "commit", lambda: "unknown")
    trainer = Trainer(rates)
    for trainer.is_data_parallel_master in (False, True):  # other processes report nothing
        assert caplog.records == []
        for trainer.updates in range(len(rates)):
            training.train_step(lambda *_: "result", trainer, [])
    expected = [] if end is None else [f"the learning rate is 0 in update {end}, so that the model does not"]
    assert [record.message[: len(expected[0])] for record in caplog.records] == expected


def test_the_commit_is_logged_once_by_one_process(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training.revision, "commit", lambda: "abc")
    caplog.set_level("INFO", "fairseq_cli.train")
    for is_master in (False, True):
        assert caplog.messages == []
        trainer = Trainer([0.1, 0.1])
        trainer.is_data_parallel_master = is_master
        for _ in range(2):
            training.train_step(lambda *_: "result", trainer, [])
    assert caplog.messages == ["training with wean_fairseq at commit abc"]


def test_gradients_with_nan_name_their_batches():
    def bad_gradients(trainer, samples):
        raise FloatingPointError("gradients are Nan/Inf")

    with pytest.raises(Diverged, match=r"at update 42: gradients are Nan/Inf, .* sentences 3, 4, 9"):
        training.train_step(bad_gradients, Trainer([0.1] * 42, 41), [BATCH])


class Task(GuardedTask):
    """Task whose loss is chosen by the test."""

    def __init__(self):
        self.cfg, self._update = GuardedConfig(), None


@pytest.fixture
def task(monkeypatch):
    from fairseq.tasks.translation import TranslationTask

    for name in ("train_step", "valid_step"):
        monkeypatch.setattr(TranslationTask, name, lambda self, sample, **_: (torch.tensor(sample["loss"]), 1, {}))
    return Task()


def test_the_task_stops_in_training_and_in_the_validation_of_a_training(task):
    bad = BATCH | {"loss": math.nan}
    task.valid_step(bad)  # without a training, fairseq-validate prints the loss and continues
    task.train_step(BATCH | {"loss": 1.0}, update_num=4)
    with pytest.raises(Diverged, match="at the validation after update 5: the loss is nan"):
        task.valid_step(bad)
    # a process without a batch repeats an old batch, whose loss is ignored
    task.train_step(bad, update_num=5, ignore_grad=True)
    with pytest.raises(Diverged, match="at update 6: the loss is nan"):
        task.train_step(bad, update_num=5)
