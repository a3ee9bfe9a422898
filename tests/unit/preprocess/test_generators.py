"""Test that all four generators write identical bytes for the same seed, and a complete directory or none."""

import hashlib
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

PREPROCESS = Path(__file__).resolve().parents[3] / "preprocess"
SMALL = {
    "copynet_rules": ("--rules", 10, "--train-per-rule", 4, "--valid-per-rule", 1, "--test-per-rule", 2),
    "dialogue_patterns": ("--train", 60, "--valid", 10, "--test", 20, "--pool-size", 30),
    "synthetic_paraphrase": ("--train", 50, "--valid", 9, "--test", 11),
    "topic_essays": ("--train", 40, "--valid", 9, "--test", 11),
}
SETS = {"dialogue_patterns": ["ds1", "ds2"]}
# FACTS names the last function that a script calls, if it is not "measure".
FACTS = {"copynet_rules": "measure_ceiling"}
# The digests were recorded with version 1.0. If the output changes, VERSION must be increased.
SNAPSHOTS = [
    ("copynet_rules", (), "9491a8eb4f74983fc571daece85185e8be89e17ee18b544f45c503e8bfc2fbe2"),
    ("dialogue_patterns", (), "474ea578fda68e0e635607cd7af452d05425307066fe70dbb43a5409a3a4f9b2"),
    ("synthetic_paraphrase", (), "5e1830996854481e76b1695bdb338183e320a1538a7a746302101b91c988bda2"),
    ("topic_essays", (), "224a25e29e5e2c1239a38da9fb245f8dbb760bc37b0fadde481610f2ac1fd35e"),
    ("topic_essays", ("--language", "zh"), "6597136563a9f9b1d466e7d0577553c2c9c478780b15efd36356528ae1b0fbac"),
]

each = pytest.mark.parametrize("script", SMALL)


def run(script, output, *options):
    """Run a generator in this process with its small sizes, and return the exit status."""
    return importlib.import_module(script).main(["--output", str(output), *map(str, SMALL[script]), *options])


def contents(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@each
def test_same_seed_gives_same_bytes_whatever_the_hash_seed(script, tmp_path):
    assert run(script, tmp_path / "here") == 0
    line = [sys.executable, PREPROCESS / f"{script}.py", "--output", tmp_path / "there", *map(str, SMALL[script])]
    done = subprocess.run(line, env={**os.environ, "PYTHONHASHSEED": "2"}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


@pytest.mark.parametrize(("script", "options", "checksum"), SNAPSHOTS)
def test_bytes_stay_the_same_for_ever(script, options, checksum, tmp_path):
    assert run(script, tmp_path / "out", *options) == 0
    text = b"".join(data for name, data in contents(tmp_path / "out").items() if not name.endswith("manifest.json"))
    assert hashlib.sha256(text).hexdigest() == checksum
    assert importlib.import_module(script).VERSION == "1.0"


@each
def test_existing_output_is_skipped_refused_or_replaced(script, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(script, out) == 0
    before = contents(out)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    capsys.readouterr()
    assert run(script, out) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert run(script, out, "--seed", "2") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{script}: error: ") and "--overwrite" in error and error.count("\n") == 1
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == times
    assert run(script, out, "--seed", "2", "--overwrite") == 0
    after = contents(out)
    assert after.keys() == before.keys()
    assert all(after[name] != before[name] for name in before if name.endswith(("src", "tgt", "manifest.json")))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@each
def test_one_file_of_somebody_is_enough_to_refuse(script, tmp_path, capsys):
    folder = tmp_path / SETS.get(script, [""])[-1]
    folder.mkdir(exist_ok=True)
    (folder / "valid.tgt").write_text("mine\n")
    for options in ((), ("--overwrite",)):
        assert run(script, tmp_path, *options) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert list(contents(tmp_path).values()) == [b"mine\n"]


@each
@pytest.mark.parametrize("below", ["", "out"])
def test_output_that_cannot_be_made_is_one_clear_line(script, below, tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert run(script, tmp_path / "file" / below) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{script}: error: ") and error.count("\n") == 1
    assert contents(tmp_path) == {"file": b"x"}


@each
@pytest.mark.parametrize(
    ("stop", "status", "message"),
    [(KeyboardInterrupt(), 130, "interrupted"), (OSError(28, "No space left on device"), 2, "No space left")],
)
def test_stopped_run_leaves_nothing(script, stop, status, message, tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise stop

    monkeypatch.setattr(importlib.import_module(script), FACTS.get(script, "measure"), fail)
    assert run(script, tmp_path / "out") == status
    assert message in capsys.readouterr().err
    assert not contents(tmp_path)


BAD = [
    ("copynet_rules", "--rules", "4"),
    ("copynet_rules", "--test-per-rule", "0"),
    ("copynet_rules", "--rules", "10001"),
    ("synthetic_paraphrase", "--train", "10000001"),
    ("topic_essays", "--train", "99999999999"),
    ("dialogue_patterns", "--pool-size", "4"),
    ("dialogue_patterns", "--set", "ds3"),
    ("synthetic_paraphrase", "--test", "1.5"),
    ("synthetic_paraphrase", "--train", "many"),
    ("topic_essays", "--language", "de"),
    ("topic_essays", "--train", "0"),
    *((script, "--seed", "-1") for script in SMALL),
]


@pytest.mark.parametrize(("script", "option", "value"), BAD)
def test_bad_options_are_refused(script, option, value, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        run(script, tmp_path / "out", option, value)
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert option in message and repr(value) in message
    assert not list(tmp_path.iterdir())


@each
def test_help_names_every_option(script, capsys):
    with pytest.raises(SystemExit) as stopped:
        run(script, "unused", "--help")
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    named = [name for name in SMALL[script] if str(name).startswith("--")]
    assert all(option in shown for option in (*named, "--output", "--seed", "--overwrite"))
