"""Test wean-plot and wean-report as real commands: figures of checkpoints, and a report on their outputs."""

import json
import shutil
from pathlib import Path

import pytest

from tests.integration.commands import TASK, USER_DIR, generate, preprocess, run, train, write_pairs
from tests.integration.test_copying_recipes import run_recipe
from tests.integration.test_recipes import write_layout

COPYING = ["--user-dir", USER_DIR, "--arch", "copy_transformer", "--criterion", "model_loss", *TASK]
GRANULAR = ["--user-dir", USER_DIR, "--arch", "granularity_transformer", "--criterion", "model_loss", *TASK]
SIZES = ["--embed-dim", 16, "--ffn-dim", 24, "--attention-heads", 2, "--encoder-layers", 2, "--decoder-layers", 2]
ESSAYS = ["--user-dir", USER_DIR, "--task", "topic_essay", "--criterion", "model_loss", "--embed-dim", 12]
FEW = ["--max-update", 4, "--no-epoch-checkpoints"]


def is_drawn(stem: Path) -> bool:
    """Return True if both files of a figure exist and are complete."""
    png, svg = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    return png.read_bytes().startswith(b"\x89PNG") and "</svg>" in svg.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def recipe(text: Path, raw_data: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run directory of a copying model: text, data, checkpoint, log, outputs, scores and provenance."""
    folder = tmp_path_factory.mktemp("runs") / "recipe"
    system = folder / "copy_transformer"
    system.mkdir(parents=True)
    shutil.copytree(text, folder / "text")
    shutil.copytree(raw_data, folder / "bin-test")
    log = ["--log-file", system / "train.log", "--max-epoch", 1, "--no-epoch-checkpoints"]
    train(data, system, *SIZES, *log, "--lr", 0.01, model=COPYING)
    result = generate(raw_data, system / "checkpoint_best.pt", "--copy-provenance", system / "copied.jsonl")
    (system / "test.log").write_text(result.out, encoding="utf-8")
    (system / "test.err").write_text(result.err, encoding="utf-8")
    source, reference = folder / "text" / "test.src", folder / "text" / "test.tgt"
    scored = ["--generated", f"copy_transformer={system / 'test.log'}", "--src", source, "--ref", reference]
    run("wean-evaluate", *scored, "--metric", "bleu", "--json", folder / "test.json", "--quiet")
    return folder


def test_a_report_of_a_real_run(recipe: Path, tmp_path: Path):
    result = run("wean-report", recipe, "--output", tmp_path, "--samples", 3)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    content = json.loads((recipe / "test.json").read_text())
    columns, score = content["columns"], content["systems"]["copy_transformer"]["bleu"]
    assert result.out.split() == [str(tmp_path / "report.html"), str(tmp_path / "report.md")]
    assert f"{score['score']:.2f}" in page
    assert columns["bleu"]["signature"] in page
    assert "3 of 60 sentences" in page
    assert "copy_transformer, by its own account" in page
    assert "cannot" not in page
    assert "Not shown" not in page
    assert "Nearest neighbours of some frequent words" in page
    for figure in ("provenance", "attention"):
        assert is_drawn(tmp_path / "figures" / f"recipe-copy-transformer-{figure}")
    assert len(list((tmp_path / "figures").glob("*curves*.png"))) == 1


def test_the_script_reports_the_runs_that_it_is_given(recipe: Path, tmp_path: Path):
    """Test that the script reports on the given runs and trains no model."""
    output = tmp_path / "page"
    done = run_recipe("quora_report", tmp_path, FAMILIES="", RUNS=recipe, OUTPUT=output)
    assert done.returncode == 0, done.stderr
    assert is_drawn(output / "figures" / "recipe-copy-transformer-attention")
    done = run_recipe("quora_report", tmp_path, FAMILIES="", RUNS="--help", OUTPUT=output)
    assert done.returncode != 0


@pytest.mark.parametrize(
    ("families", "message"),
    [("wean_lstm no_such", "there is no recipe examples/no_such/quora.sh."), ("copy_transformer", "there is no ")],
)
def test_a_page_that_cannot_be_made_is_one_sentence(families: str, message: str, tmp_path: Path):
    done = run_recipe("quora_report", tmp_path, FAMILIES=families, DATA=tmp_path / "nowhere")
    assert done.returncode == 1
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_two_families_on_one_page_and_again(tmp_path: Path):
    layout = write_layout("quora", tmp_path / "data")
    families = {"FAMILIES": "copy_transformer pointer_generator"}
    done = run_recipe("quora_report", tmp_path / "runs", SMOKE=1, **families, **layout)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "runs" / "quora_report-smoke" / "report.html").read_text(encoding="utf-8")
    assert "All systems on the same 12 sentences" in page
    for system in ("copy_transformer_query", "pointer_generator", "rnnsearch"):
        assert f">{system}</th>" in page
    again = run_recipe("quora_report", tmp_path / "runs", SMOKE=1, **families, **layout)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("done before") > 6
    assert (tmp_path / "runs" / "quora_report-smoke" / "report.html").read_text(encoding="utf-8") == page


def test_figures_of_a_checkpoint_and_of_its_dump(recipe: Path, data: Path, tmp_path: Path):
    checkpoint = ["--checkpoint", recipe / "copy_transformer" / "checkpoint_best.pt", "--data", data]
    text = ["--text", recipe / "text" / "test.src", "--lines", 1, 7]
    run("wean-plot", "attention", *checkpoint, *text, "--output", tmp_path / "attention")
    assert is_drawn(tmp_path / "attention")
    width = ["--beam", 3]
    run("wean-plot", "provenance", *checkpoint, *text, *width, "--output", tmp_path / "now")
    assert is_drawn(tmp_path / "now")


def test_granularities_of_a_checkpoint(data: Path, text: Path, tmp_path: Path):
    train(data, tmp_path, *SIZES, *FEW, "--lr", 0.005, model=GRANULAR)
    checkpoint = ["--checkpoint", tmp_path / "checkpoint_best.pt", "--data", data, "--text", text / "test.src"]
    run("wean-plot", "granularity", *checkpoint, "--number", 2, "--output", tmp_path / "z")
    assert is_drawn(tmp_path / "z")
    cold = ["python", "-m", "wean_fairseq.reporting.plot_cli"]  # a new interpreter, as for users
    refused = run(*cold, "provenance", *checkpoint, "--output", tmp_path / "no", expect_success=False)
    assert refused.code == 2
    assert (
        refused.err.strip().splitlines()[-1].startswith("wean-plot: error: granularity_transformer does not copy words")
    )
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
    run("wean-plot", "coverage", *checkpoint, *text, *options, "--output", tmp_path / "coverage")
    assert is_drawn(tmp_path / "coverage")
