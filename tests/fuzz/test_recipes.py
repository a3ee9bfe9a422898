"""The shared steps of the recipes do not execute parts of file names that a shell could misread."""

import hashlib
import os
import subprocess

import pytest

from tests.integration.commands import BIN, ENVIRONMENT, ROOT

STEPS = """
set -euo pipefail
source "$1/examples/lib/recipe.sh"
need_quora
remember "DATA=$DATA"
prepare quora --data "$DATA" --limit 3
prepare_test set quora --data "$DATA" --limit 2
test_of_text other
say "$RUN"
die "there is no $DATA"
"""


@pytest.mark.parametrize("name", ["a b'c\"d $(touch x) `touch x`;touch x * ~ \\n %s", "-dash"], ids=["shell", "dash"])
def test_names_are_names(tmp_path, name):
    data, run = tmp_path / name, tmp_path / f"{name} run"
    data.mkdir()
    for split in ("train", "valid", "test"):
        for side in ("src", "tgt"):
            (data / f"{split}.{side}").write_text("a b\nc d\ne f\n", encoding="utf-8")
    given = {"DATA": data.name, "RUN": run.name, "RECIPE": "recipe", "GPUS": "0", "OMP_NUM_THREADS": "1"}
    environment = {**ENVIRONMENT, **given, "PATH": f"{BIN}{os.pathsep}{ENVIRONMENT['PATH']}"}
    line = ["bash", "-c", STEPS, "recipe", str(ROOT)]
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    shown = f"./{name}" if name.startswith("-") else name
    assert done.stderr == f"recipe: error: there is no {shown}\n", done.stdout
    assert done.stdout.endswith(f"[recipe] {shown} run\n")
    assert {path.name for path in tmp_path.iterdir()} == {data.name, run.name}
    digest = hashlib.sha256(b"a b\nc d\ne f\n").hexdigest()
    inputs = [f"SHA-256 of {split}.{side}={digest}" for split in ("train", "valid", "test") for side in ("src", "tgt")]
    recorded = (run / "settings").read_text(encoding="utf-8").splitlines()
    assert recorded == ["SEED=1", f"DATA={shown}", *inputs]
    assert (run / "text" / "train.src").read_text(encoding="utf-8") == "a b\nc d\ne f\n"
    assert (run / "text-set" / "test.src").read_text(encoding="utf-8") == "a b\nc d\n"
