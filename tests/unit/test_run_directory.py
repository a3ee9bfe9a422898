"""A recipe accepts only its own run directory, and replaces only its own files in it."""

import os
from pathlib import Path

import pytest

from tests.unit.test_recipe_state import REMEMBER, bash, sentence

INPUT = {"INPUT": "in", "WIDTH": "8"}
SETTINGS = f"SEED=1\nWIDTH=8\nSHA-256 of in={'0' * 64}\n"
MARK = "a run of wean_fairseq\n"  # the line that the recipes and wean-train write to .run.lock


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files below ``folder``. A name that ends in a slash is a directory."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        path = folder / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    "files",
    [
        {"app/settings/base.py": "x", "bin/tool": "mine"},  # a folder called settings
        {".config/settings": "x", "bin/tool": "mine"},
        {"settings": "", "bin/tool": "mine"},
        {"settings": "", "text.log": "mine"},
        {"settings": "a note\n", "bin/tool": "mine"},
        {"settings": "# SEED=1\nWIDTH=8\nno equals sign\n", "bin/tool": "mine"},
        {"settings": "A=1\n", "bin/tool": "mine"},
        {".run.lock": "", "bin/tool": "mine"},
        {".run.lock": "", "plain-test/test.src": "mine"},
        {".run.lock": "mine", "bin/tool": "mine"},
        {"text.log": "mine"},
        {"preprocess.log": "mine"},
        {"text-pwkp.log": "mine"},
        {"export.log": "mine", "slurm-1.out": "x"},
        {"old.log/notes": "mine"},
        {"project/run/settings": SETTINGS, "bin/tool": "mine"},  # a run in a folder of the user's directory
        {"seed1/settings": SETTINGS, "bin/tool": "mine"},  # no lock: earlier recipes made one
        {"notes.txt": "mine"},
    ],
)
def test_a_directory_of_the_user_is_refused_and_unchanged(tmp_path: Path, files: dict[str, str]) -> None:
    """`rm -rf` removed the user's bin/, and text.log was overwritten."""
    (tmp_path / "in").touch()
    run = write(tmp_path / "run", files)
    before = content(run)
    said = sentence(bash(tmp_path, f'{REMEMBER}; : >"$RUN/text.log"; rm -r "$RUN/bin"', **INPUT))
    assert said.endswith(" is not a file of a recipe: set RUN to a new or an empty directory.")
    assert content(run) == before


def test_the_root_and_the_home_directory_are_no_run_directories(tmp_path: Path) -> None:
    """A home directory may be empty, or may have only hidden files, which are ignored in other directories."""
    home = write(tmp_path / "home", {".profile": "mine"})
    (tmp_path / "link").symlink_to(home)
    for run, named in (("/", "/"), (f"{tmp_path}/link/", home)):
        said = sentence(bash(tmp_path, "true", RUN=run, HOME=str(home)))
        assert said == (
            f"RUN is {named}, which is not for the files of a recipe: set RUN to a new or an empty directory."
        )


@pytest.mark.parametrize("name", ["FIFO", "link", "folder/tool.err"])
def test_no_entry_of_a_users_directory_is_to_be_removed(tmp_path: Path, name: str) -> None:
    """The message for RUN=/etc was to remove a socket from there."""
    path = write(tmp_path / "run", {"notes": ""}) / name
    if name == "FIFO":
        os.mkfifo(path)
    elif name == "link":
        path.symlink_to(tmp_path)
    else:
        path.mkdir(parents=True)
    said = sentence(bash(tmp_path, "true"))
    assert said.endswith(" is not a file of a recipe: set RUN to a new or an empty directory.")


@pytest.mark.parametrize(
    "files",
    [
        {},
        {".run.lock": ""},
        {".run.lock": MARK},
        {"slurm-12.out": "x", "mine.log": "x", ".note": "x"},
        {"settings": SETTINGS, "bin/dict.src.txt": ""},  # of an earlier version
        {".run.lock": "", "seed1/settings": SETTINGS, "jobs/1.log": ""},
        {".run.lock": "", "seed1/quora/settings": SETTINGS, "table2.md": ""},
        {".run.lock": "", "twitter_url/settings": SETTINGS},
        {"settings": f"split_seed=1\nSHA-256 of a.csv={'0' * 64}\n", "text/manifest.json": "{}"},  # of wean-train
    ],
)
def test_a_run_directory_is_accepted(tmp_path: Path, files: dict[str, str]) -> None:
    (tmp_path / "in").touch()
    write(tmp_path / "run", files)
    done = bash(tmp_path, "lock_run")
    assert (done.returncode, done.stderr) == (0, "")


def test_recorded_settings_mark_the_run_directory(tmp_path: Path) -> None:
    """The settings of the seeds are in directories of the run, so they cannot be the mark."""
    (tmp_path / "in").touch()
    for seeds in ("", "1 2"):
        run = tmp_path / f"run{len(seeds)}"
        assert bash(tmp_path, REMEMBER, RUN=str(run), SEEDS=seeds, **INPUT).returncode == 0
        assert (run / ".run.lock").read_text() == MARK
        write(run, {"other": "of a later step"})
        assert bash(tmp_path, REMEMBER, RUN=str(run), SEEDS=seeds, **INPUT).returncode == 0
        assert (run / ".run.lock").read_text() == MARK


def test_a_refused_run_is_not_marked(tmp_path: Path) -> None:
    done = bash(tmp_path, 'inputs=("$RUN/missing"); remember A=1')
    assert done.returncode != 0
    assert (tmp_path / "run" / ".run.lock").read_text() == ""


# --- entries with names of a recipe -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [".run.lock", "tool.err", "test.samples.txt", "text.log", "model.sources", "plain-test/test.src", "wean/train.log"]
    + ["wean/command", "wean/.trained", "test.json", "test.md", "curves.png", "seed1/settings", "jobs/.preparing"],
)
def test_a_directory_in_place_of_a_file_is_named(tmp_path: Path, name: str) -> None:
    """Bash printed "line 12: ...: Is a directory", or nothing."""
    path = write(tmp_path / "run", {".run.lock": MARK} if name != ".run.lock" else {"settings": SETTINGS}) / name
    path.mkdir(parents=True)
    assert sentence(bash(tmp_path, "true")) == (
        f"{path} is a directory, but a recipe writes a file of this name: move it, and start again."
    )


@pytest.mark.parametrize("name", ["jobs", "plain-test", "bin", "text", "text-test", "model", "report", "seed1/bin"])
def test_a_file_in_place_of_a_directory_is_kept(tmp_path: Path, name: str) -> None:
    run = write(tmp_path / "run", {"settings": SETTINGS, name: "mine"})
    assert sentence(bash(tmp_path, "binarise 10 0")) == (
        f"{run / name} is a file, but a recipe makes a directory of this name: move it, and start again."
    )
    assert (run / name).read_text() == "mine"


@pytest.mark.parametrize("name", ["plain-test", "bin-test", "bin-test.part", "text", "jobs", "wean"])
def test_a_link_to_a_directory_of_the_user_is_refused(tmp_path: Path, name: str) -> None:
    outside = write(tmp_path / "outside", {"test.src": "mine"})
    run = write(tmp_path / "run", {"settings": SETTINGS})
    (run / name).symlink_to(outside)
    assert sentence(bash(tmp_path, "true")) == (
        f"{run / name} is a link to a directory with other or incomplete files: empty it, or remove the link, and "
        "start again."
    )
    assert content(outside) == {"test.src": "mine"}


def test_binary_data_that_is_a_link_to_other_files_of_the_run_is_refused(tmp_path: Path) -> None:
    run = write(tmp_path / "run", {"settings": SETTINGS, "text/train.src": "a"})
    (run / "bin").symlink_to("text")
    said = sentence(bash(tmp_path, "fairseq-preprocess() { false; }; binarise 10 0"))
    assert said.startswith(f"{run}/bin is a link to a directory with other or incomplete files: empty it")
    assert content(run / "text") == {"train.src": "a"}


@pytest.mark.parametrize("mark", [".complete", "manifest.json", "command", ".trained", "checksums.sha256", ""])
def test_a_directory_that_was_moved_to_another_disk_is_accepted(tmp_path: Path, mark: str) -> None:
    outside = write(tmp_path / "outside", {mark: "", "test.src": ""} if mark else {})
    run = write(tmp_path / "run", {"settings": SETTINGS})
    (run / "wean").symlink_to(outside)
    assert bash(tmp_path, "true").returncode == 0


OWN_DATA = [
    "dict.src.txt",
    "train.pt1.bin",
    "train.pt1.idx",
    "train.src-tgt.src",
    "valid.src-tgt.tgt.bin",
    "test.src-tgt.src",
    "preprocess.log",
]


@pytest.mark.parametrize("step", ["bin", "bin-test", "bin-test.part"])
@pytest.mark.parametrize("name", ["notes", "dict.py", "train.py", "folder/notes", "test.txt"])
def test_files_of_the_user_in_incomplete_data_are_kept(tmp_path: Path, step: str, name: str) -> None:
    """Without .complete, the directory was removed with all of its files."""
    run = write(tmp_path / "run", {"settings": SETTINGS, "text-test/test.src": "", "text-test/test.tgt": ""})
    write(run, {f"{step}/{each}": "" for each in OWN_DATA} | {f"{step}/{name}": "mine"})
    before = content(run)
    commands = 'fairseq-preprocess() { false; }; lay_out_test_of() { lay_out_test "$RUN/bin-test" "$RUN/text-test"; }; '
    said = sentence(bash(tmp_path, commands + ("binarise 10 0" if step == "bin" else "lay_out_test_of")))
    named = run / step / name.partition("/")[0]
    assert said == f"{named} is not a file of a recipe, which would replace {run / step}: move it, and start again."
    assert content(run) == before


def test_incomplete_data_of_a_killed_recipe_is_made_again(tmp_path: Path) -> None:
    run = write(tmp_path / "run", {"settings": SETTINGS, "text-test/test.src": "s\n", "text-test/test.tgt": "t\n"})
    write(run, {f"bin/{each}": "old" for each in OWN_DATA} | {f"bin-test.part/{each}": "old" for each in OWN_DATA})
    script = 'fairseq-preprocess() { mkdir "$bin" && touch "$bin"/dict.{src,tgt}.txt; }; '
    script += 'wean-checksum() { echo "$1" >>"$RUN/checked"; }; '
    done = bash(tmp_path, script + 'binarise 10 0; lay_out_test "$RUN/bin-test" "$RUN/text-test"')
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in (run / "bin").iterdir()) == [".complete", "dict.src.txt", "dict.tgt.txt"]
    assert (run / "bin-test" / "test.src-tgt.src").read_text() == "s\n"
    assert (run / "checked").read_text() == f"{run}/bin\n{run}/bin-test.part\n"
    assert not (run / "bin-test.part").exists()


@pytest.mark.parametrize("kind", ["file", "link outside", "missing link outside"])
def test_only_a_link_of_a_recipe_is_replaced_by_a_link(tmp_path: Path, kind: str) -> None:
    run = write(tmp_path / "run", {"settings": SETTINGS, "text/test.raw.src": "", "plain-test/": ""})
    path, mine = run / "plain-test" / "test.src", tmp_path / "mine"
    mine.write_text("mine") if kind == "link outside" else None
    if kind == "file":
        path.write_text("mine")
    else:
        path.symlink_to(mine)
    before = path.read_text() if path.exists() else None
    said = sentence(bash(tmp_path, 'check_run() { :; }; link_inside ../text/test.raw.src "$RUN/plain-test/test.src"'))
    assert "remove it, and start again" in said or "is not a link of a recipe: move it" in said
    assert (path.read_text() if path.exists() else None) == before
    path.unlink()
    path.symlink_to("../text/old")
    assert bash(tmp_path, 'link_inside ../text/test.raw.src "$RUN/plain-test/test.src"').returncode == 0
    assert str(path.readlink()) == "../text/test.raw.src"


def test_links_inside_a_run_directory_and_to_directories_are_taken(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "wean" / "tries" / "best").mkdir(parents=True)
    (run / "wean" / "tries" / "best" / "train.log").touch()
    (run / "wean" / "train.log").symlink_to("tries/best/train.log")
    (run / "text-test").symlink_to("text")  # a valid link to a folder that does not exist yet
    (tmp_path / "large disk").mkdir()
    (run / "bin").symlink_to(tmp_path / "large disk")
    assert bash(tmp_path, "true").returncode == 0


BINARISE = 'fairseq-preprocess() { touch "$bin/dict.src.txt"; }; wean-checksum() { :; }; binarise 10 0'


def test_binary_data_may_be_a_link_to_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    write(tmp_path / "run", {".run.lock": MARK})
    (tmp_path / "run" / "bin").symlink_to(tmp_path / "large disk")
    assert bash(tmp_path, BINARISE).returncode == 0
    assert (tmp_path / "run" / "bin").is_symlink()
    assert sorted(path.name for path in (tmp_path / "large disk").iterdir()) == [".complete", "dict.src.txt"]
    (tmp_path / "large disk" / ".complete").unlink()
    assert "is a link to a directory with other" in sentence(bash(tmp_path, BINARISE))
    assert (tmp_path / "large disk" / "dict.src.txt").exists()
