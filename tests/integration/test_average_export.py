"""Averages, ensembles and exports of a trained model, read by the real commands."""

import shutil
from pathlib import Path

import pytest
import torch

from tests.integration.commands import Result, generate, parameters
from wean_fairseq.checkpoints import cli


@pytest.fixture(scope="module")
def folder(training: tuple[Path, Result], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the trained model's folder."""
    return shutil.copytree(training[0], tmp_path_factory.mktemp("averaged") / "trained")


def test_an_average_is_the_mean_and_generates(data: Path, folder: Path) -> None:
    paths = [folder / "checkpoint_best.pt", folder / "checkpoint_last.pt"]
    assert cli.main_average([*map(str, paths), "--output", str(folder / "average.pt")]) == 0
    found, first, second = (parameters(path) for path in (folder / "average.pt", *paths))
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, (first[name] + second[name]) / 2, rtol=1e-6, atol=1e-7, msg=name)
    assert len(generate(data, folder / "average.pt").hypotheses) == 60


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
