"""Test the recipes in examples/: an error without data, and (slow) a small run of each recipe from text to scores."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.commands import ENVIRONMENT, ROOT, search_path
from wean_fairseq.training.progress import Progress

RECIPES = ("quora", "simplification", "pwkp", "ew_sew", "lcsts")
PWKP = "PWKP_108016.tag.80.aner"


def run_recipe(recipe, run_dir, **variables):
    """Run a recipe on the CPU, as a user would."""
    script = ROOT / "examples" / ("quickstart/run.sh" if recipe == "quickstart" else f"wean_lstm/{recipe}.sh")
    environment = {**ENVIRONMENT, "PATH": search_path(), "GPUS": "0", "RUN": str(run_dir)}
    for name in ("DATA", "TURK", "PWKP", "SYSTEMS", "EPOCHS", "EVALUATE", "SEED", "SEEDS", "JOBS", "SMOKE"):
        environment.pop(name, None)
    environment.update({name: str(value) for name, value in variables.items()})
    return subprocess.run(["bash", script], env=environment, capture_output=True, text=True, timeout=1800)


def run_with_progress(*arguments):
    """Run the program that shows the progress of a command."""
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-m", "wean_fairseq.training.progress", *map(str, arguments)]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300)


# --- missing or wrong input


@pytest.mark.parametrize("recipe", RECIPES)
def test_missing_data_is_one_sentence(recipe, tmp_path):
    done = run_recipe(recipe, tmp_path / "run", DATA=tmp_path / "nowhere")
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.startswith(f"{recipe}: error: there is no {tmp_path}/nowhere/")
    assert "Set DATA to" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("recipe", "variable"), [("simplification", "TURK"), ("simplification", "PWKP"), ("ew_sew", "TURK")]
)
def test_missing_test_sets_are_named(recipe, variable, tmp_path):
    layout = write_layout(recipe, tmp_path / "data")
    layout[variable] = tmp_path / "nowhere"
    done = run_recipe(recipe, tmp_path / "run", **layout)
    assert done.returncode != 0
    assert f"Set {variable} to" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_system_is_one_sentence(tmp_path):
    done = run_recipe("quora", tmp_path / "run", SYSTEMS="wean_lstm wean", **write_layout("quora", tmp_path / "data"))
    assert done.stderr.startswith("quora: error: there is no system wean here; choose from ")
    assert done.stderr.count("\n") == 1


def test_another_data_set_in_the_same_run_is_refused(tmp_path):
    layout = write_layout("quora", tmp_path / "data")
    (tmp_path / "run" / "text").mkdir(parents=True)
    (tmp_path / "run" / "text" / "manifest.json").touch()  # the run has already created a file with its settings
    (tmp_path / "run" / "settings").write_text("SEED=1\nDATA=/elsewhere\nWIDTH=256\n", encoding="utf-8")
    done = run_recipe("quora", tmp_path / "run", **layout)
    assert done.returncode != 0
    assert f"DATA: /elsewhere -> {layout['DATA']}; " in done.stderr
    assert "set RUN to another directory" in done.stderr


def test_a_failing_step_shows_its_log(tmp_path):
    layout = write_layout("quora", tmp_path / "data")
    (tmp_path / "data" / "train.tgt").write_text("only one line\n", encoding="utf-8")
    done = run_recipe("quora", tmp_path / "run", **layout)
    assert done.returncode != 0
    assert "train.tgt has 1 line but" in done.stderr
    assert "text.log" in done.stderr


@pytest.mark.parametrize("folder", ["text", "text/part"])
def test_a_prepared_text_that_has_changed_is_named(tmp_path, folder):
    """Some scripts write several texts, each into a folder of the text."""
    layout = write_layout("quora", tmp_path / "data")
    (tmp_path / "data" / "train.tgt").write_text("only one line\n", encoding="utf-8")
    run_recipe("quora", tmp_path / "run", **layout)  # it has no text, but its settings
    text = tmp_path / "run" / folder
    text.mkdir(parents=True)
    (tmp_path / "run" / "text" / "manifest.json").write_text("{}", encoding="utf-8")
    (text / "train.src").write_text("cut\n", encoding="utf-8")
    (text / "manifest.json").write_text(json.dumps({"files": {"train.src": {"sha256": "0" * 64}}}), encoding="utf-8")
    done = run_recipe("quora", tmp_path / "run", **layout)
    assert done.returncode != 0
    assert (
        f"{text / 'train.src'} has changed since its checksum was written to {text}/manifest.json: restore it"
        in done.stderr
    )


# --- scripts that the recipes call


def test_progress_passes_the_exit_status_on_and_keeps_the_output(tmp_path):
    script = "import sys; print('H-0'); print('oh', file=sys.stderr); sys.exit(7)"
    arguments = ["--output", tmp_path / "out", "--errors", tmp_path / "err", "--count", "H-", "--total", 1]
    done = run_with_progress("--label", "x", *arguments, "--", sys.executable, "-c", script)
    assert done.returncode == 7
    assert done.stderr == ""  # there is no terminal, so there is no progress bar
    assert (tmp_path / "out").read_text(encoding="utf-8") == "H-0\n"
    assert (tmp_path / "err").read_text(encoding="utf-8") == "oh\n"


@pytest.mark.parametrize(
    ("arguments", "program", "reason"),
    [
        (["--output", "{0}/out", "--count", "a"], "no-such-program", "no-such-program cannot be read or written"),
        (["--output", "{0}/none/out", "--count", "a"], sys.executable, "/none/out cannot be read or written"),
        (["--output", "{0}/pipe", "--count", "a"], sys.executable, "it is not a regular file"),
        (["--output", "{0}/out", "--errors", "{0}/pipe", "--count", "a"], sys.executable, "it is not a regular file"),
    ],
)
def test_progress_reports_what_it_cannot_use_in_one_sentence(tmp_path, arguments, program, reason):
    os.mkfifo(tmp_path / "pipe")
    done = run_with_progress("--label", "x", *(text.format(tmp_path) for text in arguments), "--", program, "-c", "1")
    assert done.returncode == 2
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_progress_says_how_long_the_whole_training_will_take(monkeypatch, capsys):
    """Test the estimate after ten updates in 70 s, when ten of 2 x 25 updates are left.

    Therefore 70 s remain. Updates before the start of the program do not count.
    """
    clock = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    progress = Progress("wean", 0, "", 2)
    progress.read("epoch 002:      5 / 25 loss=9.5, x")
    assert capsys.readouterr().err == ""
    clock += 70
    progress.read("epoch 002:     15 / 25 loss=1.5, x")
    assert capsys.readouterr().err == "wean  80%, 01:10 left, epoch 2/2, loss 1.5\n"


def test_progress_estimates_no_time_before_it_knows_the_speed(monkeypatch, capsys):
    """Test a first update that follows after 61 seconds of loading.

    5 further updates took 5 seconds, so the last 14 updates will take 14 seconds.
    """
    clock = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    progress = Progress("wean", 0, "", 1)
    clock += 61
    progress.read("epoch 001:      1 / 20 loss=9.5, x")
    assert capsys.readouterr().err == ""
    clock += 5
    progress.read("epoch 001:      6 / 20 loss=9.0, x")
    assert capsys.readouterr().err == "wean  30%, 00:14 left, epoch 1/1, loss 9\n"


# --- whole runs


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_from_text_to_scores_and_again(recipe, tmp_path):
    layout = write_layout(recipe, tmp_path / "data")
    systems = {
        "pwkp": "wean_lstm_pwkp",
        "ew_sew": "wean_lstm_ew_sew",
        "lcsts": "wean_lstm_lcsts",
        "quora": "lstm wean_detached",
    }
    layout["SYSTEMS"] = systems.get(recipe, "wean_lstm seq2seq_lstm")
    done = run_recipe(recipe, tmp_path / "run", SMOKE=1, EPOCHS=1, **layout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "copy-source" in done.stdout
    sets = {"pwkp": ["names"], "ew_sew": ["turk"], "simplification": ["pwkp", "turk"]}.get(recipe, ["test"])
    run = tmp_path / "run"
    for name in ["curves.png", "curves.tsv", *(f"{s}{end}" for s in sets for end in (".json", ".md", ".samples.txt"))]:
        assert (run / name).stat().st_size > 0, name
    checkpoints = [run / system / "checkpoint_best.pt" for system in layout["SYSTEMS"].split()]
    before = [path.stat().st_mtime_ns for path in checkpoints]
    again = run_recipe(recipe, run, SMOKE=1, EPOCHS=1, **layout)
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.count("done before") >= 3
    assert [path.stat().st_mtime_ns for path in checkpoints] == before


@pytest.mark.slow
def test_quickstart_and_again(tmp_path):
    done = run_recipe("quickstart", tmp_path / "run", SMOKE=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stdout + done.stderr
    for part in ("reference", "copy-source", "words with synonyms", "12,851,028", "best bleu"):
        assert part in done.stdout
    # The last lines name the next two commands, and the model accepts an ordinary sentence.
    assert re.search(r"source  The famous .*\.\nWEAN    .*\.\n", done.stdout)
    *_, inspect, own_pairs = done.stdout.splitlines()
    assert inspect.startswith("    wean-inspect quickstart=") and own_pairs.startswith(
        "    DATA=pairs.csv bash examples/"
    )
    assert (tmp_path / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")
    again = run_recipe("quickstart", tmp_path / "run", SMOKE=1)
    assert again.stdout.count("done before") == 5
    (tmp_path / "run" / "report.txt").write_text("", encoding="utf-8")
    again = run_recipe("quickstart", tmp_path / "run", SMOKE=1)
    assert again.stdout.split("== Ten")[1] == done.stdout.split("== Ten")[1]
    # The model folder and the report follow a new training.
    model = tmp_path / "run" / "model" / "model.safetensors"
    exported = model.read_bytes()
    shutil.rmtree(tmp_path / "run" / "wean_lstm")
    new = run_recipe("quickstart", tmp_path / "run", SMOKE=1, TRAIN_FLAGS="--lr 0.02")
    assert new.stdout.count("done before") == 2 and "results: writing" in new.stdout
    assert model.read_bytes() != exported


# --- small data in the layouts that the recipes read


def write_pairs(folder, split, pairs, ends=("src", "tgt")):
    """Write both sides of a split."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{split}.{end}" for end in ends]
    for side, path in enumerate(paths):
        path.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return paths


def sentences(number, seed):
    """Return pairs of a tiny language. Each target omits the first word of its source."""
    rng = random.Random(seed)
    words = "the a red old big dog cat house saw left found in on near town".split()
    lines = [[rng.choice(words) for _ in range(rng.randint(4, 9))] for _ in range(number)]
    return [(" ".join([*line, "."]), " ".join([*line[1:], "."])) for line in lines]


def write_layout(recipe, folder):
    """Write the data for a recipe. Return the variables that pass the data to the recipe."""
    train, valid, test = sentences(120, 1), sentences(12, 2), sentences(12, 3)
    if recipe == "lcsts":
        documents = [(4, source.replace(" ", ""), target.replace(" ", "")) for source, target in test]
        return {"DATA": write_lcsts_parts(folder, documents * 4, documents)}
    if recipe == "pwkp":
        for form, names in (("", ("PERSON@1", "NUMBER@1")), (".ori", ("Ann Lee", "12"))):
            for split, pairs in (("train", train), ("valid", valid), ("test", test)):
                named = [(f"{names[0]} {source}", f"{names[0]} {target} {names[1]}") for source, target in pairs]
                write_pairs(folder, f"{PWKP}{form}.{split}", named, ("src", "dst"))
        return {"DATA": folder}
    if recipe == "ew_sew":
        write_pairs(folder, "train", train, ("en", "sen"))
        write_pairs(folder, "dev", [pair for pair in valid for _ in range(8)], ("en", "sen"))
        return {"DATA": folder, "TURK": write_turk(folder / "turk")}
    for split, pairs in (("train", train), ("valid", valid), ("test", test)):
        write_pairs(folder, split, pairs)
    if recipe == "quora":
        return {"DATA": folder}
    write_pairs(folder / "pwkp", f"{PWKP}.ori.test", test, ("src", "dst"))
    return {"DATA": folder, "TURK": write_turk(folder / "turk"), "PWKP": folder / "pwkp"}


def write_turk(folder):
    """Write the files of TurkCorpus, and return their folder."""
    for split, seed in (("tune", 4), ("test", 5)):
        ends = ["norm", *(f"turk.{number}" for number in range(8))]
        pairs = [(source, *[target] * 8) for source, target in sentences(10, seed)]
        write_pairs(folder, f"{split}.8turkers.tok", pairs, ends)
    return folder


def write_lcsts_parts(folder, train, scored):
    """Write the three released files of LCSTS, and return their folder."""
    folder.mkdir(parents=True)
    for name, documents in (("PART_I", train), ("PART_II", scored), ("PART_III", scored)):
        lines = []
        for index, (score, text, summary) in enumerate(documents):
            label = [f"    <human_label>{score}</human_label>"] if name != "PART_I" else []
            body = ["    <summary>", f"        {summary}", "    </summary>", "    <short_text>", f"        {text}"]
            lines += [f"<doc id={index}>", *label, *body, "    </short_text>", "</doc>"]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_recipe_files_are_all_covered():
    assert {path.stem for path in Path(ROOT / "examples" / "wean_lstm").glob("*.sh")} == set(RECIPES)


def test_a_training_ends_with_its_killed_starter(tmp_path):
    """Check that a training stops if its command is killed.

    In earlier versions, the training continued alone, and the repeated command found the folder locked.
    """
    script = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    output = tmp_path / "out"
    line = [sys.executable, "-m", "wean_fairseq.training.progress", "--label", "x", "--output", str(output)]
    with subprocess.Popen([*line, "--", sys.executable, "-c", script], cwd=ROOT) as starter:
        wait_until(lambda: output.exists() and output.read_text().endswith("\n"))
        starter.kill()
    state = Path("/proc", output.read_text().strip(), "stat")
    wait_until(lambda: not state.exists() or state.read_text().split()[2] == "Z")


def wait_until(is_true):
    end = time.monotonic() + 50
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)
