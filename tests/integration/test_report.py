"""wean-plot and wean-report through the real commands: figures of checkpoints, a report of what they wrote."""

import json
import shutil
from pathlib import Path

import pytest

from tests.integration.commands import TASK, USER_DIR, generate, preprocess, run, train, write_pairs

COPYING = ["--user-dir", USER_DIR, "--arch", "copy_transformer", "--criterion", "model_loss", *TASK]
GRANULAR = ["--user-dir", USER_DIR, "--arch", "granularity_transformer", "--criterion", "model_loss", *TASK]
SIZES = ["--embed-dim", 16, "--ffn-dim", 24, "--attention-heads", 2, "--encoder-layers", 2, "--decoder-layers", 2]
ESSAYS = ["--user-dir", USER_DIR, "--task", "topic_essay", "--criterion", "model_loss", "--embed-dim", 12]
FEW = ["--max-update", 4, "--no-epoch-checkpoints"]
PLOT = ["python", "-m", "wean_fairseq.reporting.plot_cli"]
REPORT = ["python", "-m", "wean_fairseq.reporting.report_cli"]


def is_drawn(stem: Path) -> bool:
    """Both files are there."""
    png, svg = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    return png.read_bytes().startswith(b"\x89PNG") and "</svg>" in svg.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def recipe(text: Path, raw_data: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with a model that copies: text, checkpoint, log, outputs, scores, copy provenance."""
    folder = tmp_path_factory.mktemp("runs") / "recipe"
    system = folder / "copy_transformer"
    system.mkdir(parents=True)
    shutil.copytree(text, folder / "text")
    log = ["--log-file", system / "train.log", "--max-epoch", 1, "--no-epoch-checkpoints"]
    train(data, system, *SIZES, *log, "--lr", 0.01, model=COPYING)
    result = generate(raw_data, system / "checkpoint_best.pt", "--copy-provenance", system / "copied.jsonl")
    (system / "test.log").write_text(result.out, encoding="utf-8")
    (system / "test.err").write_text(result.err, encoding="utf-8")
    source, reference = folder / "text" / "test.src", folder / "text" / "test.tgt"
    scored = ["--generated", f"copy_transformer={system / 'test.log'}", "--src", source, "--ref", reference]
    run(
        "python",
        "-m",
        "wean_fairseq.evaluation",
        *scored,
        "--metric",
        "bleu",
        "--json",
        folder / "test.json",
        "--quiet",
    )
    return folder


def test_a_report_of_a_real_run(recipe: Path, tmp_path: Path):
    result = run(*REPORT, recipe, "--output", tmp_path, "--samples", 3)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    score = json.loads((recipe / "test.json").read_text())["systems"]["copy_transformer"]["bleu"]
    assert result.out.split() == [str(tmp_path / "report.html"), str(tmp_path / "report.md")]
    assert f"{score['score']:.2f}" in page
    assert score["signature"] in page
    assert "3 of 60 sentences" in page
    assert "copy_transformer, by its own account" in page
    assert "cannot" not in page
    assert is_drawn(tmp_path / "figures" / "recipe-copy-transformer-provenance")
    assert len(list((tmp_path / "figures").glob("*curves*.png"))) == 1


def test_figures_of_a_checkpoint_and_of_its_dump(recipe: Path, data: Path, tmp_path: Path):
    checkpoint = ["--checkpoint", recipe / "copy_transformer" / "checkpoint_best.pt", "--data", data]
    text = ["--text", recipe / "text" / "test.src", "--lines", 1, 7]
    run(*PLOT, "attention", *checkpoint, *text, "--output", tmp_path / "attention")
    assert is_drawn(tmp_path / "attention")
    width = ["--beam", 3]
    run(*PLOT, "provenance", *checkpoint, *text, *width, "--output", tmp_path / "now")
    assert is_drawn(tmp_path / "now")


def test_granularities_of_a_checkpoint(data: Path, text: Path, tmp_path: Path):
    train(data, tmp_path, *SIZES, *FEW, "--lr", 0.005, model=GRANULAR)
    checkpoint = ["--checkpoint", tmp_path / "checkpoint_best.pt", "--data", data, "--text", text / "test.src"]
    run(*PLOT, "granularity", *checkpoint, "--number", 2, "--output", tmp_path / "z")
    assert is_drawn(tmp_path / "z")
    refused = run(*PLOT, "provenance", *checkpoint, "--output", tmp_path / "no", expect_success=False)
    assert refused.code == 2
    assert refused.err.strip().splitlines()[-1].startswith("wean-plot: error: --copy-provenance is for archs that copy")
    assert "Traceback" not in refused.err


@pytest.mark.parametrize(("arch", "options"), [("mta_lstm", ["--essay-length", 12]), ("sc_lstm", [])])
def test_coverage_of_topics(arch: str, options: list[object], tmp_path: Path):
    topics = [f"topic{number % 5} topic{(number + 1) % 5}" for number in range(12)]
    essays = [f"we like {line}" for line in topics]
    for split in ("train", "valid", "test"):
        write_pairs(tmp_path / "text" / split, topics, essays)
    preprocess(tmp_path / "text", tmp_path / "raw", "--dataset-impl", "raw")
    model = [*ESSAYS, "--arch", arch, "--hidden-size", 16]
    train(tmp_path / "raw", tmp_path, *FEW, "--lr", 0.01, model=model)
    checkpoint = ["--checkpoint", tmp_path / "checkpoint_best.pt", "--data", tmp_path / "raw"]
    text = ["--text", tmp_path / "text" / "test.src", "--lines", 2]
    run(*PLOT, "coverage", *checkpoint, *text, *options, "--output", tmp_path / "coverage")
    assert is_drawn(tmp_path / "coverage")
