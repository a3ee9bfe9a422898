"""Train, score and use a model on a table of topics and essays.

The English test uses the recipe, and the Chinese test uses wean-train.
"""

import itertools
import json
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.integration.commands import ENVIRONMENT, ROOT, TIMEOUT, run, search_path
from wean_fairseq import load
from wean_fairseq.generation.loading import ENGINES
from wean_fairseq.training import cli

pytestmark = pytest.mark.slow

SYSTEM = "essay_transformer_small"  # the default system
SMALL = {"WIDTH": "8", "RATE": "0.02", "EPOCHS": "2", "TEST": "6"}


def write_table(path: Path, mark: str, essay: str, topics: str) -> None:
    """Write rows that consist of two topics, with ``mark`` between them, and an essay about them."""
    pairs = itertools.permutations(topics.split(), 2)
    rows = [f"{first}{mark}{second}\t{essay.format(first, second)}\n" for first, second in pairs]
    path.write_text("topics\ttext\n" + "".join(rows), encoding="utf-8")


def check(run: Path, system: str, topics: str, plain: str) -> None:
    """Check that topics are scored and reported without a copy row, and that the model writes about them."""
    scores = json.loads((run / "test.json").read_text(encoding="utf-8"))
    assert set(scores["systems"]) <= {system, "mta_lstm"}
    assert set(scores["columns"]) == {"bleu2", "rouge-l", "distinct-2", "topic-coverage", "length-ratio"}
    assert not [warning for warning in scores["data"]["warnings"] if "copy" in warning]
    assert "copy" not in (run / "report" / "report.md").read_text(encoding="utf-8")
    model = load(run / "model", device="cpu")
    assert model.reads_topics
    assert model.arch == system
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
    # In greedy search, both engines follow the same rules.
    greedy = ["--model", tmp_path / "run" / "model", "--beam", 1, "--cpu"]
    searched = [run("wean-generate", *greedy, "--engine", name, stdin="sea; sun\n").out for name in ENGINES]
    assert searched[0] == searched[1] != "\n"
    again = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT)
    assert again.stdout.count("done before") == 7, again.stdout
    write_table(tmp_path / "new.tsv", ", ", "The {0} of Anna is a {1}.", "sea sun car wind sand bike")
    tuned = {"TASK": "essay", "DATA": "new.tsv", "FROM": "run/model", "RUN": str(tmp_path / "tuned"), "GPUS": "0"}
    environment = ENVIRONMENT | {"PATH": search_path()} | tuned | {"RATE": "1e-9", "EPOCHS": "1", "TEST": "4"}
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    # A learning rate of almost 0 keeps the sizes, the weights and the search. Therefore it also keeps the scores.
    before, after = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("run", "tuned"))
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=1e-6)
    sets = json.loads((tmp_path / "tuned" / "test.json").read_text(encoding="utf-8"))["sets"]
    for test_set in ("test", "old-test"):
        assert sets[test_set]["systems"]["tuned"] == sets[test_set]["systems"]["before"]


def test_wean_train_writes_chinese_essays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(Path("essays.tsv"), "、", "今天我们去看{0}，那里有很多{1}。", "海滩 太阳 大海 小船 朋友 老师")
    line = [word for name, value in SMALL.items() for word in (f"--{name.lower()}", value)]
    line += ["--task", "essay", "--arch", "sc_lstm", "--device", "cpu", "--work", "run", "--output", "run/model"]
    assert cli.main(["essays.tsv", *line]) == 0
    check(tmp_path / "run", "sc_lstm", "海滩，太阳", "海滩 太阳")
    capsys.readouterr()
    rows = "".join(f"海滩太阳大{last}\t今天{last}。\n" for last in "一二三四五六七八九十百千")
    Path("long.tsv").write_text(f"topics\ttext\n{rows}", encoding="utf-8")
    line = ["long.tsv", "--from", "run/model", "--device", "cpu", "--output", "tuned"]
    assert cli.main(line) == 2
    assert "is of arch sc_lstm, which is not for the task pairs: give --task essay." in capsys.readouterr().err
    assert cli.main([*line, "--task", "essay"]) == 2
    assert "run/model reads at most 5 topics, but a row of the data has 6: leave out" in capsys.readouterr().err
