"""Every tool that reads checkpoints refuses hostile configurations in one sentence, and evaluates none of them.

An audit hook (``audited.py``) shows that no expression is evaluated. Therefore the test does not rely on the output of
the tools.
"""

import json
from pathlib import Path

import pytest

from tests.fuzz.audited import TASK, TOOLS, TRAINING
from tests.fuzz.hostile_options import ACTIONS, CONTAINERS, PLACES, WITHOUT_CALLS
from tests.fuzz.text import budgets
from tests.integration import warm
from tests.integration.commands import ENVIRONMENT, ROOT, USER_DIR, run
from tests.model_contract import make_dictionary


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two dictionaries and, as text, three sentence pairs of each split."""
    folder = tmp_path_factory.mktemp("data")
    for side in ("src", "tgt"):
        make_dictionary(9).save(str(folder / f"dict.{side}.txt"))
        for split in ("train", "valid", "test"):
            (folder / f"{split}.src-tgt.{side}").write_text("w1 w2\nw3\nw2 w4\n", encoding="utf-8")
    (folder / "text").write_text("w1 w2\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def checkpoint(data: Path) -> Path:
    """Train for one update on three pairs, and return the checkpoint."""
    run("fairseq-train", data, "--user-dir", USER_DIR, *TASK, *TRAINING, "--save-dir", data / "saved")
    return data / "saved" / "checkpoint_last.pt"


def audited(
    data: Path, checkpoint: Path, folder: Path, tools: list[str], number: int, kind: str = "options", share: int = 1
) -> dict:
    """Return the findings of ``audited.py``.

    Also check that every kind of event is observed when ``eval`` evaluates the expressions.

    Args:
        number: number of variants. Each tool gets every ``share``-th variant.
    """
    given = {
        "checkpoint": str(checkpoint),
        "data": str(data),
        "folder": str(folder),
        "tools": tools,
        "kind": kind,
        "share": share,
    }
    command = json.dumps({**given, "number": number, "seed": number})
    status, said, errors = warm.run(["audited"], command, ROOT, ENVIRONMENT, 1200)
    assert status == 0, said[-2000:] + errors[-4000:]
    found = json.loads(said.splitlines()[-1])
    assert all(found["control"].values()) and len(found["control"]) > len(ACTIONS) + len(WITHOUT_CALLS) // 2
    assert len(found["results"]) == len(tools) * number // share
    return found


@budgets(len(CONTAINERS), 60)
def test_hostile_configurations_are_refused_and_nothing_is_evaluated(data, checkpoint, tmp_path, examples, reliability):
    # With few examples, each tool always gets the same seven variants, and four tools get each variant.
    share = 4 if examples == len(CONTAINERS) else 1
    found = audited(data, checkpoint, tmp_path, [*TOOLS], examples, share=share)
    assert not found["marks"]
    assert [result for result in found["results"] if result["seen"]] == []
    assert [result for result in found["results"] if result["ended"] != "refused"] == []
    if examples > len(CONTAINERS):
        reliability.count("hostile checkpoints tried", len(found["results"]))


BUILDING = ["fairseq-validate", "fairseq-generate"]  # the task comes from the checkpoint, or from the command line


@budgets(len(PLACES), 150)
def test_nothing_is_evaluated_where_nobody_checks_the_option(data, checkpoint, tmp_path, examples, reliability):
    """Test that a fairseq arch does not run code that is given as the value of one of its options.

    The arch may fail in any way.
    """
    tools = BUILDING[: 1 if examples == len(PLACES) else 2]
    found = audited(data, checkpoint, tmp_path, tools, examples, "unchecked options")
    assert not found["marks"]
    assert [result for result in found["results"] if result["seen"]] == []
    literals = [result for result in found["results"] if "other expressions are not evaluated" in result["said"]]
    assert len(literals) > len(found["results"]) // 3  # more than a third of the expressions reached an evaluation
    if examples > len(PLACES):
        reliability.count("hostile checkpoints tried", len(found["results"]))


OTHERS = [tool for tool in TOOLS if tool != "fairseq-eval-lm"]  # fairseq-eval-lm only evaluates language models


@budgets(12, 50)
def test_members_of_other_types_are_one_sentence(data, checkpoint, tmp_path, examples, reliability):
    """Test that missing or mistyped members are refused in one sentence, unless the tool does not need them."""
    found = audited(data, checkpoint, tmp_path, OTHERS, examples, "types")
    assert [result for result in found["results"] if result["ended"] not in ("refused", "done")] == []
    for result in found["results"]:
        assert result["ended"] == "done" or len(result["refusal"].splitlines()) == 1, result
    if examples > 12:
        reliability.count("members of other types", len(found["results"]))
