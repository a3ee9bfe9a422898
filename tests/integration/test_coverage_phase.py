"""Train pointer_generator with the real commands in two phases: first without coverage and then with coverage."""

import torch

from tests.integration.commands import TASK, USER_DIR, parameters, train

MODEL = ["--user-dir", USER_DIR, "--criterion", "model_loss", *TASK]
MODEL += ["--embed-dim", "8", "--hidden-size", "8", "--attention-dim", "8", "--max-update", "2", "--arch"]


def test_a_model_trained_without_coverage_goes_on_with_it(data, tmp_path):
    """Test a second phase with a learning rate of 0.

    Therefore this phase must end with the weights of the first phase and one additional weight.
    """
    first, second = tmp_path / "first", tmp_path / "second"
    train(data, first, "--lr", 0.1, model=[*MODEL, "pointer_generator"])
    start = ["--finetune-from-model", first / "checkpoint_last.pt"]
    result = train(data, second, "--lr", 1e-30, *start, model=[*MODEL, "pointer_generator_coverage"])
    assert "trained without --coverage" in result.out + result.err
    assert all(0 < loss < 1 for loss in result.logged("valid_coverage"))
    assert result.logged("valid_coverage")
    before, after = (parameters(folder / "checkpoint_last.pt") for folder in (first, second))
    assert after.pop("decoder.attention.coverage_weight").shape == (8,)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], weight) for name, weight in after.items())
