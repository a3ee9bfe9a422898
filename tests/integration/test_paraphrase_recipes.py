"""Test the recipes of the C-DNPG table: one error sentence without data, and (slow) a small run of each recipe."""

import json

import pytest

from tests.integration.commands import ROOT
from tests.integration.test_copying_recipes import run_recipe
from tests.integration.test_recipes import write_layout

# Recipe -> the systems that it trains.
RECIPES = {
    "residual_lstm/quora": ["residual_lstm", "residual_lstm_adam"],
    "dnpg/quora": ["dnpg", "dnpg_query"],
    "fset/quora": ["transformer", "fset"],
    "granularity_transformer/quora": ["transformer", "cdnpg_r", "cdnpg_rs"],
    "granularity_transformer/twitter_url": ["transformer", "cdnpg_r", "cdnpg_rs"],
    "all_systems": [
        *("seq2seq_lstm", "lstm", "wean_lstm", "residual_lstm", "rnnsearch", "copynet", "pointer_generator", "nts"),
        *("enc_dec_a", "paraphrase_transformer", "copy_transformer", "granularity_transformer_resonance"),
        *("granularity_transformer_scope", "granularity_transformer_product", "granularity_transformer_mean"),
        *("dnpg", "fset"),
    ],
}
TABLE = "granularity_transformer/table2"


@pytest.mark.parametrize("recipe", RECIPES)
def test_missing_data_is_one_sentence(recipe, tmp_path):
    done = run_recipe(recipe, tmp_path / "run", DATA=tmp_path / "nowhere")
    assert done.returncode != 0
    assert done.stdout == ""
    assert f"there is no {tmp_path}/nowhere/" in done.stderr
    assert "Set DATA to" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("recipe", RECIPES)
def test_an_unknown_system_is_one_sentence(recipe, tmp_path):
    layout = write_layout("quora", tmp_path / "data")
    done = run_recipe(recipe, tmp_path / "run", SMOKE=1, SYSTEMS="residual_lstm sgd dnpg", **layout)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "there is no system " in done.stderr
    assert RECIPES[recipe][0] in done.stderr.partition("choose from")[2]
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_from_text_to_scores_and_again(recipe, tmp_path):
    layout = write_layout("quora", tmp_path / "data")
    run = tmp_path / "run"
    done = run_recipe(recipe, run, SMOKE=1, **layout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (run / "test.samples.txt").stat().st_size > 0
    systems = json.loads((run / "test.json").read_text(encoding="utf-8"))["systems"]
    assert len(systems) == 1 + len(RECIPES[recipe])  # there is one more row for the copy of the source
    for system in RECIPES[recipe]:
        assert "<oov" not in (run / system / "test.log").read_text(encoding="utf-8")
    if recipe.startswith("dnpg"):
        log = (run / "dnpg" / "train.log").read_text(encoding="utf-8")
        assert "source_label_loss" in log
        assert "target_label_loss" in log
    before = {path: path.stat().st_mtime_ns for path in run.rglob("checkpoint_best.pt")}
    again = run_recipe(recipe, run, SMOKE=1, **layout)
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.count("done before") >= 1 + 2 * len(before)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("checkpoint_best.pt")} == before


@pytest.mark.parametrize("recipe", ["copy_transformer/quora", "dnpg/quora", "residual_lstm/quora"])
@pytest.mark.parametrize(
    ("given", "message"),
    [("mscoco", "SET must be quora or twitter_url"), ("twitter_url", "preprocess/twitter_url.py makes it")],
)
def test_the_data_set_is_chosen_by_name(recipe, given, message, tmp_path):
    done = run_recipe(recipe, tmp_path / "run", SET=given, DATA=tmp_path / "nowhere")
    assert done.returncode != 0
    assert message in done.stderr
    assert done.stderr.startswith(f"{given}: error: ")
    assert done.stderr.count("\n") == 1


def test_recipe_files_are_all_covered():
    of_families = [recipe for recipe in RECIPES if "/" in recipe]
    families = {recipe.partition("/")[0] for recipe in of_families}
    found = {
        f"{family}/{path.stem}"
        for family in families
        for path in (ROOT / "examples" / family).glob("*.sh")
        if path.read_text(encoding="utf-8").startswith("#!")  # files without a shebang line are parts of recipes
    }
    assert found == {*of_families, TABLE}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"TWITTER_URL": "nowhere"}, "there is no nowhere/train.src."),
        ({"SETS": "quora mscoco"}, "there is no data set mscoco here; choose from quora and twitter_url."),
        ({"SETS": "quora", "SYSTEMS": "transformer cdnpg"}, "there is no system cdnpg here; choose from residual_lstm"),
    ],
)
def test_the_table_refuses_what_it_cannot_run_before_it_begins(variables, message, tmp_path):
    layout = write_layout("quora", tmp_path / "data")
    done = run_recipe(TABLE, tmp_path / "run", SMOKE=1, QUORA=layout["DATA"], **variables)
    assert done.returncode != 0
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_table_has_a_row_a_system_and_a_second_run_skips_what_is_done(tmp_path):
    layout = write_layout("quora", tmp_path / "data")
    variables = {"SMOKE": 1, "SETS": "quora", "SEEDS": "1 2", "SYSTEMS": "cdnpg_s", "QUORA": layout["DATA"]}
    # Each of the two seeds has four steps: text, binary data, training and decoding. For seed 1, the first run writes
    # the text and the data itself, so it prints this message twice less.
    for done_before in (2 * 4 - 2, 2 * 4):
        done = run_recipe(TABLE, tmp_path / "run", **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("done before") == done_before
    assert not list((tmp_path / "run").glob("seed*/seed*"))
    rows = {line.split("|")[1].strip(): line for line in done.stdout.splitlines() if line.startswith("| ")}
    assert "2 seeds" in rows["cdnpg_s"]
    assert "transformer" not in rows
    assert (tmp_path / "run" / "table2.md").read_text(encoding="utf-8").strip() in done.stdout
