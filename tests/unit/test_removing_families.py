"""Test that a family can be removed by deleting its files and lines, as in docs/adding_a_model.md, section 7."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "dnpg": [
        *("wean_fairseq/models/dnpg.py", "wean_fairseq/data/weak_labels.py", "tests/unit/data/test_weak_labels.py"),
        *(f"wean_fairseq/modules/dnpg_{name}.py" for name in ("levels", "encoder", "decoder")),
    ],
    "srb": ["wean_fairseq/models/srb.py"],
}
LISTS = {
    "wean_fairseq/models/__init__.py": r"^    (dnpg|srb),\n",
    "wean_fairseq/data/input_kinds.py": r"^(    WeakLabels(Config)?,|from \.weak_labels import .*)\n",
    "wean_fairseq/modules/__init__.py": r"^from \.dnpg_\w+ import .*\n",
    "wean_fairseq/training/defaults.py": r"\bsrb ",
    "tests/families.py": r'^    "dnpg": .*\n',
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a copy of the package and the tests without DNPG and SRB."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in ("wean_fairseq", "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for family, paths in FILES.items():
        for path in [
            *(copy / name for name in paths),
            *copy.glob(f"tests/**/test_{family}*.py"),
            *copy.glob(f"tests/*/{family}.py"),
        ]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, entry in LISTS.items():
        path = copy / name
        text, count = re.subn(entry, "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert count, f"{name} has no such entry any more"
        path.write_text(text, encoding="utf-8")
    return copy


def run(checkout: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_other_families_are_registered_and_searched(checkout):
    printed = run(checkout, "-c", "from tests.families import families; print(*families())")
    assert not {"dnpg", "srb"} & set(printed.split())
    assert {"wean_lstm", "copynet", "granularity_transformer", "pc_san"} <= set(printed.split())
    run(checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/search/test_vocabulary_scores.py")


@pytest.mark.slow
def test_the_unit_tests_of_models_criterions_and_tasks_pass(checkout):
    folders = [f"tests/unit/{name}" for name in ("models", "criterions", "tasks", "generation")]
    unlisted = "not dnpg and not a_baseline_reads_features_of_half_precision"  # these tests use DNPG
    run(checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", unlisted, *folders)
