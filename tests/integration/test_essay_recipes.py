"""Test that essay recipes refuse impossible settings in one sentence, and (slow) that each recipe runs."""

import json
from pathlib import Path

import pytest

from tests.integration.commands import ROOT, write_pairs
from tests.integration.test_copying_recipes import run_recipe
from tests.integration.test_topic_essay_commands import essays

# Recipe -> the systems of its small run. Together, these systems cover each family, each size of vectors and each kind
# of text.
RECIPES = {
    "pc_san/zhihu": "pc_san transformer",
    "pc_san/essay": "no_bert",
    "pc_san/commongen": "transformer mta_lstm",
    "pc_san/ablations": "static_mixture source_context",
    "mta_lstm/essay": "tav_lstm tat_lstm mta_lstm",
    "sc_lstm/essay": "sc_lstm",
    "ppg/essay": "ppg",
}
PAPER_SIZE = {"ppg/essay": "paper"}  # in this size, the widths of its vectors differ from all other systems


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Write topics and essays as {train,valid,test}.{src,tgt}."""
    for seed, (split, size) in enumerate({"train": 90, "valid": 20, "test": 12}.items()):
        write_pairs(tmp_path / "data" / split, *essays(size, seed))
    return tmp_path / "data"


@pytest.mark.parametrize("recipe", RECIPES)
def test_missing_data_is_one_sentence(recipe, tmp_path):
    done = run_recipe(recipe, tmp_path / "run", DATA=tmp_path / "nowhere")
    assert done.returncode != 0
    assert done.stdout == ""
    assert f"there is no {tmp_path}/nowhere/" in done.stderr
    assert "Set DATA to" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"SYSTEMS": "pc_san gpt"}, "there is no system gpt here; choose from "),
        ({"BERT": "nowhere"}, "there is no directory nowhere: set BERT to"),
        ({"VECTORS": "nowhere"}, "there is no nowhere. Set VECTORS to"),
        ({"VECTORS": "{narrow}"}, "has 3 numbers per word, but pc_san reads 768"),
        ({"SYSTEMS": "ppg", "SIZE": "small", "VECTORS": "{narrow}"}, "has 3 numbers per word, but ppg reads 128"),
        ({"SIZE": "large"}, "SIZE must be paper or small, but is large."),
        ({"OPTIMISER": "sgd"}, "OPTIMISER must be adam or adadelta, but is sgd."),
    ],
)
def test_what_cannot_be_is_one_sentence_before_anything_is_made(variables, message, text, tmp_path):
    narrow = tmp_path / "narrow.txt"
    narrow.write_text("2 3\ntopic1 1 2 3\ntopic2 1 2 3\n", encoding="utf-8")
    given = {name: value.format(narrow=narrow) for name, value in variables.items()}
    done = run_recipe("pc_san/zhihu", tmp_path / "run", DATA=text, **given)
    assert done.returncode != 0
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_an_unknown_set_is_one_sentence(text, tmp_path):
    done = run_recipe("pc_san/ablations", tmp_path / "run", DATA=text, SET="books")
    assert done.returncode != 0
    assert done.stderr == "ablations: error: SET must be zhihu, essay or commongen, but is books.\n"


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_from_text_to_scores_and_again(recipe, text, tmp_path):
    """Test a second run with another search, which must create only the outputs again."""
    pytest.importorskip("transformers")
    pytest.importorskip("gensim")
    run = tmp_path / "run"
    variables = {"DATA": text, "SMOKE": 1, "SYSTEMS": RECIPES[recipe], "SIZE": PAPER_SIZE.get(recipe, "small")}
    done = run_recipe(recipe, run, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (run / "test.samples.txt").stat().st_size > 0
    systems = json.loads((run / "test.json").read_text(encoding="utf-8"))["systems"]
    assert set(systems) == set(RECIPES[recipe].split())  # there is no row for a copy of the topics
    for system in RECIPES[recipe].split():
        reads_mixtures = system in ("pc_san", "static_mixture", "source_context")
        assert (run / system / "mixture.tsv").exists() == reads_mixtures
    if recipe == "ppg/essay":
        assert "<chunk>" not in (run / "ppg" / "test.txt").read_text(encoding="utf-8")
    before = {path: path.stat().st_mtime_ns for path in run.rglob("checkpoint_best.pt")}
    again = run_recipe(recipe, run, **variables, NGRAM=1)
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.count("done before") == 2 + len(before) + (recipe == "ppg/essay")
    assert {path: path.stat().st_mtime_ns for path in run.rglob("checkpoint_best.pt")} == before
    for log in run.glob("*/test.log"):
        outputs = [line.split("\t")[2].split() for line in log.read_text("utf-8").splitlines() if line[:2] == "H-"]
        assert outputs and all(len(words) == len(set(words)) for words in outputs)


def test_recipe_files_are_all_covered():
    families = {recipe.partition("/")[0] for recipe in RECIPES}
    found = {
        f"{family}/{path.stem}"
        for family in families
        for path in (ROOT / "examples" / family).glob("*.sh")
        if path.read_text(encoding="utf-8").startswith("#!")  # files without a shebang line are parts of recipes
    }
    assert found == set(RECIPES)
