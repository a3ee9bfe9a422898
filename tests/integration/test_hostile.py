"""Test checkpoints that would run code: every command refuses them in one sentence, and no code runs.

Each command gets another kind of attack. tests/unit/checkpoints tests all kinds of attacks on all readers. The plugin's
own commands are called inside this process. They must also refuse a truncated checkpoint.
"""

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fuzz.hostile_options import CONTAINERS
from tests.integration.commands import ENVIRONMENT, TASK, USER_DIR, Result, generate, run, train
from tests.integration.test_bad_input import assert_one_sentence
from tests.unit.reporting.run_folder import make_run
from wean_fairseq.checkpoints import cli as checkpoints_cli
from wean_fairseq.reporting import plot_cli, report_cli


class Attack:
    """An object whose pickle calls ``os.system`` to create a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch '{self.mark}'",)


class Nested(Attack):
    """An object whose pickle unpickles bytes that contain the attack."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (pickle.dumps(Attack(self.mark)),)


def commands(name: str, data: Path, path: Path) -> Result:
    common = ["--user-dir", USER_DIR, *TASK, "--path", path, "--cpu"]
    if name == "train":
        return train(data, path.parent, "--max-update", 1, expect_success=False)
    if name == "generate":
        return generate(data, path, expect_success=False)
    if name == "interactive":
        return run("fairseq-interactive", data, *common, stdin="kept1 kept2\n", expect_success=False)
    return run("fairseq-validate", data, *common, "--batch-size", 8, expect_success=False)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("train", "optimiser"),
        ("generate", "model"),
        ("interactive", "nested"),
        ("validate", "configuration"),
        ("validate", "options"),
    ],
)
def test_a_hostile_checkpoint_is_refused_and_nothing_runs(
    data: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    monkeypatch.setitem(ENVIRONMENT, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    mark, path = tmp_path / "ran", tmp_path / "checkpoint_last.pt"
    state = torch.load(checkpoint, weights_only=True)
    if place == "optimiser":
        state["last_optimizer_state"]["state"][0]["exp_avg"] = Attack(mark)
    elif place == "model":
        state["model"]["encoder.embed_tokens.weight"] = Attack(mark)
    elif place == "nested":
        state["extra_state"]["harmless"] = [{"deep": Nested(mark)}]
    elif place == "configuration":
        state["cfg"]["model"]["_name"] = Attack(mark)
    else:  # this attack does not use pickle: fairseq passes this option of its LSTM to eval
        state["cfg"]["model"] = {"_name": "lstm", "decoder_attention": f"__import__('os').mkdir('{mark}')"}
    torch.save(state, path)
    assert_one_sentence(commands(name, data, path), str(path), "is refused, and nothing in it was run")
    assert not mark.exists()


# An option that fairseq's LSTM evaluates, and code that runs there without a call that a parser could find.
AT = {"section": "model", "name": "lstm", "option": "decoder_attention"}
WITHOUT_A_CALL = "[logger['touch {mark}'] for logger.__class__.__getitem__ in [os.system]]"
ELEVEN = ("dict", "Namespace", "DictConfig", "whole DictConfig", "DictConfig of Namespace", "bytes", "interpolation")
ELEVEN += ("across sections", "interpolated DictConfig", "args", "args with interpolation")


@pytest.fixture(params=ELEVEN)
def evaluated(request: pytest.FixtureRequest, checkpoint: Path, tmp_path: Path) -> Path:
    """Return a checkpoint whose configuration would create the file ``ran`` next to it."""
    state = torch.load(checkpoint, weights_only=True)
    code = WITHOUT_A_CALL.format(mark=tmp_path / "ran")
    state["cfg"], state["args"] = CONTAINERS[request.param](state["cfg"], AT, code)
    torch.save(state, tmp_path / "hostile.pt")
    return tmp_path / "hostile.pt"


@pytest.mark.slow
def test_generate_refuses_what_fairseq_would_evaluate(data: Path, evaluated: Path, tmp_path: Path) -> None:
    said = generate(data, evaluated, expect_success=False)
    assert_one_sentence(said, str(evaluated), "is refused, and nothing in it was run")
    assert not (tmp_path / "ran").exists()


def test_export_passes_nothing_on_that_fairseq_would_evaluate(
    data: Path, evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checkpoints_cli.main_export([str(evaluated), "--output", str(tmp_path / "out"), "--data", str(data)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"wean-export: error: {evaluated} is refused") and said.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {evaluated.name}


# --- the plugin's own commands --------------------------------------------------------------------------------------

Command = Callable[[Path, Path, Path], int]


def plot(figure: str) -> Command:
    def command(path: Path, data: Path, output: Path) -> int:
        given = {
            "layers": [path],
            "neighbours": ["kept1", "--checkpoint", path, "--dict", data / "dict.src.txt"],
            "attention": ["--checkpoint", path, "--data", data, "--text", path.parent / "text"],
        }
        return plot_cli.main([figure, *map(str, given[figure]), "--output", str(output)])

    return command


OWN: dict[str, Command] = {
    "wean-average": lambda path, _, output: checkpoints_cli.main_average(
        [str(path), str(path), "--output", str(output)]
    ),
    "wean-export": lambda path, _, output: checkpoints_cli.main_export([str(path), "--output", str(output)]),
    "wean-plot layers": plot("layers"),
    "wean-plot neighbours": plot("neighbours"),
    "wean-plot attention": plot("attention"),
}


@pytest.fixture(params=["attack", "cut off"])
def bad(request: pytest.FixtureRequest, checkpoint: Path, tmp_path: Path) -> tuple[Path, str]:
    """Create a checkpoint that would write the file ``ran`` next to it, or a truncated checkpoint.

    Return the checkpoint and the expected message.
    """
    path = tmp_path / "bad.pt"
    (tmp_path / "text").write_text("kept1 kept2\n", encoding="utf-8")
    if request.param == "cut off":
        path.write_bytes(checkpoint.read_bytes()[:-3000])
        return path, "is damaged, it is cut off"
    state = torch.load(checkpoint, weights_only=True)
    state["extra_state"]["harmless"] = [{"deep": Nested(tmp_path / "ran")}]
    torch.save(state, path)
    return path, "is refused, and nothing in it was run"


@pytest.mark.parametrize("name", OWN)
def test_our_own_commands_refuse_a_bad_checkpoint_in_one_sentence(
    data: Path, bad: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path, expected = bad
    before = set(tmp_path.iterdir())
    assert OWN[name](path, data, tmp_path / "output") == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{name.split(maxsplit=1)[0]}: error: {path}") and expected in said
    assert said.endswith(".\n") and said.count("\n") == 1
    assert set(tmp_path.iterdir()) == before  # the attack and the command have created no file


def test_a_report_names_a_bad_checkpoint_and_goes_on(data: Path, bad: tuple[Path, str], tmp_path: Path) -> None:
    path, expected = bad
    folder = make_run(tmp_path / "run")
    system = next(iter(sorted(folder.glob("*/test.log")))).parent
    shutil.copy(path, system / "checkpoint_best.pt")
    shutil.copytree(data, folder / "bin")
    assert report_cli.main([str(folder), "--output", str(tmp_path / "report")]) == 0
    assert expected in (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert not (tmp_path / "ran").exists()
