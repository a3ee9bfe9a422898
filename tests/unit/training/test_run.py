"""Test how wean-train reads files of its work folder, which may be damaged or belong to another program."""

import json
import os
import shutil
import signal
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec import structs

from wean_fairseq.errors import UserError
from wean_fairseq.training import base, run, state
from wean_fairseq.training.call import train
from wean_fairseq.training.settings import build_settings

# None means that the file is a FIFO
BROKEN = [b"", b"abc", b"[]", b"null", b"{}", b"9" * 5000, b"\xff", b"[" * 200_000, None]


@pytest.fixture
def training(tmp_path, monkeypatch):
    """Return a run whose text and data are complete, and whose training cannot start."""

    def start(*_arguments):
        raise UserError("it trains")

    monkeypatch.setattr(run.progress, "run_with_progress", start)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("source,target\na,b\n", encoding="utf-8")
    started = run.TrainingRun(build_settings({"data": "pairs.csv", "output": "m", "arch": "copynet", "device": "cpu"}))
    for folder in (started.text, started.data, started.system):
        folder.mkdir(parents=True)
    (started.data / "manifest.json").touch()
    (started.text / "manifest.json").write_text('{"splits": {"train": {"kept": 9}}}', encoding="utf-8")
    (started.text / "train.src").write_text("a\n" * 9, encoding="utf-8")
    return started


def damage(path, content):
    path.unlink(missing_ok=True)
    if content is None:
        os.mkfifo(path)
    else:
        path.write_bytes(content)


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_description_of_the_text_is_refused(training, content):
    damage(training.text / "manifest.json", content)
    with pytest.raises(UserError, match=r"manifest\.json"):
        training.prepare()


def test_prepared_text_that_has_changed_is_refused(training):
    """The scores of a changed test set were reported as those of the model."""
    manifest = {"splits": {"train": {"kept": 9}}, "files": {"test.raw.tgt": {"sha256": sha256(b"a\n").hexdigest()}}}
    (training.text / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    (training.text / "test.raw.tgt").write_text("a\n", encoding="utf-8")
    training.prepare()
    (training.text / "test.raw.tgt").write_text("b\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"test\.raw\.tgt has changed since its checksum was written to"):
        training.prepare()


def test_a_wrong_number_of_pairs_is_refused(training):
    """The number decides the arch and the sizes, so that another model replaced the trained one."""
    (training.text / "train.src").write_text("a\n" * 8, encoding="utf-8")
    with pytest.raises(UserError, match=r"train\.src has 8 lines, but .*manifest\.json says 9: delete .*m\.work"):
        training.prepare()


def test_outputs_that_have_changed_are_refused(training, monkeypatch):
    """Changed outputs were scored. Outputs of an older version, without a checksum, are decoded again."""
    decoded = []

    def generate(line):
        decoded.append(line[line.index("--output") + 1])
        training.output("copynet", "test").write_text("a b\n", encoding="utf-8")
        return 0

    monkeypatch.setattr(run, "generate", generate)
    training.prepare()
    (training.system / "checkpoint_best.pt").touch()
    (training.text / "test.raw.src").write_text("a\n", encoding="utf-8")
    training.decode()
    training.decode()
    assert decoded == [str(training.output("copynet", "test"))]
    mark = training.output("copynet", "test").with_suffix(".source")
    mark.write_text(mark.read_text(encoding="utf-8").partition("\n")[0] + "\n", encoding="utf-8")
    training.decode()
    assert len(decoded) == 2
    training.output("copynet", "test").write_text("a c\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"test\.txt has changed since it was decoded: remove it to decode again"):
        training.decode()


def test_a_file_that_a_killed_run_began_is_removed(tmp_path, monkeypatch):
    """A run that was killed while it wrote its first file could never be repeated."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.work").mkdir()
    (tmp_path / "m.work/.wean-0123456789abcdef.partial").touch()
    run.TrainingRun(build_settings({"data": "pairs.csv", "output": "m", "device": "cpu"})).check_folders()
    assert not list((tmp_path / "m.work").iterdir())


@pytest.mark.parametrize("given", [{}, {"epochs": 2, "width": 8}])
def test_a_run_killed_after_it_wrote_the_model_goes_on(training, monkeypatch, given):
    """The model's settings have the sizes and epochs that were used, which the command may not give."""
    checkpoint = training.system / "checkpoint_best.pt"
    for path, content in ((checkpoint, ""), (training.work / "test.json", "{}")):
        path.write_text(content, encoding="utf-8")
    (training.work / "trainings.json").write_text('{"copynet": {}}', encoding="utf-8")
    state.record_settings(training.work / "settings", ["SEED=1"])

    def export(_checkpoint, folder, *_data, documents, **_options):
        folder.mkdir()
        for name, content in documents.items():
            (folder / name).write_text(content, encoding="utf-8")
        (folder / "checksums.sha256").write_text("...", encoding="utf-8")
        raise KeyboardInterrupt  # the process is killed before it records the checksums

    monkeypatch.setattr(run, "export", export)
    training.settings = structs.replace(training.settings, epochs=7, width=16)
    with pytest.raises(KeyboardInterrupt):
        training.publish()
    settings = {"data": "pairs.csv", "output": "m", "arch": "copynet", "device": "cpu"} | given
    again = run.TrainingRun(build_settings(settings))
    again.check_folders()
    (again.settings.folder / "run.toml").write_text("epochs = 9\n", encoding="utf-8")
    with pytest.raises(UserError, match="was not written by this run"):
        again.check_folders()


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_mark_means_that_the_step_is_not_done(training, content):
    training.prepare()
    damage(training.system / ".trained", content)
    with pytest.raises(UserError, match="it trains"):
        training.train()
    damage(training.work / "published", content)
    # such content is not the checksum of any model folder
    assert training._published == (content or b"").decode(errors="replace")


def test_a_second_run_in_a_work_folder_is_refused(training):
    """Both would write the same text and the same outputs."""
    training.prepare()
    with state.alone(training.work), pytest.raises(UserError, match=r"another run is using m\.work: wait until it has"):
        run.run(training.settings)


@pytest.mark.parametrize("name", ["a\nb.csv", "a\u2028b.csv", "a\x85.csv", "a\udcff.csv"])
def test_a_repeated_command_continues_whatever_the_names_of_its_files(training, name):
    training.prepare()
    (training.work / "settings").unlink()
    Path("pairs.csv").rename(name)
    given = {"data": name, "output": "m", "arch": "copynet", "device": "cpu"}
    for _ in range(2):
        training.settings = build_settings(given)
        training.prepare()  # this call raises UserError if the settings differ
    lines = (training.work / "settings").read_text(encoding="utf-8").splitlines()
    assert [line.partition("=")[0][:7] for line in lines] == ["split_s", "unit", "case", "SHA-256"]


@pytest.mark.parametrize("kind", ["user's file", "missing file", "FIFO"])
def test_no_file_outside_of_a_work_folder_is_written(training, kind):
    """A work folder may come from elsewhere, and a link in it must not lead to a file outside of it."""
    training.prepare()
    log = training.system / "train.out"
    damage(log, None)
    if kind != "FIFO":
        log.unlink()
        log.symlink_to(training.work.parent / {"user's file": "pairs.csv", "missing file": "no"}[kind])
    with pytest.raises(UserError, match=r"train\.out is not a file, or is a link to one outside of m\.work: remove it"):
        run.run(training.settings)
    assert (training.work.parent / "pairs.csv").read_text() == "source,target\na,b\n"


@pytest.mark.parametrize("name", ["test.json", "trainings.json", ".run.lock", "published", "copynet/.trained", "x.log"])
def test_a_folder_in_place_of_a_file_is_named_before_the_training(training, name):
    training.prepare()
    (training.work / name).mkdir()
    with pytest.raises(UserError, match=f"{name} is a folder, but wean-train writes a file of this name: move it"):
        run.run(training.settings)


@pytest.mark.parametrize("name", ["text", "bin", "copynet", "report"])
def test_a_file_in_place_of_a_folder_is_kept(training, name):
    training.prepare()
    shutil.rmtree(training.work / name, ignore_errors=True)
    (training.work / name).write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match=f"{name} is a file, but wean-train writes a folder of this name: move it"):
        run.run(training.settings)
    assert (training.work / name).read_text(encoding="utf-8") == "mine"


def test_word_vectors_reach_the_training(training, monkeypatch):
    commands = []

    def start(command, *_others):
        commands.append(command)
        raise UserError("it trains")

    monkeypatch.setattr(run.progress, "run_with_progress", start)
    (training.work.parent / "vectors.vec").write_text("a 1 2\n", encoding="utf-8")
    given = {"data": "pairs.csv", "output": "m", "arch": "copynet", "device": "cpu", "embedding_file": "vectors.vec"}
    training.settings = build_settings(given)
    training.prepare()
    with pytest.raises(UserError, match="it trains"):
        training.train()
    place = commands[0].index("--embedding-file")
    assert commands[0][place + 1] == "vectors.vec"


def test_the_old_test_set_has_all_references(training):
    """The names are those that preprocess/own_pairs.py writes for a table with two columns of references."""
    (training.text / "manifest.json").write_text('{"options": {}}', encoding="utf-8")
    for name in ("test.raw.src", "test.raw.tgt", "test.raw.tgt.1"):
        (training.text / name).touch()
    given = build_settings({"data": "pairs.csv", "output": "m", "from": "checkpoint"})
    found = base._old_test(given, training.system / "checkpoint_best.pt", training.text)
    assert [file.name for file in found] == ["test.raw.src", "test.raw.tgt", "test.raw.tgt.1"]


def test_an_old_test_set_that_is_not_found_is_reported(training, capsys):
    training.settings = build_settings({"data": "pairs.csv", "output": "m", "from": "old", "device": "cpu"})
    weights = training.work / "weights"
    weights.touch()
    training.base = base.Base(weights, "copynet", 8, [], training.text, [], [], {}, 0)
    training.prepare()
    assert "the test set of old is not next to it, and is not scored: --old-test names it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("weights", "own"),
    [("old/model.safetensors", []), ("old/checkpoint_best.pt", ["--data", "bin", "--text", "text"])],
)
def test_an_exported_model_is_scored_with_its_own_text(training, weights, own):
    """wean-generate refuses --data and --text for an exported model folder, which contains both."""
    dictionaries = [Path("bin/dict.src.txt"), Path("bin/dict.tgt.txt")]
    training.base = base.Base(Path(weights), "copynet", 8, [], Path("text"), dictionaries, [], {}, 0)
    assert training.systems()["before"] == ["--model", weights, *own]


@pytest.mark.parametrize("output", ["a" * 10_000, "/proc/model"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("source,target\na,b\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"shorten it|cannot be read or written"):
        train("pairs.csv", output)


def test_sigterm_ends_the_program_again_after_its_command(tmp_path):
    """The signal handler must be removed after the command.

    Otherwise the program would ignore SIGTERM in later steps.
    """
    earlier = signal.getsignal(signal.SIGTERM)
    kill = "import os, signal, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)"
    bar = run.progress.Progress("x", 1, "H-", 1)
    status = run.progress.run_with_progress([sys.executable, "-c", kill], tmp_path / "out", None, bar)
    assert status == -signal.SIGTERM  # the signal was passed on to the command
    assert signal.getsignal(signal.SIGTERM) is earlier


def test_the_message_of_another_program_is_one_line(training, monkeypatch):
    """Its line breaks would be shown as a literal ``\\n``. argparse's messages do not begin with ``error:``."""
    script = training.work.parent / "script.py"
    script.write_text("import sys\nsys.exit('own_pairs.py: argument --x:\\n  expected one argument\\n')\n")
    monkeypatch.setattr(run, "preparation_script", lambda: script)
    with pytest.raises(UserError) as error:
        training._run_preparation()
    assert str(error.value) == "preparing the text failed: own_pairs.py: argument --x: expected one argument"


def test_a_name_with_a_dash_is_shown_as_one_that_can_be_typed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run.say(f"model: {tmp_path}/-m, text: {tmp_path}/m.work")
    assert "model: ./-m, text: m.work" in "".join(capsys.readouterr())
