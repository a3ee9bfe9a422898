"""Topics and essays of a table, in English by the recipe and in Chinese by wean-train: a scored model that is used."""

import itertools
import json
import subprocess
from pathlib import Path

import pytest

from tests.integration.commands import ENVIRONMENT, ROOT, TIMEOUT, search_path
from wean_fairseq import load
from wean_fairseq.training import cli

pytestmark = pytest.mark.slow

SYSTEM = "essay_transformer_small"  # the default
SMALL = {"WIDTH": "8", "RATE": "0.02", "EPOCHS": "2", "TEST": "6"}


def write_table(path: Path, mark: str, essay: str, topics: str) -> None:
    """Rows of two topics, with ``mark`` between them, and their essay."""
    pairs = itertools.permutations(topics.split(), 2)
    rows = [f"{first}{mark}{second}\t{essay.format(first, second)}\n" for first, second in pairs]
    path.write_text("topics\ttext\n" + "".join(rows), encoding="utf-8")


def check(run: Path, system: str, topics: str, plain: str) -> None:
    """Topics are scored and reported without a copy of them, and the model writes about them."""
    scores = json.loads((run / "test.json").read_text(encoding="utf-8"))
    assert set(scores["systems"]) <= {system, "mta_lstm"}
    assert set(scores["columns"]) == {"bleu2", "rouge-l", "distinct-2", "topic-coverage", "length-ratio"}
    assert not [warning for warning in scores["data"]["warnings"] if "copy" in warning]
    assert "copy" not in (run / "report" / "report.md").read_text(encoding="utf-8")
    model = load(run / "model", device="cpu")
    assert model.reads_topics
    assert model.arch == {SYSTEM: "transformer"}.get(system, system)  # fairseq's own family
    essay = model.generate(topics)
    assert essay and "<unk>" not in essay
    assert essay == model.generate(plain)


def test_the_recipe_writes_english_essays(tmp_path: Path) -> None:
    essay = "The {0} is near the {1}, and Anna saw the {0}."
    write_table(tmp_path / "essays.tsv", ", ", essay, "sea sun beach wind sand boat fish bird")
    given = {"TASK": "essay", "DATA": "essays.tsv", "RUN": str(tmp_path / "run"), "GPUS": "0", **SMALL}
    environment = ENVIRONMENT | {"PATH": search_path()} | given
    line = ["bash", str(ROOT / "examples" / "own_pairs.sh")]
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (tmp_path / "run" / "test.samples.txt").read_text(encoding="utf-8").count(SYSTEM) == 6
    check(tmp_path / "run", SYSTEM, "sea; sun", "sea sun")
    again = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT)
    assert again.stdout.count("done before") == 7, again.stdout


def test_wean_train_writes_chinese_essays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(Path("essays.tsv"), "、", "今天我们去看{0}，那里有很多{1}。", "海滩 太阳 大海 小船 朋友 老师")
    line = [word for name, value in SMALL.items() for word in (f"--{name.lower()}", value)]
    line += ["--task", "essay", "--arch", "sc_lstm", "--device", "cpu", "--work", "run", "--output", "run/model"]
    assert cli.main(["essays.tsv", *line]) == 0
    check(tmp_path / "run", "sc_lstm", "海滩，太阳", "海滩 太阳")
