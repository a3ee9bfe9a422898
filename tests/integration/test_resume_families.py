"""Test that a training with dropout that is stopped inside an epoch and resumed ends like an uninterrupted one.

The test covers every family of models.

Every training is a real fairseq-train, but one process runs several trainings in turn, because most of the time of a
command is spent on starting it. A training is always resumed in another process, so that no state of the earlier
training remains.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.commands import ENVIRONMENT, TIMEOUT
from tests.integration.observed import assert_same_end
from tests.integration.test_distributed import FAMILIES, texts  # noqa: F401 - a fixture
from tests.reliability import Reliability

# An epoch has three updates, so the seventh update is the first one of the third epoch.
STOP = 7
WORKER = """
import json, sys
from fairseq import checkpoint_utils
from fairseq_cli import train
for arguments in json.load(open(sys.argv[1])):
    for function in (checkpoint_utils.save_checkpoint, train.should_stop_early):
        vars(function).clear()  # what fairseq remembers of a training as long as a process lives
    sys.argv = ["fairseq-train", *arguments]
    train.cli_main()
"""


def with_dropout(arguments: Sequence[object]) -> list[object]:
    """Return the options with every kind of dropout set to 0.3."""
    before = (None, *arguments)
    return [0.3 if str(name).endswith("dropout") else value for name, value in zip(before, arguments, strict=False)]


@pytest.fixture(scope="module")
def trained(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """Train each ARCH without interruption (ARCH/alone), and stopped and resumed by another process (ARCH/resumed)."""
    folder = tmp_path_factory.mktemp("families")
    for part, where, more in (
        ("alone", "alone", []),
        ("first", "resumed", ["--max-update", STOP]),
        ("second", "resumed", []),
    ):
        commands = []
        for name, case in FAMILIES.items():
            command = case.command(texts, folder / name / where, processes=1)
            commands.append([str(word) for word in with_dropout([*command, "--save-interval-updates", STOP, *more])])
        (folder / f"{part}.json").write_text(json.dumps(commands))
        line = [sys.executable, "-c", WORKER, str(folder / f"{part}.json")]
        done = subprocess.run(line, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        assert done.returncode == 0, f"{part}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        (folder / f"{part}.log").write_text(done.stdout + done.stderr)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_goes_on_as_if_it_had_never_stopped(trained: Path, name: str, reliability: Reliability) -> None:
    resumed = trained / name / "resumed" / "checkpoint_last.pt"
    said = (trained / "second.log").read_text()
    assert f"Loaded checkpoint {resumed} (epoch 3 @ {STOP} updates)" in said
    assert_same_end(resumed, trained / name / "alone" / "checkpoint_last.pt")
    reliability.count("families resumed")
