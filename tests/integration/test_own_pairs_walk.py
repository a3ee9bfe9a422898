"""Test repeated use of examples/own_pairs.sh: no step reuses earlier results after the settings have changed."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.commands import ENVIRONMENT, ROOT, TIMEOUT, search_path

RECIPE = ROOT / "examples" / "own_pairs.sh"
SIZES = [("large", "big"), ("tiny", "small"), ("ancient", "old"), ("recent", "new")]
THINGS = ("car", "house", "café", "book", "dog")
NAMES = ("Zoë", "José", "O'Neil", "Anna", "Björn")
ROWS = [
    (f"{name} said: “I've purchased the {long} {thing}.”", f"{name} bought the {short} {thing}.")
    for name in NAMES
    for long, short in SIZES
    for thing in THINGS
]
SMALL = {"EPOCHS": "1", "WIDTH": "8", "GPUS": "0", "COLUMNS": "long,short", "ARCH": "seq2seq_lstm", "TEST": "6"}
# An epoch has two updates. The outputs differ after each epoch.
SMALL |= {"RATE": "0.1", "TRAIN_FLAGS": "--warmup-updates 1"}


def write_table(path: Path, rows: list[tuple[str, str]]) -> Path:
    lines = ["id,long,short", *(f'{number},"{long}","{short}"' for number, (long, short) in enumerate(rows))]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def make_bert(folder: Path) -> None:
    """Create the model ``folder/bert``, whose vocabulary contains the word pieces of the rows."""
    (folder / "text.txt").write_text("".join(f"{source}\n{target}\n" for source, target in ROWS), encoding="utf-8")
    line = [sys.executable, str(ROOT / "preprocess" / "make_tiny_bert.py"), "--text", "text.txt", "--output", "bert"]
    line += ["--layers", "2", "--dim", "8", "--heads", "2", "--updates", "0"]
    subprocess.run(line, cwd=folder, env=ENVIRONMENT, check=True, capture_output=True, timeout=TIMEOUT)


def recipe(folder: Path, **variables: str) -> subprocess.CompletedProcess:
    """Run the recipe on ``folder/pairs.csv`` with small settings and ``variables``."""
    given = {"DATA": str(folder / "pairs.csv"), "RUN": str(folder / "run"), **SMALL, **variables}
    environment = ENVIRONMENT | {"PATH": search_path()} | given
    line = ["bash", str(RECIPE)]
    return subprocess.run(line, env=environment, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT)


def succeed(folder: Path, **variables: str) -> str:
    done = recipe(folder, **variables)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def refused(folder: Path, **variables: str) -> str:
    """Return the sentence with which the recipe refuses to run. No file of the run may have changed."""
    before = contents(folder / "run")
    done = recipe(folder, **variables)
    assert done.returncode != 0
    assert done.stderr.startswith("own_pairs: error: ")
    assert done.stderr.count("\n") == 1
    assert contents(folder / "run") == before
    return done.stderr


def contents(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the recipe for one epoch. Return its folder and its output."""
    folder = tmp_path_factory.mktemp("walk")
    write_table(folder / "pairs.csv", ROWS)
    return folder, succeed(folder)


def test_a_cut_training_is_reported_everywhere(walked: tuple[Path, str]) -> None:
    """Test one epoch with --patience 4, which cannot end the training early.

    Therefore the terminal, the report and the model must name the command that continues the training.
    """
    folder, printed = walked
    run = folder / "run"
    advice = "EPOCHS=2 ARCH=seq2seq_lstm COLUMNS=long\\,short DATA="
    assert f"repeat the command with more epochs: {advice}pairs.csv" in printed
    report = (run / "report" / "report.md").read_text(encoding="utf-8").replace("\\", "")
    # the report does not contain the folders of this machine
    assert advice.replace("\\", "") + "…/pairs.csv" in report
    assert f"{advice}…/pairs.csv" in (run / "model" / "note.txt").read_text(encoding="utf-8")


def test_scores_and_samples_are_those_of_the_raw_text(walked: tuple[Path, str]) -> None:
    """Test that a copy of a raw source is scored with the spelling of the table, including curly quotation marks."""
    run = walked[0] / "run"
    targets = (run / "plain-test" / "test.tgt").read_text(encoding="utf-8").splitlines()
    sources = (run / "plain-test" / "test.src").read_text(encoding="utf-8").splitlines()
    assert set(zip(sources, targets, strict=True)) <= set(ROWS)
    assert len(targets) == 6
    scored = json.loads((run / "test.json").read_text(encoding="utf-8"))["data"]["files"]
    raw = hashlib.sha256((run / "text" / "test.raw.tgt").read_bytes()).hexdigest()
    assert [entry["sha256"] for entry in scored["references"]] == [raw]
    assert sources[0] in (run / "test.samples.txt").read_text(encoding="utf-8")


def test_changed_inputs_and_settings_are_refused(walked: tuple[Path, str]) -> None:
    folder = walked[0]
    old = hashlib.sha256((folder / "pairs.csv").read_bytes()).hexdigest()[:12]
    write_table(folder / "pairs.csv", [*ROWS, ("A new row.", "New.")])
    new = hashlib.sha256((folder / "pairs.csv").read_bytes()).hexdigest()[:12]
    assert f"the content of pairs.csv: SHA-256 {old} -> {new}" in refused(folder)
    write_table(folder / "pairs.csv", ROWS)
    assert "COLUMNS: long,short -> short,long" in refused(folder, COLUMNS="short,long")
    assert "SPLIT_SEED: 1 -> 2; CASE: truecase -> keep" in refused(folder, SPLIT_SEED="2", CASE="keep")
    assert "TEST: 6 -> 7" in refused(folder, TEST="7")
    assert "OLD_TEST is the test set of the model in FROM: set FROM, or" in refused(folder, OLD_TEST="old.src old.tgt")
    assert "(--seed: 1 -> 2)" in refused(folder, SEED="2")
    assert "--embed-dim: 8 -> 16; --hidden-size: 8 -> 16" in refused(folder, WIDTH="16")
    assert "ARCH names bart, which is not here; choose from wean_lstm" in refused(folder, ARCH="seq2seq_lstm bart")
    assert "EPOCHS must be a whole number of at least 1" in refused(folder, EPOCHS="abc")
    assert "CASE takes one value, but is keep truecase" in refused(folder, CASE="keep truecase")
    assert "UNIT=characters has none: leave BPE out" in refused(folder, UNIT="characters", BPE="9")
    for flags, reason in {
        "--bea x": "unrecognized arguments: --bea x",
        "--beam 0": "--beam must be from 1 to 2147483647, but is 0",
        "--batch-size 0": "--batch-size must be 1 or more, but is 0",
        "--nbest 9": "--nbest 9 is more than the 5 hypotheses of --beam: raise --beam",
        "--sampling": "--search-preset wean is plain beam search and does not",
    }.items():
        said = refused(folder, SEARCH_FLAGS=flags)
        assert f"SEARCH_FLAGS cannot be given to fairseq-generate ({flags}): {reason}" in said
        assert said.endswith(".\n") and not said.endswith("..\n")


def test_outputs_that_were_edited_are_not_scored(walked: tuple[Path, str]) -> None:
    """Test a log of decoding with two exchanged lines, and the log of an older version, which has no checksum.

    The outputs of another checkpoint are decoded again, even if that checkpoint is older than the outputs.
    """
    folder = walked[0]
    log = folder / "run" / "seq2seq_lstm" / "test.log"
    written, scores = log.read_bytes(), (folder / "run" / "test.json").read_bytes()
    first, second, *rest = written.splitlines(keepends=True)
    log.write_bytes(b"".join([second, first, *rest]))
    assert "test.log has changed since it was decoded: restore it, or remove it to decode again" in refused(folder)
    assert (folder / "run" / "test.json").read_bytes() == scores
    log.write_bytes(written)
    checksum, checkpoint = log.with_suffix(".sha256"), log.with_name("checkpoint_best.pt")
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  -\n" for content in (written, checkpoint.read_bytes()))
    assert checksum.read_text(encoding="utf-8") == sums
    os.utime(checkpoint)
    assert "decoding test with seq2seq_lstm: done before" in succeed(folder)
    checksum.write_text(sums.splitlines()[0] + f"\n{'0' * 64}  -\n", encoding="utf-8")
    os.utime(log)
    assert "decoding test with seq2seq_lstm (fairseq-generate)" in succeed(folder)
    assert checksum.read_text(encoding="utf-8") == sums
    checksum.unlink()
    assert "decoding test with seq2seq_lstm: done before" in succeed(folder)


def test_training_on_leaves_a_new_model_scores_and_report(walked: tuple[Path, str]) -> None:
    folder = walked[0]
    before = contents(folder / "run")
    assert "model of seq2seq_lstm: done before" in succeed(folder)
    again = contents(folder / "run")
    assert {name for name in again if again[name] != before.get(name)} <= {
        name for name in again if name.startswith(("report", "curves", "test.", "tool.err", "trainings"))
    }
    printed = succeed(folder, EPOCHS="2")
    assert "text: done before" in printed
    after = contents(folder / "run")
    for name in ("model/model.safetensors", "seq2seq_lstm/checkpoint_best.pt", "test.json", "report/report.md"):
        assert after[name] != before[name], name
    assert "EPOCHS=4" in (folder / "run" / "model" / "note.txt").read_text(encoding="utf-8")
    printed = succeed(folder, EPOCHS="2", ARCH="wean_lstm seq2seq_lstm")
    for part in ("text", "binary data", "training seq2seq_lstm", "decoding test with seq2seq_lstm"):
        assert f"{part}: done before" in printed
    scores = json.loads((folder / "run" / "test.json").read_text(encoding="utf-8"))["systems"]
    assert {"seq2seq_lstm", "wean_lstm"} <= set(scores)
    models = contents(folder / "run")
    assert models["model-seq2seq_lstm/model.safetensors"] == after["model/model.safetensors"]
    assert models["model/model.safetensors"] != after["model/model.safetensors"]


def test_the_systems_of_arch_read_a_bert_and_the_baseline_none(walked: tuple[Path, str]) -> None:
    """Test that TRAIN_FLAGS="--bert DIR" is applied to training and decoding of ARCH.

    The baseline, which does not read a BERT, must stay unchanged.
    """
    pytest.importorskip("transformers")
    folder, run = walked[0], walked[0] / "run"
    flags = f"{SMALL['TRAIN_FLAGS']} --bert "
    archs = "paraphrase_transformer copy_transformer"
    for arch in ("", "copynet", "copy_transformer copynet"):
        message = f"the --bert of TRAIN_FLAGS is for {archs}: set ARCH to one or both."
        assert message in refused(folder, ARCH=arch, TRAIN_FLAGS=flags + "bert")
    assert "there is no BERT directory nowhere" in refused(folder, ARCH=archs, TRAIN_FLAGS=flags + "nowhere")
    assert "TRAIN_FLAGS ends with --bert" in refused(folder, ARCH=archs, TRAIN_FLAGS=flags)
    make_bert(folder)
    given = {"ARCH": "copy_transformer", "TRAIN_FLAGS": flags + "bert"}
    assert "training seq2seq_lstm: done before" in succeed(folder, **given)
    assert "--bert bert" in (run / "copy_transformer" / "command").read_text(encoding="utf-8")
    assert json.loads((run / "model" / "config.json").read_text(encoding="utf-8"))["cfg"]["task"]["bert"] == "bert"
    assert "decoding test with copy_transformer: done before" in succeed(folder, **given)
