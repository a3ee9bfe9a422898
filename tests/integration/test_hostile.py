"""Checkpoints that would run code: every command refuses them in one sentence, and nothing runs.

Each command gets another kind; all kinds through all readers are in tests/unit/checkpoints.
"""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.integration.commands import ENVIRONMENT, TASK, USER_DIR, Result, generate, run, train
from tests.integration.test_bad_input import assert_one_sentence


class Attack:
    """Pickled, it is a call of ``os.system`` that makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch '{self.mark}'",)


class Nested(Attack):
    """Pickled, it is a call that unpickles bytes in which the attack is."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (pickle.dumps(Attack(self.mark)),)


def commands(name: str, data: Path, path: Path) -> Result:
    common = ["--user-dir", USER_DIR, *TASK, "--path", path, "--cpu"]
    if name == "train":
        return train(data, path.parent, "--max-update", 1, expect_success=False)
    if name == "generate":
        return generate(data, path, expect_success=False)
    if name == "interactive":
        return run("fairseq-interactive", data, *common, stdin="kept1 kept2\n", expect_success=False)
    return run("fairseq-validate", data, *common, "--batch-size", 8, expect_success=False)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("train", "optimiser"),
        ("generate", "model"),
        ("interactive", "nested"),
        ("validate", "configuration"),
        ("validate", "options"),
    ],
)
def test_a_hostile_checkpoint_is_refused_and_nothing_runs(
    data: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    monkeypatch.setitem(ENVIRONMENT, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    mark, path = tmp_path / "ran", tmp_path / "checkpoint_last.pt"
    state = torch.load(checkpoint, weights_only=True)
    if place == "optimiser":
        state["last_optimizer_state"]["state"][0]["exp_avg"] = Attack(mark)
    elif place == "model":
        state["model"]["encoder.embed_tokens.weight"] = Attack(mark)
    elif place == "nested":
        state["extra_state"]["harmless"] = [{"deep": Nested(mark)}]
    elif place == "configuration":
        state["cfg"]["model"]["_name"] = Attack(mark)
    else:  # no pickle trick at all: fairseq gives this option of its own LSTM to eval
        state["cfg"]["model"] = {"_name": "lstm", "decoder_attention": f"__import__('os').mkdir('{mark}')"}
    torch.save(state, path)
    assert_one_sentence(commands(name, data, path), str(path), "is refused, and nothing in it was run")
    assert not mark.exists()
