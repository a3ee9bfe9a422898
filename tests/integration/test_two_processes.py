"""Two processes with half the batch each (gloo, CPU, torchrun) give the updates of one process with the whole."""

from pathlib import Path

import torch

from tests.integration.commands import ADAM, TASK, TINY, WEAN, parameters, run

SETTINGS = [*WEAN, *TINY, *TASK, *ADAM, "--batch-size", 16, "--dropout", 0.0, "--lr", 0.01, "--log-interval", 1]
SETTINGS += ["--no-epoch-checkpoints", "--disable-validation"]
TWO = ["--distributed-world-size", 2, "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]


def test_two_processes_equal_one_also_after_a_restart(data: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    alone = run("fairseq-train", data, *SETTINGS, "--update-freq", 2, "--max-update", 8, "--save-dir", one)
    losses = []
    for updates in (5, 8):
        launcher = ["--standalone", "--nproc-per-node", 2, "--no-python", "fairseq-train"]
        together = run("torchrun", *launcher, data, *SETTINGS, *TWO, "--max-update", updates, "--save-dir", two)
        losses += together.logged("loss")
    assert losses == alone.logged("loss")
    expected = parameters(one / "checkpoint_last.pt")
    for name, parameter in parameters(two / "checkpoint_last.pt").items():
        torch.testing.assert_close(parameter, expected[name], rtol=0, atol=1e-6, msg=name)
    saved = torch.load(two / "checkpoint_last.pt", weights_only=True)
    assert saved["optimizer_history"][-1]["num_updates"] == 8
