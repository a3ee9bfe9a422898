"""In a copy of the project, run the commands of the README, the tutorial and the page about adding a model.

test_docs.py checks the other documented commands against the options of their programs without running them.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import markdown
from tests.integration.commands import (
    ENVIRONMENT,
    ROOT,
    TIMEOUT,
    preprocess,
    random_sentences,
    search_path,
    write_pairs,
)
from tests.markdown import Block
from tests.unit.reporting.run_folder import generated

RUNNABLE = re.compile(r"\b(?:fairseq-(?:preprocess|train|generate|interactive|validate)|wean-evaluate)\b")


def document(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def shell_blocks(name: str) -> list[Block]:
    return [block for block in markdown.blocks(document(name)) if block.language in markdown.SHELL]


def copy_project(folder: Path, *names: str) -> Path:
    """Copy the named folders of the project to a writable folder, and provide the commands of this checkout there."""
    for name in names:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    (folder / "bin").mkdir()
    for name, module, function in re.findall(r'"(wean-[\w-]+) = ([\w.]+):(\w+)"', document("setup.py")):
        program = folder / "bin" / name
        program.write_text(f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n")
        program.chmod(0o755)
    return folder


def bash(script: str, folder: Path, stdin: str = "") -> subprocess.CompletedProcess:
    """Run a script in the folder of the project, as a reader of the page would.

    Raises:
        AssertionError: if one of its commands fails. The message has the complete output.
    """
    ours = {"PATH": search_path(folder / "bin"), "PYTHONPATH": str(folder)}
    # A pytest command in a page must not become a worker of this test run. Otherwise, it would share fixtures of
    # another copy of the project.
    outside = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=outside | ours,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done


# --- training ---------------------------------------------------------------------------------------------------------


def shortened(command: str) -> str:
    """Shorten a training to two updates on the CPU.

    This works because flags at the end of a command override earlier flags.
    """
    parts = re.split(r"(\s(?:\|\||&&|\||>|2>|;)\s?)", command)
    return "".join(part + " --max-update 2 --cpu" if "fairseq-train" in part else part for part in parts)


def provide_text(command: str, folder: Path) -> None:
    """Write the text files that a fairseq-preprocess command needs, unless they exist."""
    for prefix in re.findall(r"--(?:train|valid|test)pref[= ](\S+)", command):
        if not (folder / f"{prefix}.src").exists():
            write_pairs(folder / prefix, random_sentences(16, seed=len(prefix)))
    for made in re.findall(r"--destdir[= ](\S+)", command):
        if (folder / made).exists():
            (folder / made).rename(folder / f"{made}-before")


def test_a_training_is_shortened():
    assert shortened("fairseq-train a --lr 1 > log") == "fairseq-train a --lr 1 --max-update 2 --cpu > log"


@pytest.mark.parametrize("page", ["docs/training.md", pytest.param("docs/copying.md", marks=pytest.mark.slow)])
def test_commands_of_a_page_run_in_their_order(page: str, tmp_path: Path):
    """Test the commands of a page in order, where fairseq and the scorer use a tiny data set in ``data-bin``."""
    lines = [line for block in shell_blocks(page) for line in markdown.shell_lines(block.text)]
    called = [line for line in lines if RUNNABLE.search(line)]
    assert any("fairseq-train" in line for line in called)
    assert any("fairseq-generate" in line for line in called)
    copy_project(tmp_path, "wean_fairseq")
    for seed, (split, size) in enumerate({"train": 100, "valid": 16, "test": 16}.items()):
        write_pairs(tmp_path / "tiny-text" / split, random_sentences(size, seed))
    preprocess(tmp_path / "tiny-text", tmp_path / "data-bin")
    for line in called:
        provide_text(line, tmp_path)
        bash(shortened(line), tmp_path, stdin="kept1 said2 kept3\n")


# --- the tutorial ---------------------------------------------------------------------------------------------------

PREPARATION = ("The text", "Tokens")
LAST_PART = "Word pieces instead of words"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Follow the first parts of the tutorial verbatim up to the training, and return the folder."""
    folder = copy_project(tmp_path_factory.mktemp("tutorial"), "wean_fairseq", "preprocess")
    blocks = [block for block in shell_blocks("docs/tutorial.md") if block.heading in PREPARATION]
    assert [block.heading for block in blocks] == ["The text", "Tokens", "Tokens"]
    for block in blocks:
        bash(block.text, folder)
    return folder


@pytest.fixture(scope="module")
def tutorial(prepared: Path) -> tuple[Path, str]:
    """Follow the tutorial between its preparation and its last part.

    Return the folder and the output of the commands.
    """
    ends = (*PREPARATION, LAST_PART)
    done = [bash(block.text, prepared) for block in shell_blocks("docs/tutorial.md") if block.heading not in ends]
    return prepared, "".join(part.stdout for part in done)


def test_the_tutorial_prepares_text(prepared: Path):
    """Test only the preparation, because most later commands need a training, which a slow test runs."""
    mine = prepared / "runs" / "mine"
    counts = {split: (mine / "text" / f"{split}.src").read_text("utf-8").count("\n") for split in ("valid", "test")}
    assert counts == {"valid": 60, "test": 80}
    raw, text = (mine / "raw" / "test.wordy.txt").read_text("utf-8"), (mine / "text" / "test.src").read_text("utf-8")
    assert text != raw.lower(), "words and signs were taken apart"
    assert text.replace(" ", "") == raw.lower().replace(" ", "")
    assert (mine / "bin" / "test.src-tgt.src").read_text("utf-8") == text


@pytest.mark.slow
def test_the_tutorial_leads_to_a_report(tutorial: tuple[Path, str]):
    folder, printed = tutorial
    mine = folder / "runs" / "mine"
    log = (mine / "wean_lstm" / "train.log").read_text(encoding="utf-8")
    epochs = [int(number) for number in re.findall(r"begin training epoch (\d+)", log)]
    assert epochs == list(range(1, len(epochs) + 1)), "the second call went on where the first one ended"
    assert re.search(r"^the famous .+\.$", printed, flags=re.MULTILINE), "wean-generate answered"
    outputs = {system: (mine / system / "test.txt").read_text("utf-8") for system in ("wean_lstm", "seq2seq_lstm")}
    assert [text.count("\n") for text in outputs.values()] == [80, 80]
    assert "." in outputs["wean_lstm"] and " ." not in outputs["wean_lstm"], "tokens were joined"
    scores = json.loads((mine / "test.json").read_text(encoding="utf-8"))
    assert list(scores["systems"]) == ["copy-source", "seq2seq_lstm", "wean_lstm"]
    assert {test["system"] for test in scores["pairwise"]} >= {"wean_lstm"}
    page = (mine / "report" / "report.html").read_text(encoding="utf-8")
    assert f"{scores['systems']['wean_lstm']['bleu']['score']:.2f}" in page
    assert "of 80 sentences" in page, "sources and outputs were found"
    assert (mine / "report" / "attention.png").stat().st_size > 0


def test_commands_of_the_troubleshooting_page(prepared: Path, tmp_path: Path):
    """Test the commands that sort outputs without our tools, and that use a training's dictionary for new text."""
    mine = prepared / "runs" / "mine"
    (in_order,) = [block.text for block in shell_blocks("docs/troubleshooting.md") if "grep" in block.text]
    (new_text,) = [block.text for block in shell_blocks("docs/troubleshooting.md") if "--srcdict" in block.text]
    # Numbers with two digits must be sorted by value instead of alphabetically.
    outputs = [f"output {number} ." for number in range(12)]
    (tmp_path / "outputs.log").write_text(generated(outputs, outputs), encoding="utf-8")
    bash(in_order, tmp_path)
    assert (tmp_path / "outputs.txt").read_text("utf-8").splitlines() == outputs
    (tmp_path / "data-bin").symlink_to(mine / "bin")
    write_pairs(tmp_path / "text" / "new", ["the famous physician bought a zeppelin ."])
    bash(new_text, tmp_path)
    assert (tmp_path / "new-bin" / "dict.src.txt").read_bytes() == (mine / "bin" / "dict.src.txt").read_bytes()


@pytest.mark.slow
def test_the_tutorial_with_word_pieces(tutorial: tuple[Path, str]):
    folder, _ = tutorial
    (block,) = [block for block in shell_blocks("docs/tutorial.md") if block.heading == LAST_PART]
    printed = bash(block.text, folder).stdout
    assert "@@ " in printed
    assert "@@" not in (folder / "runs" / "mine-bpe" / "wean_bpe" / "test.txt").read_text(encoding="utf-8")
    assert re.search(r"^pieces\s+\d", printed, flags=re.MULTILINE)


# --- adding a model -------------------------------------------------------------------------------------------------


def add(patch: str, path: Path) -> None:
    """Insert the ``+`` lines of a diff after the line that precedes them, which must occur exactly once."""
    text = path.read_text(encoding="utf-8")
    above = ""
    for line in patch.splitlines():
        if not line.startswith("+"):
            above = f"{line[1:]}\n"
            assert text.count(f"\n{above}") == 1, f"{path.name} has no line {above!r}, or several"
        else:
            text = text.replace(f"\n{above}", f"\n{above}{line[1:]}\n")
            above += f"{line[1:]}\n"
    path.write_text(text, encoding="utf-8")


def test_lines_are_added_behind_others(tmp_path: Path):
    path = tmp_path / "x"
    path.write_text("\na (\nb\n)\n")
    add(" a (\n+c\n+d\n b\n+e\n", path)
    assert path.read_text() == "\na (\nc\nd\nb\ne\n)\n"


def test_a_model_is_added_as_the_page_says(data: Path, tmp_path: Path):
    """Test that the code on the page passes its tests and the linter in a copy of the project.

    The new model must also train and decode.
    """
    folder = copy_project(tmp_path, "wean_fairseq", "tests")
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(data, folder / "runs" / "mine" / "bin")
    new = []
    for block in markdown.blocks(document("docs/adding_a_model.md")):
        if block.language == "diff":
            add(block.text, folder / block.file)
        elif block.language == "python":
            new.append(block.file)
            (folder / block.file).parent.mkdir(exist_ok=True)
            (folder / block.file).write_text(block.text, encoding="utf-8")
    assert len(new) == 6 and not any((ROOT / name).exists() for name in new)
    checks, training = (block.text for block in shell_blocks("docs/adding_a_model.md"))
    printed = bash(checks.replace("wean_fairseq tests", " ".join(new)), folder).stdout
    assert re.search(r"\d\d passed", printed) and "failed" not in printed
    printed = bash(training, folder).stdout + (folder / "outputs.log").read_text(encoding="utf-8")
    assert len(re.findall(r"^H-\d+\t", printed, flags=re.MULTILINE)) == 60
    losses = [float(loss) for loss in re.findall(r"valid on 'valid' subset \| loss ([\d.]+)", printed)]
    assert len(losses) == 3 and losses[-1] < losses[0]
