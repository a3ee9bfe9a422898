"""Test that the recipes of copying families report missing data in one sentence, and run from text to scores.

In the fast tests, one recipe of each family runs with one system and one test set. The slow tests run all systems and
all sets.
"""

import json
import subprocess
from pathlib import Path

import pytest

from tests.integration.commands import ENVIRONMENT, ROOT, search_path
from tests.integration.test_recipes import write_layout

FAMILIES = ("copynet", "pointer_generator", "copy_transformer")
# Recipe -> the layout of its data (None: it generates the data) and the test sets that it scores.
RECIPES = {
    "copynet/synthetic": (None, ["test"]),
    "copynet/dialogue": (None, ["ds1/ds1", "ds2/ds2"]),
    "copynet/lcsts_char": ("lcsts", ["test"]),
    "copynet/lcsts_word": ("lcsts", ["test"]),
    "pointer_generator/quora": ("quora", ["test"]),
    "copy_transformer/quora": ("quora", ["test"]),
}
# The fast recipes, with variables that select one system.
FAST = {
    "copynet/dialogue": {"SYSTEMS": "copynet_query", "SETS": "ds1"},
    "pointer_generator/quora": {"SYSTEMS": "pointer_generator"},
    "copy_transformer/quora": {"SYSTEMS": "copy_transformer"},
}


def run_recipe(recipe: str, run_dir: Path, **variables: object) -> subprocess.CompletedProcess:
    """Run a recipe on the CPU, as a user would."""
    environment = {**ENVIRONMENT, "PATH": search_path(), "GPUS": "0", "RUN": str(run_dir)}
    for name in ("DATA", "SYSTEMS", "SETS", "EPOCHS", "SEED", "SEEDS", "JOBS", "SMOKE"):
        environment.pop(name, None)
    environment.update({name: str(value) for name, value in variables.items()})
    script = ROOT / "examples" / f"{recipe}.sh"
    return subprocess.run(["bash", script], env=environment, capture_output=True, text=True, timeout=1800)


@pytest.mark.parametrize("recipe", [recipe for recipe, (layout, _) in RECIPES.items() if layout])
def test_missing_data_is_one_sentence(recipe, tmp_path):
    done = run_recipe(recipe, tmp_path / "run", DATA=tmp_path / "nowhere")
    assert done.returncode != 0
    assert done.stdout == ""
    assert f"there is no {tmp_path}/nowhere/" in done.stderr
    assert "Set DATA to" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("recipe", FAST)
def test_recipe_with_one_system(recipe, tmp_path):
    assert_recipe(recipe, tmp_path, **FAST[recipe])


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_from_text_to_scores_and_again(recipe, tmp_path):
    assert_recipe(recipe, tmp_path)


def assert_recipe(recipe, tmp_path, **chosen):
    """Assert that a small run creates all files and scores every system, and that a second run repeats no step."""
    layout, sets = RECIPES[recipe]
    sets = [name for name in sets if name.startswith(chosen.get("SETS", ""))]
    variables = chosen if layout is None else chosen | write_layout(layout, tmp_path / "data")
    run = tmp_path / "run"
    done = run_recipe(recipe, run, SMOKE=1, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "copy-source" in done.stdout
    for name in sets:
        assert (run / f"{name}.samples.txt").stat().st_size > 0
        systems = json.loads((run / f"{name}.json").read_text(encoding="utf-8"))["systems"]
        assert len(systems) >= (2 if chosen else 3)  # copy of the source, model of the family, and its baseline
    logs = [path.read_text(encoding="utf-8") for path in run.rglob("*.log") if path.stem in ("test", "ds1", "ds2")]
    assert logs
    assert not any("<oov" in log for log in logs)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("checkpoint_best.pt")}
    again = run_recipe(recipe, run, SMOKE=1, **variables)
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.count("done before") >= 1 + 2 * len(before)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("checkpoint_best.pt")} == before


def test_recipe_files_are_all_covered():
    found = {
        f"{family}/{path.stem}"
        for family in FAMILIES
        for path in (ROOT / "examples" / family).glob("*.sh")
        if path.read_text(encoding="utf-8").startswith("#!")  # files without a shebang line are parts of recipes
    }
    assert found == set(RECIPES)
