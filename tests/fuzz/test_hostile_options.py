"""Hostile configurations through every tool that reads checkpoints: refused in one sentence, and nothing is evaluated.

That nothing is evaluated is proved by an audit hook (``audited.py``), not by what the tools say.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from tests.fuzz.audited import TASK, TOOLS, TRAINING
from tests.fuzz.hostile_options import ACTIONS, CONTAINERS, PLACES, WITHOUT_CALLS
from tests.fuzz.text import budgets
from tests.integration.commands import ENVIRONMENT, ROOT
from tests.model_contract import make_dictionary


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two dictionaries, and three pairs a split as text."""
    folder = tmp_path_factory.mktemp("data")
    for side in ("src", "tgt"):
        make_dictionary(9).save(str(folder / f"dict.{side}.txt"))
        for split in ("train", "valid", "test"):
            (folder / f"{split}.src-tgt.{side}").write_text("w1 w2\nw3\nw2 w4\n", encoding="utf-8")
    (folder / "text").write_text("w1 w2\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def checkpoint(data: Path) -> Path:
    """A model with random weights, saved as fairseq-train saves it."""
    parser = options.get_training_parser()
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, input_args=[str(data), *TASK, *TRAINING]))
    task = tasks.setup_task(cfg.task)
    state = {"args": None, "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)}
    state |= {"model": task.build_model(cfg.model).state_dict(), "extra_state": {"train_iterator": {"epoch": 1}}}
    state["optimizer_history"] = [{"num_updates": 1, "optimizer_name": "FairseqAdam", "lr_scheduler_state": {}}]
    torch.save({**state, "task_state": task.state_dict()}, data / "good.pt")
    return data / "good.pt"


def audited(data: Path, checkpoint: Path, folder: Path, tools: list[str], number: int, checked: bool = True) -> dict:
    """What ``audited.py`` found; with every kind of event where Python's own ``eval`` was given the expressions."""
    given = {
        "checkpoint": str(checkpoint),
        "data": str(data),
        "folder": str(folder),
        "tools": tools,
        "checked": checked,
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.fuzz.audited"],
        input=json.dumps({**given, "number": number, "seed": number}),
        cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert all(found["control"].values()) and len(found["control"]) > len(ACTIONS) + len(WITHOUT_CALLS) // 2
    assert len(found["results"]) == len(tools) * number
    return found


@budgets(len(CONTAINERS), 200)
def test_hostile_configurations_are_refused_and_nothing_is_evaluated(data, checkpoint, tmp_path, examples, reliability):
    found = audited(data, checkpoint, tmp_path, [*TOOLS], examples)
    assert not found["marks"]
    assert [result for result in found["results"] if result["seen"]] == []
    assert [result for result in found["results"] if result["ended"] != "refused"] == []
    if examples > len(CONTAINERS):
        reliability.count("hostile checkpoints tried", len(found["results"]))


BUILDING = ["fairseq-validate", "fairseq-generate"]  # the task is that of the checkpoint, or of the command line


@budgets(len(PLACES), 400)
def test_nothing_is_evaluated_where_nobody_checks_the_option(data, checkpoint, tmp_path, examples, reliability):
    """An arch of fairseq gets code; what it makes of it, other than running it, is its own affair."""
    tools = BUILDING[: 1 if examples == len(PLACES) else 2]
    found = audited(data, checkpoint, tmp_path, tools, examples, checked=False)
    assert not found["marks"]
    assert [result for result in found["results"] if result["seen"]] == []
    literals = [result for result in found["results"] if "nothing else is evaluated" in result["said"]]
    assert len(literals) > len(found["results"]) // 3  # so many got as far as an evaluation
    if examples > len(PLACES):
        reliability.count("hostile checkpoints tried", len(found["results"]))
