"""Test the recipes of NTS, EncDecA and the RNNs on LCSTS: an error without data, and (slow) a small run."""

import json

import pytest

from tests.integration.commands import ROOT
from tests.integration.test_copying_recipes import run_recipe
from tests.integration.test_recipes import write_layout
from wean_fairseq.evaluation.output_reader import read_generated

# Recipe -> the systems that the small run trains, and the test sets that it scores.
RECIPES = {
    "simplification": (["nts_adam", "nts_w2v", "enc_dec_a", "wean_lstm"], ["pwkp", "turk"]),
    "pwkp": (["enc_dec_a", "dress", "dress_ls", "nts"], ["names"]),
    "ew_sew": (["nts_w2v"], ["turk"]),
    "lcsts": (["enc_dec_lcsts", "rnnsearch_lcsts"], ["test"]),
}
# Recipe -> the system that is re-ranked, and the set whose outputs are chosen from its hypotheses.
RERANKED = {"pwkp": ("nts", "test"), "ew_sew": ("nts_w2v", "turk")}


@pytest.mark.parametrize("recipe", RECIPES)
def test_missing_data_is_one_sentence(recipe, tmp_path):
    done = run_recipe(f"nts/{recipe}", tmp_path / "run", DATA=tmp_path / "nowhere")
    assert done.returncode != 0
    assert done.stdout == ""
    assert f"there is no {tmp_path}/nowhere/" in done.stderr
    assert "Set DATA to" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"SYSTEMS": "nts residual_lstm"}, "there is no system residual_lstm here; choose from nts nts_adam"),
        ({"SIZE": "large"}, "SIZE must be paper, small or equal, but is large."),
        ({"SIZE": "equal", "WIDTH": 7}, "SIZE=equal needs an even WIDTH, but WIDTH is 7."),
        ({"SIZE": "equal", "SYSTEMS": "nts_adam"}, "by Adam: name them in SYSTEMS without _adam."),
        ({"SIZE": "equal", "GLOVE": "v.txt"}, "from the training text: leave WORD2VEC and GLOVE out."),
        ({"SENTENCE_MODEL": "nowhere"}, "there is no nowhere/config.json. Set SENTENCE_MODEL to the folder of"),
        ({"GLOVE": "nowhere.txt"}, "there is no nowhere.txt. Set WORD2VEC and GLOVE to text files of word vectors"),
        ({"SYSTEMS": "nts", "RERANK": "nts_w2v"}, "RERANK names nts_w2v, which is not one of SYSTEMS (nts)."),
    ],
)
def test_wrong_settings_are_one_sentence(variables, message, tmp_path):
    layout = write_layout("simplification", tmp_path / "data")
    done = run_recipe("nts/simplification", tmp_path / "run", **layout, **variables)
    assert done.returncode != 0
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_equal_sizes_give_every_system_the_same_width_and_optimiser(tmp_path):
    pytest.importorskip("gensim")
    layout = write_layout("simplification", tmp_path / "data")
    systems = ["wean_lstm", "nts_w2v", "enc_dec_a", "dress", "dress_ls"]
    run = tmp_path / "run"
    settings = {"SMOKE": 1, "SIZE": "equal", "WIDTH": 12, "BATCH": 32, "SYSTEMS": " ".join(systems)}
    done = run_recipe("nts/simplification", run, **settings, **layout)
    assert done.returncode == 0, done.stdout + done.stderr
    options = {system: (run / system / "command").read_text(encoding="utf-8").splitlines() for system in systems}
    own = ("--arch ", "--global-vectors ", "--local-")
    equal = {system: [line for line in lines if not line.startswith(own)] for system, lines in options.items()}
    assert equal["nts_w2v"] == equal["enc_dec_a"] == equal["wean_lstm"]
    sizes = {"--embed-dim 12", "--hidden-size 12", "--dropout 0.3"}
    assert sizes | {"--batch-size 32", "--optimizer adam"} <= set(equal["wean_lstm"])
    assert sizes | {"--baseline-width 12"} <= set(equal["dress"])
    assert sizes | {"--lexical-dim 12", "--batch-size 32", "--optimizer adam"} <= set(equal["dress_ls"])
    assert "self-BLEU" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_from_text_to_scores_and_again(recipe, tmp_path):
    if recipe != "lcsts":
        pytest.importorskip("gensim")
    layout = write_layout(recipe, tmp_path / "data")
    systems, sets = RECIPES[recipe]
    layout["SYSTEMS"] = " ".join(systems)
    if recipe == "simplification":  # add a word that occurs only twice
        for side in ("src", "tgt"):
            path = tmp_path / "data" / f"train.{side}"
            path.write_text(path.read_text(encoding="utf-8") + "rarity found .\n", encoding="utf-8")
    expected = ["copy-source", *systems]
    if recipe in RERANKED:
        layout["RERANK"] = RERANKED[recipe][0]
        expected += [f"{layout['RERANK']}_bleu", f"{layout['RERANK']}_sari"]
    run = tmp_path / "run"
    done = run_recipe(f"nts/{recipe}", run, SMOKE=1, **layout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "copy-source" in done.stdout
    for name in ["curves.png", "curves.tsv", *(f"{s}{end}" for s in sets for end in (".md", ".samples.txt"))]:
        assert (run / name).stat().st_size > 0, name
    for name in sets:
        scored = json.loads((run / f"{name}.json").read_text(encoding="utf-8"))["systems"]
        assert sorted(scored) == sorted(expected)
    if recipe in RERANKED:
        check_choice(run, *RERANKED[recipe])
    if recipe == "simplification":  # the separate dictionary of enc_dec_a leaves out rare words
        assert "rarity" in words_of(run / "bin")
        assert "rarity" not in words_of(run / "bin-cutoff")
    before = {path: path.stat().st_mtime_ns for path in made_once(run)}
    # DRESS also has two reward models. A re-ranked system decodes two sets with two beams each.
    assert len(before) == len(systems) + 2 * ("dress" in systems) + 4 * (recipe in RERANKED)
    again = run_recipe(f"nts/{recipe}", run, SMOKE=1, **layout)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "(fairseq-" not in again.stdout  # this message would be printed at the start of a step
    assert again.stdout.count("done before") >= len(before)
    assert {path: path.stat().st_mtime_ns for path in made_once(run)} == before


def made_once(run):
    """Return the files that a second start of the recipe must not change."""
    return [*run.rglob("checkpoint_best.pt"), *run.glob("*/*-5.log"), *run.glob("*/*-12.log")]


def check_choice(run, system, name):
    """Assert that all four settings were scored, and that the test output comes from the best setting."""
    for metric in ("bleu", "sari"):
        folder = run / f"{system}_{metric}"
        choice = json.loads((folder / f"{name}.choice.json").read_text(encoding="utf-8"))
        scores = {(item["search"], item["rank"]): item["score"] for item in choice["candidates"]}
        assert list(scores) == [("5", 1), ("5", 2), ("12", 1), ("12", 2)]
        beam, rank = choice["chosen"].values()
        assert choice["metric"] == metric
        assert scores[beam, rank] == max(scores.values())
        entries = read_generated("", run / system / f"{name}-{beam}.log").nbest
        written = (folder / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        assert written == [found[rank - 1] for found in entries]


def words_of(folder):
    """Return the words of a dictionary."""
    lines = (folder / "dict.src.txt").read_text(encoding="utf-8").splitlines()
    return {line.split(" ")[0] for line in lines}


def test_recipe_files_are_all_covered():
    found = {
        path.stem
        for path in (ROOT / "examples" / "nts").glob("*.sh")
        if path.read_text(encoding="utf-8").startswith("#!")  # files without a shebang line are parts of recipes
    }
    assert found == set(RECIPES)
