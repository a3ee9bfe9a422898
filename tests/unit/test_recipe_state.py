"""Test variables and state files of recipes: invalid values are reported, and no file is evaluated or lost."""

import fcntl
import hashlib
import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from wean_fairseq.storage.run_settings import is_settings
from wean_fairseq.training.state import record_settings

ROOT = Path(__file__).resolve().parents[2]
LIB = ROOT / "examples" / "lib"
SOURCE = f'set -euo pipefail; source "{LIB}/recipe.sh"; '


def bash(folder: Path, script: str, *, limit: int | None = None, **variables: str) -> subprocess.CompletedProcess:
    """Run lines of a recipe. ``limit`` is the largest size of a file, in bytes."""
    environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "RECIPE": "recipe"}
    environment |= {"GPUS": "0", "RUN": str(folder / "run"), **variables}

    def restrict() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    line = ["bash", "-c", SOURCE + script]
    return subprocess.run(
        line, env=environment, cwd=folder, capture_output=True, text=True, timeout=60, preexec_fn=restrict
    )


def sentence(done: subprocess.CompletedProcess) -> str:
    """Return the single error message of a recipe that must fail."""
    assert done.returncode != 0
    assert done.stderr.startswith("recipe: error: "), done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("recipe: error: ").rstrip("\n")


# --- variables --------------------------------------------------------------------------------------------------------

WHOLE = "must be a whole number of at least"


def test_a_job_array_replaces_nothing(tmp_path):
    """The user may have edited an existing job array.

    A device such as /dev/null must not be replaced by a file either.
    """
    array = "#!/usr/bin/env bash\n#SBATCH --job-name=own_pairs\n#SBATCH --time=99:00:00\n"
    (tmp_path / "array").write_text(array)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("array", "pipe", "link"):
        said = sentence(bash(tmp_path, ":", SBATCH=str(tmp_path / name)))
        assert said.startswith(f"SBATCH must be a new file, but there is {tmp_path}/{name} already")
    assert (tmp_path / "array").read_text() == array


@pytest.mark.parametrize(
    ("training", "seeds", "message"),
    [
        ("wean_lstm", "1 2", "has a training without SEEDS: leave SEEDS out"),
        ("ds1/wean_lstm/tries/lr-0.1,dropout-own", "1", "has a training without SEEDS: leave SEEDS out"),
        ("seed1/wean_lstm", "", "has trainings with SEEDS: give SEEDS again"),
        ("seed1/ds1/wean_lstm/tries/lr-0.1,dropout-own", "", "has trainings with SEEDS: give SEEDS again"),
    ],
)
def test_a_run_keeps_its_kind_of_seeds(tmp_path, training, seeds, message):
    """Otherwise a run with SEEDS would overwrite the scores of a run without SEEDS, and vice versa."""
    command = tmp_path / "run" / training / "command"
    command.parent.mkdir(parents=True)
    command.touch()
    assert message in sentence(bash(tmp_path, ":", SEEDS=seeds))
    assert bash(tmp_path, ":", SEEDS="" if seeds else "1 2").returncode == 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("EPOCHS", "abc", f"EPOCHS {WHOLE} 1 and at most 999999999, but is abc."),
        ("EPOCHS", "0", f"EPOCHS {WHOLE} 1"),
        ("EPOCHS", "08", f"EPOCHS {WHOLE} 1"),
        ("EPOCHS", "3.5", f"EPOCHS {WHOLE} 1"),
        ("EPOCHS", "-3", f"EPOCHS {WHOLE} 1"),
        ("EPOCHS", "a[$(touch touched)]", f"EPOCHS {WHOLE} 1"),
        ("JOBS", "two", f"JOBS {WHOLE} 1"),
        ("GPUS", "x", f"GPUS {WHOLE} 0"),
        ("GPUS", "a[$(touch touched)]", f"GPUS {WHOLE} 0"),
        ("SEED", "one", f"SEED {WHOLE} 0"),
        ("SEEDS", "1,2", f"SEEDS {WHOLE} 0"),
        ("SEEDS", "1 2 1", "SEEDS names 1 twice"),
        ("BPE", "many", f"BPE {WHOLE} 0"),
        ("WIDTH", "wide", f"WIDTH {WHOLE} 1"),
        ("LIMIT", "1e3", f"LIMIT {WHOLE} 0"),
        ("PATIENCE", "0", f"PATIENCE {WHOLE} 1"),
        ("OMP_NUM_THREADS", "all", f"OMP_NUM_THREADS {WHOLE} 1"),
        ("OMP_NUM_THREADS", "4,x", f"OMP_NUM_THREADS {WHOLE} 1"),
        ("RATE", "fast", "RATE must be a learning rate above 0, such as 0.001, but is fast."),
        ("RATE", "0", "RATE must be a learning rate above 0"),
        ("RATE", "0.000", "RATE must be a learning rate above 0"),
        ("RATES", "0.1 quick", "RATES must be a learning rate above 0, such as 0.001, but is quick."),
        ("RATES_wean_lstm", "x", "RATES_wean_lstm must be a learning rate above 0"),
        ("DROPOUT", "1", "DROPOUT must be a number of at least 0 and below 1"),
        ("SMOKE", "yes", "SMOKE must be 0 or 1, but is yes."),
        ("DATA", "two\nlines", "DATA has a line break in its value"),
        ("RUN", "two\nlines", "RUN has a line break in its value"),
        ("SBATCH", "two\nlines", "SBATCH has a line break in its value"),
        ("RUN", "a:b", "RUN has : or , or ${ in its name, which fairseq splits or replaces: choose another than a:b."),
        ("RUN", "w,x", "RUN has : or , or ${ in its name, which fairseq splits or replaces: choose another than w,x."),
        ("RUN", "${HOME}", "RUN has : or , or ${ in its name, which fairseq splits or replaces"),
        ("SBATCH", "/nowhere/array", "SBATCH must be a file in a folder that exists, but is /nowhere/array."),
        ("JOB", "1 a;b", "JOB is set by this recipe for its own processes"),
        ("JOB", "1 ..", "JOB is set by this recipe for its own processes"),  # would be a folder beside RUN
    ],
)
def test_wrong_values_are_one_sentence_before_anything_is_written(tmp_path, name, value, message):
    assert sentence(bash(tmp_path, ":", **{name: value})).startswith(message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("RATE", "5e-4,5e-4,1e-4"), ("RATE", ".1"), ("RATE", "2"), ("RATES", "own 0.1"), ("DROPOUTS", "own 0 .5 0.25")]
    + [("SEEDS", " 3  1 "), ("EPOCHS", ""), ("LIMIT", "0"), ("EPOCHS", "100")],
)
def test_right_values_are_taken(tmp_path, name, value):
    done = bash(tmp_path, ":", **{name: value})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("given", ["4", "4,2", "4, 2,1"])
def test_of_a_list_of_threads_the_first_number_counts(tmp_path, given):
    """OpenMP defines such lists as one number per level of nested parallelism. Recipes use only the first number."""
    assert bash(tmp_path, "printenv OMP_NUM_THREADS", OMP_NUM_THREADS=given).stdout == "4\n"


INTERNAL = "BIN TEXT complete continue_with listed only_check prepared run_lock search_is_checked system_flags".split()


def test_the_environment_sets_no_internal_variable(tmp_path):
    """In an earlier version, BIN named the directory that ``binarise`` deletes, and other variables disabled checks."""
    script = f'for name in {" ".join(INTERNAL)}; do printf %s "${{!name-}}"; done; binary_data; training_text'
    done = bash(tmp_path, script, **dict.fromkeys(INTERNAL, "given"))
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/run/bin{tmp_path}/run/text")


def test_files_of_a_variable_may_begin_with_a_dash_and_hold_spaces(tmp_path):
    """If a file with the whole value as its name exists, it is one file. Otherwise spaces separate files."""
    script = "files_of TEXTS; printf '<%s>' \"${files[@]}\""
    (tmp_path / "one file").touch()
    found = [bash(tmp_path, script, TEXTS=value).stdout for value in ("one file", "-a -b", "a -b")]
    assert found == ["<one file>", "<./-a><./-b>", "<a><./-b>"]


def test_a_deleted_current_directory_is_named(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    line = ["bash", "-c", f'cd "$1"; rmdir "$1"; {SOURCE}', "bash", gone]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 1
    assert done.stderr == "recipe: error: the current directory was deleted: change to another directory.\n"


# --- settings ---------------------------------------------------------------------------------------------------------

REMEMBER = 'need_files hint "$INPUT"; remember "WIDTH=$WIDTH"'


def test_changed_settings_and_inputs_are_named_with_old_and_new_value(tmp_path):
    (tmp_path / "in put.csv").write_text("a\n")
    old, new = (hashlib.sha256(text).hexdigest()[:12] for text in (b"a\n", b"b\n"))
    given = {"INPUT": "in put.csv", "WIDTH": "8"}
    assert bash(tmp_path, REMEMBER, **given).returncode == 0
    (tmp_path / "run" / "text").mkdir()
    (tmp_path / "run" / "text" / "manifest.json").touch()
    assert bash(tmp_path, REMEMBER, **given).returncode == 0
    recorded = (tmp_path / "run" / "settings").read_bytes()
    (tmp_path / "in put.csv").write_text("b\n")
    changes = f"WIDTH: 8 -> 16; the content of in put.csv: SHA-256 {old} -> {new}; LIMIT: not given -> 5"
    said = sentence(bash(tmp_path, REMEMBER, INPUT="in put.csv", WIDTH="16", LIMIT="5"))
    assert set(said.partition("(")[2].partition(")")[0].split("; ")) == set(changes.split("; "))
    assert (tmp_path / "run" / "settings").read_bytes() == recorded


@pytest.mark.parametrize("name", ["run", "1", "a b"])
def test_recorded_options_depend_only_on_the_place_in_the_run(tmp_path, name):
    """The run directory may be moved or named by another path.

    A name such as 1 must not be replaced in other values.
    """
    script = """
      keep_command "$RUN/wean" --dropout 0.15 --labels "$RUN/labels" --vectors="$RUN/vectors"
      kept_search --lenpen 1.1 --dump "$RUN/dump"
    """
    (tmp_path / name).mkdir()
    paths = {tmp_path: str(tmp_path / name), tmp_path / name: "."}
    done = [bash(folder, script, RUN=run) for folder, run in [*paths.items(), (tmp_path, name)]]
    assert [each.stderr for each in done] == ["", "", ""]
    assert {each.stdout for each in done} == {"--replace-unk\n--search-preset\nwean\n--lenpen\n1.1\n--dump\nRUN/dump\n"}
    command = (tmp_path / name / "wean" / "command").read_text()
    assert command.splitlines() == ["--dropout 0.15", "--labels RUN/labels", "--vectors=RUN/vectors"]


def test_settings_from_which_nothing_was_made_are_replaced(tmp_path):
    (tmp_path / "in").touch()
    for width in ("8", "16"):
        assert bash(tmp_path, REMEMBER, INPUT="in", WIDTH=width).returncode == 0
    assert "WIDTH=16\n" in (tmp_path / "run" / "settings").read_text()


@pytest.mark.parametrize("content", ["a note\n", "x=1\n", "\x00\xff" * 1000])
def test_a_file_of_the_user_with_the_name_of_the_settings_is_kept(tmp_path, content):
    (tmp_path / "in").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings").write_text(content)
    for mark, message in (("", "is not a file of a recipe"), ("a run of wean_fairseq\n", "is not a file of settings")):
        (tmp_path / "run" / ".run.lock").write_text(mark)
        assert message in sentence(bash(tmp_path, REMEMBER, INPUT="in", WIDTH="8"))
        assert (tmp_path / "run" / "settings").read_text() == content


def test_control_characters_of_a_settings_file_do_not_reach_the_terminal(tmp_path):
    (tmp_path / "in").touch()
    (tmp_path / "run" / "text").mkdir(parents=True)
    (tmp_path / "run" / "text" / "manifest.json").touch()
    (tmp_path / "run" / "settings").write_bytes(b"SEED=1\nWIDTH=\x1b]0;title\x07\xff\n")
    said = sentence(bash(tmp_path, REMEMBER, INPUT="in", WIDTH="8"))
    assert "WIDTH: \\x1b]0;title\\x07" in said
    assert said.isprintable()


# --- other state files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "epochs"),
    [(b"20\n", "20"), (b"20", "20"), (b"", "0"), (b"a[$(touch touched)]\n", "0"), (b"-3\n", "0"), (b"08\n", "0")]
    + [(b"9" * 30, "0"), (b"\xff\x00\n", "0"), (b"EPOCHS\n", "0"), (b"20 30\n", "0"), (b"0x10\n", "0")],
)
def test_trained_epochs_are_a_number_or_none(tmp_path, content, epochs):
    """A file that a full disk left empty, or that a user wrote, does not count as a finished training."""
    (tmp_path / "run" / "wean").mkdir(parents=True)
    (tmp_path / "run" / "wean" / ".trained").write_bytes(content)
    done = bash(tmp_path, "if (($(trained_epochs wean) >= 0)); then trained_epochs wean; fi")
    assert (done.returncode, done.stdout) == (0, epochs)
    assert not (tmp_path / "touched").exists()


def test_a_state_file_that_cannot_be_written_stays_as_it_was(tmp_path):
    """With files limited to 1 kB, writing the new content fails, the old file stays, and no partial file is left."""
    (tmp_path / "state").write_text("old\n")
    done = bash(tmp_path, "trap '' XFSZ; head -c 5000 /dev/zero | write_state state", limit=1000)
    assert "state cannot be written: make room" in done.stderr
    assert (tmp_path / "state").read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_settings_that_cannot_be_written_do_not_lock_the_run(tmp_path):
    (tmp_path / "in").touch()
    done = bash(tmp_path, f"trap '' XFSZ; {REMEMBER}", INPUT="in", WIDTH="8" * 9, limit=20)
    assert "a file cannot be written (File too large): make room" in sentence(done)
    assert bash(tmp_path, REMEMBER, INPUT="in", WIDTH="8").returncode == 0
    assert "WIDTH=8\n" in (tmp_path / "run" / "settings").read_text()


def test_a_second_recipe_in_a_run_directory_is_refused(tmp_path):
    """Both recipes would write the same files. The jobs of one recipe run at the same time."""
    (tmp_path / "in").touch()
    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / ".run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = sentence(bash(tmp_path, REMEMBER, INPUT="in", WIDTH="8"))
        assert said.startswith(f"another run is using {tmp_path}/run: wait until it has ended, or stop it and its")
        assert bash(tmp_path, REMEMBER, INPUT="in", WIDTH="8", JOB="1 wean_lstm").returncode == 0
    assert bash(tmp_path, REMEMBER, INPUT="in", WIDTH="8").returncode == 0


def test_a_directory_with_files_of_the_user_is_no_run_directory(tmp_path):
    """In an earlier version, a recipe with RUN=$HOME removed ~/bin and overwrote files of the user."""
    tool = tmp_path / "run" / "bin" / "tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("mine")
    (tmp_path / "in").touch()
    said = sentence(bash(tmp_path, REMEMBER, INPUT="in", WIDTH="8"))
    assert said == f"{tmp_path}/run/bin is not a file of a recipe: set RUN to a new or an empty directory."
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["bin"]
    assert tool.read_text() == "mine"
    tool.unlink()
    tool.parent.rmdir()
    assert bash(tmp_path, REMEMBER, INPUT="in", WIDTH="8").returncode == 0


def irregular(kind: str, path: Path, outside: Path) -> None:
    """Replace ``path`` by something that a recipe must neither read, which would block, nor write to."""
    path.unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(
            {"device": Path("/dev/zero"), "user's file": outside, "missing file": outside.parent / "no"}[kind]
        )


@pytest.mark.parametrize("kind", ["FIFO", "device", "user's file", "missing file"])
@pytest.mark.parametrize("name", ["settings", "tool.err", "wean/train.log", "wean/tries/lr-1/command", "jobs/0.log"])
def test_a_run_directory_holds_only_its_own_files(tmp_path: Path, kind: str, name: str) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("a user's file")
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    (tmp_path / "run" / ".run.lock").write_text("a run of wean_fairseq\n")
    irregular(kind, path, mine)
    assert sentence(bash(tmp_path, "true")) == (
        f"{path} is not a file, or is a link to one outside of the run directory: remove it, and start again."
    )
    assert mine.read_text() == "a user's file"


@pytest.mark.parametrize("kind", ["FIFO", "device", "missing file"])
def test_a_lock_that_is_not_a_file_is_reported(tmp_path: Path, kind: str) -> None:
    lock = tmp_path / "run" / ".run.lock"
    lock.parent.mkdir()
    irregular(kind, lock, tmp_path / "mine.txt")
    assert sentence(bash(tmp_path, "lock_run")) == f"{lock} is not a file: remove it, and start again."


def test_a_run_directory_with_a_hidden_name_is_checked(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    (tmp_path / ".run").mkdir()
    (tmp_path / ".run" / ".run.lock").write_text("a run of wean_fairseq\n")
    (tmp_path / ".run" / "tool.err").symlink_to(tmp_path / "mine.txt")
    said = sentence(bash(tmp_path, "true", RUN=".run"))
    assert said.startswith(f"{tmp_path}/.run/tool.err is not a file, or is a link to one outside")


# --- the model folder -------------------------------------------------------------------------------------------------

EXPORT = """
tool() { shift 4; }
wean-export() { [[ -z ${BROKEN:-} ]] || { echo "wean-export: error: broken" && return 2; }
  [[ $8 == --overwrite ]] && mkdir -p "$7" && cp "$1" "$7/config.json"; }
export_model wean "$RUN/model"
"""


def test_the_model_folder_follows_its_checkpoint_and_survives_a_failed_export(tmp_path):
    checkpoint, model = tmp_path / "run" / "wean" / "checkpoint_best.pt", tmp_path / "run" / "model"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("first")
    assert "writing" in bash(tmp_path, EXPORT).stdout
    assert "done before" in bash(tmp_path, EXPORT).stdout
    checkpoint.write_text("second")
    assert "broken" in sentence(bash(tmp_path, EXPORT, BROKEN="1"))
    assert (model / "config.json").read_text() == "first"
    assert "writing" in bash(tmp_path, EXPORT).stdout
    assert (model / "config.json").read_text() == "second"
    (model / "config.json").write_text("damaged")
    assert "writing" in bash(tmp_path, EXPORT).stdout
    assert (model / "config.json").read_text() == "second"


def test_the_printed_commands_quote_the_run_directory(tmp_path):
    text = (ROOT / "examples" / "own_pairs.sh").read_text()
    script = "texts=x\n" + text[text.index("printf '    wean-generate") :]
    run = str(tmp_path / "a'b\"; c")
    generate, load = bash(tmp_path, script, RUN=run).stdout.splitlines()
    assert shlex.split(generate) == ["wean-generate", "--model", f"{run}/model", "--input", "x"]
    python, *options, program, folder = shlex.split(load)
    assert (python, options, folder) == ("python", ["-P", "-c"], f"{run}/model")
    compile(program, "program", "exec")


def test_names_that_are_not_utf_8_are_recorded_and_compared(tmp_path):
    """File names reach Python as arbitrary bytes."""
    line = [sys.executable, "-P", "-m", "wean_fairseq.training.state", tmp_path / "settings"]
    environment = {"PYTHONPATH": str(ROOT)}
    for value, status in ((b"/data/\xff", 0), (b"/data/\xff", 0), (b"/data/\xfe", 3)):
        (tmp_path / "text").mkdir(exist_ok=True)
        (tmp_path / "text" / "manifest.json").touch()  # an output exists, so the settings must not change
        done = subprocess.run(line, input=b"DATA=" + value + b"\n", env=environment, capture_output=True, timeout=60)
        assert done.returncode == status, done.stderr
    assert rb"DATA: /data/\xff -> /data/\xfe" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["archs", "none"], ["sizes", "many", "pairs"], ["options", "wean_lstm"]])
def test_questions_about_defaults_that_have_no_answer(arguments):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "wean_fairseq.training.defaults", *arguments],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("defaults: error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Name two of them with --columns A,B", "Name two of them with COLUMNS=A,B"),
        ("x (--header no overrides)", "x (HEADER=no overrides)"),
        ("give --test the folder of one", "give TEST the folder of one"),
        ("--header is for tables: leave it out", "HEADER is for tables: leave it out"),
        ("give --data, --valid and --test folders in x", "give --data, VALID and TEST folders in x"),
    ],
)
def test_messages_name_the_variables_of_the_recipe(tmp_path, said, shown):
    """A variable is followed by = if its value follows, but not if the sentence continues."""
    (tmp_path / "text.log").write_text(f"own_pairs: error: {said}.\n")
    assert sentence(bash(tmp_path, "fail preparing text.log")) == f"preparing failed: {shown}. (log: text.log)"


def test_a_value_with_another_line_separator_is_one_line(tmp_path):
    """Only a line feed separates the lines. A file name may contain U+2028 or a next line."""
    for _ in range(2):
        assert bash(tmp_path, 'remember "NOTE=$NOTE"', NOTE="a\u2028b\x85c").returncode == 0
    assert is_settings(tmp_path / "run" / "settings")
    assert "NOTE=a\\u2028b\\x85c\n" in (tmp_path / "run" / "settings").read_text()


@pytest.mark.parametrize("option", ["embedding-file", "local-target-vectors", "decoder-embed-path"])
def test_a_changed_file_of_an_option_is_refused(tmp_path, option):
    """Word vectors were edited between two systems of one table, which started from different vectors."""
    vectors = tmp_path / "my vectors"
    vectors.write_text("a 1\n")
    script = f'keep_command "$RUN/nts" --lr 1 --{option} "$PWD/my vectors" --restore-file last --arch nts; echo same'
    (tmp_path / "nts").write_text("1")  # a log with the name of the arch
    (tmp_path / "last").write_text("1")
    assert bash(tmp_path, script).stdout == "same\n"
    (tmp_path / "run" / "nts" / "checkpoint_last.pt").write_text("")  # the options have been used
    (tmp_path / "last").write_text("2")  # another training may write it
    (tmp_path / "nts").write_text("2")
    assert bash(tmp_path, script).stdout == "same\n"
    vectors.write_text("a 2\n")
    said = sentence(bash(tmp_path, script))
    assert "run/nts was begun with other options (the content of my vectors: SHA-256 " in said
    command = tmp_path / "run" / "nts" / "command"
    earlier = "".join(f"{line}\n" for line in command.read_text().splitlines() if line.startswith("--"))
    command.write_text(earlier)  # an earlier version did not record the content
    assert bash(tmp_path, script).stdout == "same\n"
    assert command.read_text() == earlier


def test_vectors_of_the_run_are_not_looked_up_in_a_folder_named_run(tmp_path):
    """The options name the run directory RUN. Another start may be in a folder that has such an entry."""
    script = 'keep_command "$RUN/nts" --global-vectors "$RUN/vectors.txt"; echo same'
    for number, folder in enumerate([tmp_path / "a", tmp_path / "b"]):
        (folder / "RUN").mkdir(parents=True)
        (folder / "RUN" / "vectors.txt").write_text(f"a {number}\n")
        assert bash(folder, script, RUN=str(tmp_path / "run")).stdout == "same\n"
        (tmp_path / "run" / "nts" / "checkpoint_last.pt").write_text("")


def test_vectors_in_a_users_folder_of_that_name_are_hashed(tmp_path, monkeypatch):
    """Only recipes write RUN for their run directory. wean-train keeps the user's relative path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "RUN").mkdir()
    (tmp_path / "RUN" / "vectors").write_text("a 1\n")
    record_settings(tmp_path / "w" / "command", ["--embedding-file RUN/vectors"])
    assert "SHA-256 of vectors=" in (tmp_path / "w" / "command").read_text()


def test_a_deleted_file_of_an_option_is_named(tmp_path):
    vectors = tmp_path / "vectors"
    vectors.write_text("a 1\n")
    script = 'keep_command "$RUN/nts" --embedding-file "$PWD/vectors"'
    assert bash(tmp_path, script).returncode == 0
    (tmp_path / "run" / "nts" / "checkpoint_last.pt").write_text("")
    vectors.unlink()
    digest = hashlib.sha256(b"a 1\n").hexdigest()[:12]
    assert f"(SHA-256 of vectors: {digest} -> not found)" in sentence(bash(tmp_path, script))
