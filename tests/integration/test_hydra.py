"""Run fairseq-hydra-train with the project's YAML file. The result must be the same as the result of fairseq-train."""

from pathlib import Path

import torch

from tests.integration.commands import ROOT, USER_DIR, generate, parameters, run, train

SHIPPED = ROOT / "examples" / "wean_lstm" / "hydra"


def test_hydra_trains_the_same_model(data: Path, tmp_path: Path) -> None:
    by_hydra, by_flags = tmp_path / "hydra", tmp_path / "flags"
    must = [f"task.data={data}", f"common.user_dir={USER_DIR}", f"checkpoint.save_dir={by_hydra}"]
    small = ["model.embed_dim=16", "model.hidden_size=16", "model.encoder_layers=1", "model.decoder_layers=1"]
    short = ["dataset.batch_size=32", "++optimization.max_update=6", "++common.cpu=true", "model.query_score=dot"]
    line = ["--config-dir", SHIPPED, "--config-name", "wean_lstm", *must, *small, *short]
    run("fairseq-hydra-train", *line, cwd=tmp_path)
    # These flags have the values of the other options in the YAML file.
    flags = ["--query-score", "dot", "--lr", 0.001, "--clip-norm", 5, "--dropout", 0.4, "--max-pair-length", 50]
    train(data, by_flags, *flags, "--max-update", 6, "--no-epoch-checkpoints", "--disable-validation")
    expected = parameters(by_flags / "checkpoint_last.pt")
    actual = parameters(by_hydra / "checkpoint_last.pt")
    assert actual.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(actual[name], expected[name])] == []
    assert len(generate(data, by_hydra / "checkpoint_last.pt").hypotheses) == 60
