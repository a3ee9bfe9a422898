"""Test the first steps in the README for a new user: a CSV of pairs, its recipe, wean-generate and Python."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import markdown
from tests.integration.commands import BIN, ENVIRONMENT, ROOT, TIMEOUT, USER_DIR, command_line, run
from tests.integration.test_docs_run import bash, copy_project, document
from wean_fairseq.text import Text, read_text_settings

pytestmark = pytest.mark.slow

NAMES = ("Zoë", "José", "O'Neil", "Anna", "Björn")
THINGS = ("car", "house", "café", "book", "dog")
PAIRS = [
    (
        f"{name} said: \"I've purchased the {size} {thing} no. {n}, didn't I?\"",
        f"{name} bought the {size} {thing} no. {n}.",
    )
    for n in range(3)
    for name in NAMES
    for size in ("large", "tiny", "old", "new")
    for thing in THINGS
]


def call(*line: object, stdin: str = "", **variables: str) -> str:
    done = subprocess.run(
        [str(part) for part in line],
        env=ENVIRONMENT | {"PATH": f"{BIN}:{ENVIRONMENT['PATH']}", "PYTHONPATH": str(ROOT)} | variables,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def first_screen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], str]:
    """Follow the section about own pairs verbatim in a copy of the project, but with a small training.

    Returns:
        The folder, the sentences to rewrite, and the output of the last block, which is Python.
    """
    folder = copy_project(tmp_path_factory.mktemp("clone"), "wean_fairseq", "examples", "preprocess")
    activate = folder / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f"PATH={folder / 'bin'}:{BIN}:$PATH\n", encoding="utf-8")
    with (folder / "pairs.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "long", "short"), *((n, *pair) for n, pair in enumerate(PAIRS))])
    sentences = [PAIRS[0][0], "", "Zoë's “new” café?", PAIRS[30][0]]
    (folder / "sentences.txt").write_text("".join(f"{line}\n" for line in sentences), encoding="utf-8")
    here = [block for block in markdown.blocks(document("README.md")) if block.heading == "Your own sentence pairs"]
    assert [block.language for block in here] == ["sh", "python"]
    small = "export COLUMNS=long,short EPOCHS=3 WIDTH=16 GPUS=0\n"
    said = bash(small + here[0].text, folder).stdout
    assert f"wean-generate --model {folder}/runs/own_pairs/model" in said
    return folder, sentences, bash('python -c "$(cat)"', folder, stdin=here[1].text).stdout


@pytest.fixture(scope="module")
def recipe(first_screen: tuple[Path, list[str], str]) -> Path:
    """Return the run directory of the recipe for a CSV with quotes, apostrophes, capitals and accents."""
    return first_screen[0] / "runs" / "own_pairs"


def test_the_readmes_commands_rewrite_a_line_for_a_line(first_screen: tuple[Path, list[str], str]):
    folder, sentences, printed = first_screen
    written = (folder / "rewritten.txt").read_text("utf-8").split("\n")
    assert len(written) == len(sentences) + 1
    assert [bool(line) for line in written] == [bool(line) for line in sentences] + [False]
    assert len(printed.splitlines()) == 1, "one output and nothing else"
    assert printed.strip()


def test_text_is_the_same_at_training_and_at_use(recipe: Path):
    settings = read_text_settings(recipe / "model") or read_text_settings(recipe / "text")
    at_use = Text(settings, recipe / "model")
    sources = {split: (recipe / "text" / f"{split}.src").read_text("utf-8").splitlines() for split in ("train", "test")}
    known = {at_use.prepare(source) for source, _ in PAIRS}
    assert {line for lines in sources.values() for line in lines} <= known


def test_a_file_a_pipe_and_python_write_the_same(recipe: Path, tmp_path: Path):
    lines = [PAIRS[0][0], "", "Zoë's “new” café?", PAIRS[30][0]]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = command_line("wean-generate", "--model", recipe / "model")
    call(*command, "--input", tmp_path / "in.txt", "--output", tmp_path / "out.txt")
    written = (tmp_path / "out.txt").read_text("utf-8").split("\n")
    assert len(written) == 5
    assert written[1] == ""
    piped = call(*command, "--jsonl", stdin="".join(f"{line}\n" for line in lines)).splitlines()
    texts = [[output["text"] for output in json.loads(line)["outputs"]] for line in piped]
    assert [found[0] if found else "" for found in texts] == written[:-1]
    script = "import json, sys, wean_fairseq\nmodel = wean_fairseq.load(sys.argv[1])\n"
    script += "print(json.dumps(model.generate(json.load(sys.stdin))))"
    assert json.loads(call(sys.executable, "-c", script, recipe / "model", stdin=json.dumps(lines))) == written[:-1]


def test_fairseq_reads_the_folder_and_searches_the_same(recipe: Path):
    """Test that fairseq-generate with --path model/ writes the tokens of the outputs that the recipe has scored."""
    model = recipe / "model"
    given = ("--user-dir", USER_DIR, "--task", "paraphrase", "--source-lang", "src", "--target-lang", "tgt", "--cpu")
    found = run(
        *("fairseq-generate", recipe / "bin-test", *given, "--dataset-impl", "raw", "--path", model, "--beam", 5),
        *("--search-preset", "copynet", "--max-len-a", 2, "--max-len-b", 10, "--batch-size", 64),
    )
    with (recipe / "copynet" / "test.log").open(encoding="utf-8") as log:
        expected = {line.split("\t", 1)[0]: line.split("\t")[2].strip() for line in log if line.startswith("H-")}
    assert {f"H-{number}": text for number, text in found.hypotheses.items()} == expected
    tokens = (recipe / "text" / "test.src").read_text("utf-8").splitlines()
    raw = {Text(read_text_settings(recipe / "text"), recipe / "text").prepare(source): source for source, _ in PAIRS}
    command = command_line("wean-generate", "--model", model)
    written = call(*command, stdin="".join(f"{raw[line]}\n" for line in tokens)).splitlines()
    text = Text(read_text_settings(recipe / "text"), recipe / "text")
    assert written == [text.restore(expected[f"H-{number}"]) for number in range(len(tokens))]
