"""Test that the real commands read averages, ensembles and exports of a trained model."""

import shutil
from pathlib import Path

import pytest
import torch

from tests.integration.commands import TASK, WEAN, Result, generate, parameters, train
from tests.integration.test_bad_input import assert_one_sentence
from wean_fairseq.checkpoints import cli
from wean_fairseq.generation import load
from wean_fairseq.reporting import trace
from wean_fairseq.storage.search import SEARCH_FILE


@pytest.fixture(scope="module")
def folder(training: tuple[Path, Result], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the folder of the trained model."""
    return shutil.copytree(training[0], tmp_path_factory.mktemp("averaged") / "trained")


def test_an_average_is_the_mean_and_generates(data: Path, folder: Path) -> None:
    paths = [folder / "checkpoint_best.pt", folder / "checkpoint_last.pt"]
    assert cli.main_average([*map(str, paths), "--output", str(folder / "average.pt")]) == 0
    found, first, second = (parameters(path) for path in (folder / "average.pt", *paths))
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, (first[name] + second[name]) / 2, rtol=1e-6, atol=1e-7, msg=name)
    assert len(generate(data, folder / "average.pt").hypotheses) == 60


def test_a_training_does_not_resume_from_an_average(data: Path, folder: Path, tmp_path: Path) -> None:
    """An average has no state of the optimiser. A training may start from it, or reset the optimiser."""
    shutil.copytree(folder, tmp_path / "run")
    average = tmp_path / "average.pt"
    paths = [str(folder / f"checkpoint_{name}.pt") for name in ("best", "last")]
    assert cli.main_average([*paths, "--output", str(average)]) == 0
    size = ["--embed-dim", 32, "--hidden-size", 64, "--encoder-layers", 1, "--decoder-layers", 1]
    options = ["--lr", 1e-6, "--max-update", 1, "--no-epoch-checkpoints"]
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.pt")}

    def start(*arguments: object, name: str = "run", **kwargs: object) -> Result:
        return train(data, tmp_path / name, *options, *arguments, model=[*WEAN, *TASK, *size], **kwargs)

    result = start("--restore-file", average, expect_success=False)
    assert_one_sentence(result, f"{average} is an average of checkpoints", "give it as --finetune-from-model")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.pt")} == before
    assert "average of checkpoints" not in start("--finetune-from-model", f"{tmp_path}/./average.pt", name="new").out
    reset = [f"--reset-{part}" for part in ("optimizer", "lr-scheduler", "dataloader", "meters")]
    assert "average of checkpoints" not in start("--restore-file", average, *reset, name="reset").out
    start("--no-save-optimizer-state", name="short")
    result = start("--max-update", 2, name="short")
    assert "checkpoint_last.pt has no state of the optimiser: the training starts a new one" in result.out


def test_an_ensemble_of_a_model_with_itself_is_the_model(data: Path, checkpoint: Path, generated: Result) -> None:
    found = generate(data, f"{checkpoint}:{checkpoint}")
    assert found.hypotheses == generated.hypotheses
    for (_, score, _), (_, expected, _) in zip(found.scored_hypotheses, generated.scored_hypotheses, strict=True):
        assert score == pytest.approx(expected, abs=2e-4)


def test_an_export_generates_the_same_to_the_last_digit(
    data: Path, checkpoint: Path, generated: Result, tmp_path: Path
) -> None:
    assert cli.main_export([str(checkpoint), "--output", str(tmp_path / "export"), "--data", str(data)]) == 0
    weights = tmp_path / "export" / "model.safetensors"
    assert generate(data, weights).scored_hypotheses == generated.scored_hypotheses


def test_the_search_that_is_kept_beside_a_checkpoint_is_that_of_all_tools(
    data: Path, checkpoint: Path, tmp_path: Path
) -> None:
    copied = str(shutil.copy(checkpoint, tmp_path))
    (tmp_path / SEARCH_FILE).write_text("--search-preset wean --beam 2 --max-len-a 0 --max-len-b 2\n")
    model, plain = load(copied, data, device="cpu"), load(checkpoint, data, device="cpu")
    assert [str(one.task.cfg.search_preset) for one in (model, plain)] == ["wean", "fairseq"]
    line = "kept1 said2 kept3 said4 kept5"
    (best,) = model.explain(line)[0].outputs
    assert len(best.tokens) == 3  # two words and the end symbol
    assert len(plain.explain(line)[0].outputs[0].tokens) > 3
    (drawn,) = trace.trace_attention(trace.open_model(copied, str(data)), [line])
    assert drawn.output == best.tokens
    assert str(load(copied, data, search_preset="fairseq").task.cfg.search_preset) == "fairseq"
    assert cli.main_export([copied, "--output", str(tmp_path / "model"), "--data", str(data)]) == 0
    assert load(tmp_path / "model").explain(line)[0].outputs[0].score == best.score
