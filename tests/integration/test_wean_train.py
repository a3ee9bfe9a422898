"""Test wean-train from the built wheel without the checkout.

The command trains a model from a table, and is repeated, continued and interrupted.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.integration.commands import ENVIRONMENT, ROOT, TIMEOUT, search_path
from tests.integration.test_own_pairs_walk import ROWS, contents, make_bert, write_table
from wean_fairseq import load
from wean_fairseq.training import cli

pytestmark = pytest.mark.slow

SMALL = ("--columns", "long,short", "--test", "6", "--width", "8", "--rate", "0.1", "--device", "cpu")
SEARCH = "--beam 3 --lenpen 0.5"
START = "import sys; sys.argv[0] = 'wean-train'; from wean_fairseq.commands import train; sys.exit(train())"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the content of the wheel, as pip unpacks it."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for name in ("wean_fairseq", "preprocess"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    line = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        folder / "built",
        ".",
    ]
    subprocess.run(line, cwd=folder, check=True, capture_output=True, timeout=TIMEOUT)
    (wheel,) = (folder / "built").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def start(site: Path, folder: Path, *arguments: object) -> subprocess.Popen:
    """Start wean-train from the wheel in a separate session, which receives signals as if from a terminal."""
    environment = {**ENVIRONMENT, "PYTHONPATH": str(site)}
    line = [sys.executable, "-P", "-c", START, *map(str, arguments)]
    return subprocess.Popen(
        line,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wean_train(site: Path, folder: Path, *arguments: object) -> tuple[str, str]:
    """Run wean-train to its end. Return its standard output and its standard error."""
    out, err = start(site, folder, *arguments).communicate(timeout=TIMEOUT)
    assert f"{ROOT}/" not in err
    return out, err


def weights(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def trained(site: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Train for two epochs. Return the folder with ``pairs.csv`` and the model, and the output of the command."""
    folder = tmp_path_factory.mktemp("run")
    write_table(folder / "pairs.csv", ROWS)
    out, err = wean_train(site, folder, "pairs.csv", *SMALL, "--epochs", 2, "--search", SEARCH, "--output", "model")
    assert (folder / "model" / "config.json").is_file(), err
    return folder, out, err


def test_a_table_becomes_a_scored_model(site: Path, trained: tuple[Path, str, str]) -> None:
    folder, out, err = trained
    assert "source = column 2 long, target = column 3 short" in err
    assert "copynet was ended by the number of epochs" in err
    note = (folder / "model" / "note.txt").read_text(encoding="utf-8")
    assert note.startswith("The training of copynet was ended by the number of epochs")
    assert note.endswith(": wean-train --config model/run.toml --epochs 4\n")
    assert out.splitlines()[2].split() == ["system", "BLEU", "SARI", "ROUGE-L", "copy%", "len/ref"]
    assert [line.split()[0] for line in out.splitlines()[3:5]] == ["copy-source", "copynet"]
    scores = json.loads((folder / "model.work" / "test.json").read_text(encoding="utf-8"))
    assert scores["data"]["sentences"] == 6
    assert "copynet" in (folder / "model.work" / "report" / "report.md").read_text(encoding="utf-8")
    card = (folder / "model" / "README.md").read_text(encoding="utf-8").splitlines()
    assert f"| `pairs.csv` | `{hashlib.sha256((folder / 'pairs.csv').read_bytes()).hexdigest()}` |" in card
    bleu = scores["systems"]["copynet"]["bleu"]
    shown = [f"{bleu['score']:.2f} [{bleu['ci'][0]:.2f}, {bleu['ci'][1]:.2f}]", scores["columns"]["bleu"]["signature"]]
    assert [line for line in card if line.startswith(f"| copynet | {shown[0]} |")]
    assert f"* BLEU: `{shown[1]}`" in card
    script = "import sys, wean_fairseq\nmodel = wean_fairseq.load('model', device='cpu')\n"
    script += "print(wean_fairseq.__file__)\nprint(*model.generate(sys.stdin.read().splitlines()), sep='\\n')"
    source = (folder / "model.work" / "text" / "test.raw.src").read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        env={**ENVIRONMENT, "PYTHONPATH": str(site)},
        cwd=folder,
        input=source,
        capture_output=True,
        text=True,
        check=True,
    )
    place, _, outputs = done.stdout.partition("\n")
    assert place == str(site / "wean_fairseq" / "__init__.py")
    assert outputs == (folder / "model.work" / "copynet" / "test.txt").read_text(encoding="utf-8")


def test_a_repeated_command_changes_nothing(site: Path, trained: tuple[Path, str, str]) -> None:
    folder, out, _ = trained
    before = contents(folder)
    again, err = wean_train(site, folder, "--config", "model/run.toml")
    assert again == out
    for step in ("text", "training copynet", "decoding test with copynet", "model", "report"):
        assert f"wean-train: {step}: done before" in err
    assert contents(folder) == before


def refused(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    """Run wean-train in this process, where it must refuse its arguments. Return the last line of its output."""
    assert cli.main([str(argument) for argument in arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    *_, last = said.err.splitlines()
    assert last.startswith("wean-train: error: ")
    return last


def test_changed_settings_and_data_are_refused(
    trained: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    folder = trained[0]
    monkeypatch.chdir(folder)
    before = contents(folder)
    for arguments, change in (
        (("--width", 16), "--embed-dim: 8 -> 16; --hidden-size: 8 -> 16"),
        (("--seed", 2), "--seed: 1 -> 2"),
        (("--case", "keep"), "case: truecase -> keep"),
        (("--test", 7), "test: 6 -> 7"),
        (("--columns", "short,long"), "columns: long,short -> short,long"),
    ):
        assert f"({change}): give another --work" in refused(capsys, "--config", "model/run.toml", *arguments)
    write_table(folder / "pairs.csv", ROWS[1:])
    assert "the content of pairs.csv: SHA-256" in refused(capsys, "--config", "model/run.toml")
    write_table(folder / "pairs.csv", ROWS)
    assert contents(folder) == before


def test_the_written_settings_repeat_the_training(site: Path, trained: tuple[Path, str, str]) -> None:
    folder = trained[0]
    wean_train(site, folder, "--config", "model/run.toml", "--output", "again")
    assert weights(folder / "again") == weights(folder / "model")
    assert (folder / "again.work" / "test.json").is_file()


def test_a_stopped_training_continues_to_the_same_model(site: Path, trained: tuple[Path, str, str]) -> None:
    """Test a training that is stopped by Ctrl-C after the first update, and by SIGKILL after the second start.

    The training must end with the same weights.
    """
    folder = trained[0]
    arguments = ("--config", "model/run.toml", "--output", "stopped")
    for number, status in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        process = start(site, folder, *arguments)
        output = folder / "stopped.work" / "copynet" / "train.out"
        size = output.stat().st_size if output.exists() else 0
        deadline = time.monotonic() + TIMEOUT
        while not (output.exists() and "begin training epoch" in output.read_text(encoding="utf-8")[size:]):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, number)
        _, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == status, err
        assert not (folder / "stopped").exists()
    assert (folder / "stopped.work" / "copynet" / "command").is_file()
    wean_train(site, folder, *arguments)
    assert weights(folder / "stopped") == weights(folder / "model")


def test_more_epochs_replace_the_model(site: Path, trained: tuple[Path, str, str]) -> None:
    folder = trained[0]
    shutil.copytree(folder / "model", folder / "longer")
    shutil.copytree(folder / "model.work", folder / "longer.work")
    (folder / "longer" / "mine.txt").write_text("a user's file", encoding="utf-8")
    arguments = ("--config", "model/run.toml", "--output", "longer", "--epochs", 3)
    assert "has files that are not of its model (mine.txt)" in wean_train(site, folder, *arguments)[1]
    assert (folder / "longer" / "mine.txt").read_text(encoding="utf-8") == "a user's file"
    (folder / "longer" / "mine.txt").unlink()
    wean_train(site, folder, *arguments)
    assert weights(folder / "longer") != weights(folder / "model")
    assert "epochs = 3" in (folder / "longer" / "run.toml").read_text(encoding="utf-8")
    before = (folder / "longer" / "run.toml").read_bytes()
    said = wean_train(site, folder, *arguments[:-1], 1)[1]
    assert "done before with --epochs 3, and --epochs 1 changes nothing" in said
    assert (folder / "longer" / "run.toml").read_bytes() == before


def test_the_recipe_trains_the_same_model(trained: tuple[Path, str, str]) -> None:
    """Test that examples/own_pairs.sh exports the same weights, dictionary and text settings."""
    folder = trained[0]
    given = {"DATA": "pairs.csv", "RUN": str(folder / "recipe"), "COLUMNS": "long,short", "TEST": "6", "WIDTH": "8"}
    given |= {"RATE": "0.1", "EPOCHS": "2", "ARCH": "copynet", "BASELINE": "copynet", "GPUS": "0"}
    given |= {"SEARCH_FLAGS": SEARCH}
    environment = ENVIRONMENT | {"PATH": search_path()} | given
    line = ["bash", str(ROOT / "examples" / "own_pairs.sh")]
    subprocess.run(line, env=environment, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    for name in ("model.safetensors", "dict.src.txt", "text.json", "truecase.model"):
        assert (folder / "recipe" / "model" / name).read_bytes() == (folder / "model" / name).read_bytes(), name
    tables = [
        json.loads((run / "test.json").read_text(encoding="utf-8"))["systems"]
        for run in (folder / "recipe", folder / "model.work")
    ]
    assert tables[0] == tables[1]


def test_the_function_takes_a_data_frame_and_returns_the_model(tmp_path: Path) -> None:
    import pandas as pd

    import wean_fairseq

    table = pd.DataFrame(ROWS, columns=["long", "short"]).assign(number=range(len(ROWS)))
    settings = {"columns": "long,short", "test": 6, "width": 8, "epochs": 1, "device": "cpu", "arch": "residual_lstm"}
    model = wean_fairseq.train(table, tmp_path / "model", **settings)
    assert model.arch == "residual_lstm"
    assert model.generate(["A sentence."]) == wean_fairseq.load(tmp_path / "model", device="cpu").generate(
        ["A sentence."]
    )


# --- continued trainings ----------------------------------------------------------------------------------------------

NEW_ROWS = [(long.replace("car", "bike"), short.replace("car", "bike")) for long, short in ROWS[::2]]


def test_a_training_continues_from_a_model(site: Path, trained: tuple[Path, str, str]) -> None:
    """Test that the text steps, the dictionary and, with a learning rate of almost 0, the weights stay the same."""
    folder = trained[0]
    write_table(folder / "new.csv", NEW_ROWS)
    arguments = ("--columns", "long,short", "--test", 4, "--from", "model", "--device", "cpu", "--epochs", 1)
    out, err = wean_train(site, folder, "new.csv", *arguments, "--rate", 1e-9, "--output", "tuned")
    tables = out.split("== ")
    assert tables[1].startswith("test ==\n4 sentences")
    assert tables[2].startswith("old-test ==\n6 sentences")
    for table in tables[1:]:
        rows = {line.split()[0]: line.split()[1:] for line in table.splitlines()[4:7]}
        assert list(rows) == ["copy-source", "before", "tuned"], err
        assert rows["before"] == rows["tuned"]
    report = (folder / "tuned.work" / "report" / "report.md").read_text(encoding="utf-8")
    assert "\n### Scores on test\n" in report and "\n### Scores on old-test\n" in report
    for name in ("dict.src.txt", "dict.tgt.txt", "text.json", "truecase.model"):
        assert (folder / "tuned" / name).read_bytes() == (folder / "model" / name).read_bytes()
    options = ("beam", "lenpen", "max_len_a", "max_len_b")
    searches = [load(folder / name, device="cpu").search_options for name in ("model", "tuned")]
    assert [[search[name] for name in options] for search in searches] == [[3, 0.5, 2.0, 10]] * 2
    before, after = (load_file(folder / name / "model.safetensors") for name in ("model", "tuned"))
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=1e-6)
    assert 'from = "../model"' in (folder / "tuned" / "run.toml").read_text(encoding="utf-8")
    assert "done before" in wean_train(site, folder, "--config", "tuned/run.toml")[1]


def test_settings_against_the_old_model_are_refused(
    trained: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(trained[0])
    for name, lines in {"one.txt": "a\n", "two.txt": "a\nb\n"}.items():
        Path(name).write_text(lines, encoding="utf-8")
    for arguments, message in (
        (("--arch", "wean_lstm"), "arch wean_lstm is not that of model, which is copynet: leave it out."),
        (("--width", 16), "width 16 is not that of model, which is 8: leave it out."),
        (("--case", "keep"), "case is that of model, whose text steps are used again: leave it out."),
        (("--old-test", "nowhere.src", "nowhere.tgt"), "old_test: nowhere.tgt does not exist; check the file name."),
        (
            ("--old-test", "one.txt", "two.txt"),
            "old_test: source one.txt has 1 line but reference two.txt has 2: it is",
        ),
    ):
        given = ("pairs.csv", "--columns", "long,short", "--from", "model", "--output", "other", *arguments)
        assert message in refused(capsys, *given)
    assert not Path("other").exists()
    assert not Path("other.work").exists()


def test_a_training_continues_from_a_model_with_a_bert(
    trained: tuple[Path, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Test that a learning rate of almost 0 keeps the scores.

    If the BERT has moved, its new directory must be given to the command.
    """
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    make_bert(tmp_path)
    write_table(Path("pairs.csv"), ROWS)
    write_table(Path("new.csv"), NEW_ROWS)
    first = ["pairs.csv", *SMALL, "--arch", "copy_transformer", "--bert", "bert", "--epochs", "1", "--output", "model"]
    assert cli.main(first) == 0
    new = ["new.csv", "--columns", "long,short", "--test", "4", "--device", "cpu", "--epochs", "1", "--rate", "1e-9"]

    def continue_from(model: str, place: str, *arguments: str) -> None:
        assert cli.main([*new, "--from", model, "--output", f"tuned-{place}", *arguments]) == 0
        sets = json.loads(Path(f"tuned-{place}.work/test.json").read_text(encoding="utf-8"))["sets"]
        assert [scores["systems"]["tuned"] for scores in sets.values()] == [
            scores["systems"]["before"] for scores in sets.values()
        ]
        config = json.loads(Path(f"tuned-{place}/config.json").read_text(encoding="utf-8"))
        assert config["cfg"]["task"]["bert"] == place
        weights = model if model.endswith(".pt") else f"{model}/model.safetensors"
        assert f"| continued from | {weights} |" in Path(f"tuned-{place}/README.md").read_text(encoding="utf-8")

    continue_from("model.work/copy_transformer/checkpoint_best.pt", "bert")
    Path("bert").rename("moved")
    capsys.readouterr()
    message = "there is no BERT directory 'bert', with which model was trained: give bert its new place."
    assert message in refused(capsys, *new, "--from", "model", "--output", "other")
    continue_from("model", "moved", "--bert", "moved")
    capsys.readouterr()
    without = ("--from", trained[0] / "model", "--bert", "moved", "--output", "other")
    assert "bert is for models that were trained with one" in refused(capsys, *new, *without)


def test_the_recipe_continues_from_a_checkpoint(trained: tuple[Path, str, str]) -> None:
    folder = trained[0]
    write_table(folder / "new.csv", NEW_ROWS)
    given = {
        "DATA": "new.csv",
        "COLUMNS": "long,short",
        "TEST": "4",
        "EPOCHS": "1",
        "GPUS": "0",
        "RUN": "tuned_by_recipe",
    }
    given["FROM"] = "model.work/copynet/checkpoint_best.pt"
    environment = ENVIRONMENT | {"PATH": search_path()} | given
    line = ["bash", str(ROOT / "examples" / "own_pairs.sh")]
    wrong = environment | {"BPE": "20", "SEEDS": "1 2", "TEST_LIMIT": "3"}
    done = subprocess.run(line, env=wrong, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.stderr.endswith("with FROM the settings of the model are used again: leave out BPE SEEDS TEST_LIMIT.\n")
    done = subprocess.run(line, env=environment, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    assert "== old-test ==" in done.stdout
    assert (folder / "tuned_by_recipe" / "model" / "model.safetensors").is_file()
