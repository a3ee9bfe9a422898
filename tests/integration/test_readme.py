"""The commands of the README are what they say they are: targets exist, files exist, fairseq's commands run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.commands import BIN, ENVIRONMENT, ROOT, TIMEOUT, preprocess, random_sentences, write_pairs

RUNNABLE = re.compile(r"\b(?:fairseq-(?:preprocess|train|generate|interactive|validate)|wean-evaluate)\b")
# What a path in a command of the README may start with, if it is a file of the project.
OURS = re.compile(r"(?<![\w/.=-])(?:examples|preprocess|benchmarks|scripts|docs|tests|wean_fairseq)/[\w./-]+")


def commands(markdown: str) -> list[str]:
    """The commands in blocks that start with ```sh, one a line; a backslash goes on with the next line."""
    blocks = re.findall(r"^```sh\n(.*?)^```", markdown, flags=re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    bare = [re.sub(r"(^|\s)#.*$", "", line).strip() for line in lines]
    return [" ".join(line.split()) for line in bare if line]


def readme_commands() -> list[str]:
    return commands((ROOT / "README.md").read_text(encoding="utf-8"))


def shortened(command: str) -> str:
    """A training becomes one of two updates on the CPU; the flags go to the end, where they win."""
    parts = re.split(r"(\s(?:\|\||&&|\||>|2>|;)\s?)", command)
    parts = [part + " --max-update 2 --cpu" if "fairseq-train" in part else part for part in parts]
    if not (BIN / "wean-evaluate").exists():  # the tests run from a checkout that is not installed
        parts = [part.replace("wean-evaluate", f"'{sys.executable}' -m wean_fairseq.evaluation") for part in parts]
    return "".join(parts)


def test_blocks_become_commands():
    text = "```sh\nmake test   # the tests\n\nfairseq-train data-bin \\\n  --lr 1\n```\n```text\nmake no\n```\n"
    assert commands(text) == ["make test", "fairseq-train data-bin --lr 1"]
    assert shortened("fairseq-train a --lr 1 > log") == "fairseq-train a --lr 1 --max-update 2 --cpu > log"


def test_make_targets_exist():
    called = [command for command in readme_commands() if re.match(r"make\s", command)]
    assert {"make quickstart", "make test"} <= {" ".join(command.split()[:2]) for command in called}
    for command in called:
        arguments = [word for word in command.split()[1:] if re.fullmatch(r"[\w-]+", word)]
        done = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stderr}"


def test_files_of_the_project_exist():
    named = {path.rstrip(".") for command in readme_commands() for path in OURS.findall(command)}
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """A folder with copies of the project's own, where commands may write, and a tiny data set as ``data-bin``."""
    for name in ("wean_fairseq", "examples", "preprocess"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    text = tmp_path / "tiny-text"
    for seed, (split, size) in enumerate({"train": 100, "valid": 16, "test": 16}.items()):
        write_pairs(text / split, random_sentences(size, seed))
    preprocess(text, tmp_path / "data-bin")
    return tmp_path


def provide_text(command: str, folder: Path) -> None:
    """Write the text that a fairseq-preprocess asks for, where it is not there."""
    for prefix in re.findall(r"--(?:train|valid|test)pref[= ](\S+)", command):
        if not (folder / f"{prefix}.src").exists():
            write_pairs(folder / prefix, random_sentences(16, seed=len(prefix)))
    for made in re.findall(r"--destdir[= ](\S+)", command):
        if (folder / made).exists():
            (folder / made).rename(folder / f"{made}-before")


def test_commands_run_in_their_order(layout: Path):
    called = [command for command in readme_commands() if RUNNABLE.search(command)]
    assert any("fairseq-train" in command for command in called)
    assert any("fairseq-generate" in command for command in called)
    environment = ENVIRONMENT | {"PATH": f"{BIN}:{ENVIRONMENT['PATH']}"}
    for command in called:
        provide_text(command, layout)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", shortened(command)],
            cwd=layout,
            env=environment,
            input="kept1 said2 kept3\n",
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
