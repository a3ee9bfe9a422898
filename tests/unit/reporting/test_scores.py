"""Test scores over seeds: means, significance, the copy row, and the published numbers next to ours."""

import sys
from pathlib import Path

import pytest
from msgspec import convert
from msgspec.structs import replace

from tests.unit.reporting.run_folder import make_run
from wean_fairseq.evaluation import Evaluation
from wean_fairseq.evaluation.published import PUBLISHED_TABLES
from wean_fairseq.evaluation.score_file import Column, DataFile
from wean_fairseq.evaluation.tables import Cell, Table
from wean_fairseq.reporting import comparison, scores
from wean_fairseq.reporting.runs import Run, ScoredSet, read_run


def entry_of(*tests: ScoredSet) -> scores.Entry:
    """Return the entry of an experiment whose seeds have these test sets."""
    runs = [Run(Path("quora"), sets={"test": test}) for test in tests]
    return scores.Experiment("quora", runs).sets["test"]


def scored(values: dict[str, float], key: str = "bleu", p: float | None = None, difference: float = 1.0) -> ScoredSet:
    """Return a test set with one metric.

    ``p`` and ``difference`` are the result of the test between the last and the first system.
    """
    systems = {
        name: {key: {"score": value, "signature": "s", "ci": [value - 1, value + 1]}} for name, value in values.items()
    }
    names = [name for name in values if name != "copy-source"]
    test = {"metric": key, "baseline": names[0], "system": names[-1], "difference": difference}
    pairwise = [] if p is None else [{**test, "p_values": {"bootstrap": p, "randomization": 0.01}}]
    data = {"sentences": 4, "resamples": 9, "trials": 9}
    return ScoredSet("test", convert({"systems": systems, "pairwise": pairwise, "data": data}, Evaluation))


def test_mean_and_sample_deviation_over_seeds():
    """By hand, 20, 23 and 26 have the mean 23 and the sample deviation 3."""
    tests = [scored({"a": value}) for value in (20.0, 23.0, 26.0)]
    entry = entry_of(*tests)
    assert scores.score_cell(entry, "a", "bleu") == Cell("23.00 ± 3.00", "3 seeds")
    assert scores.score_cell(entry, "b", "bleu") == Cell("not run")
    assert entry.evaluation.scores["a"]["bleu"].interval == (20.0, 26.0)
    assert scores.score_cell(entry_of(tests[0]), "a", "bleu") == Cell("20.00", "19.00 to 21.00")


def test_seeds_have_the_systems_and_signatures_of_all():
    """If seeds have different signatures, both signatures are shown. The copy row comes first in any case."""
    first, second = scored({"a": 20.0, "copy-source": 1.0}), scored({"a": 22.0, "b": 3.0})
    second.evaluation.columns["bleu"] = replace(second.evaluation.columns["bleu"], signature="t")
    entry = entry_of(first, second)
    assert list(entry.evaluation.scores) == ["copy-source", "a", "b"]
    assert (entry.systems, entry.baseline, entry.seeds) == (["a", "b"], "a", 2)
    assert {key: column.signature for key, column in entry.columns.items()} == {"bleu": "s or t"}
    assert scores.score_cell(entry, "b", "bleu") == Cell("3.00", "1 seed")


def test_a_score_that_is_no_number_is_a_dash_and_beats_nothing():
    """JSON has ``null`` for NaN. If only one of two seeds has a number, this number is the score."""
    none = {"score": None, "signature": "s", "ci": [None, None]}
    one = {"score": 12.0, "signature": "s", "ci": None}
    test = {"metric": "bleu", "baseline": "a", "system": "b", "difference": None, "p_values": {"bootstrap": 0.001}}
    systems = {"copy-source": {"bleu": one}, "a": {"bleu": none}, "b": {"bleu": none}}
    content = {"systems": systems, "pairwise": [test], "data": {"sentences": 4}}
    lacking = ScoredSet("test", convert(content, Evaluation))
    assert scores.score_cell(entry_of(lacking), "a", "bleu") == Cell("–")
    assert entry_of(lacking, lacking).evaluation.scores["a"]["bleu"].interval is None
    assert scores.copy_win([entry_of(lacking)], "bleu") == ""
    (table,) = scores.significance_table(lacking.evaluation)
    assert str(table.rows[0][1]) == "– (0.0010)"  # no star, which would mark a significant difference
    beside_none = ScoredSet("test", convert({**content, "systems": {**systems, "b": {"bleu": one}}}, Evaluation))
    assert scores.score_cell(entry_of(beside_none), "b", "bleu").text == "12.00"
    both = entry_of(lacking, scored({"a": 23.0}))
    assert scores.score_cell(both, "a", "bleu") == Cell("23.00", "1 seed")
    assert both.score("a", "bleu") == 23.0


def test_a_star_needs_both_tests_with_every_seed():
    both, one = scored({"a": 1.0, "b": 2.0}, p=0.04), scored({"a": 1.0, "b": 2.0}, p=0.06)
    opposite = scored({"a": 1.0, "b": 0.5}, p=0.04, difference=-0.5)
    assert scores.is_significant(entry_of(both, both), "b", "bleu")
    assert not scores.is_significant(entry_of(both, one), "b", "bleu")
    assert not scores.is_significant(entry_of(both, opposite), "b", "bleu")
    # without a test, no difference is significant
    assert not scores.is_significant(entry_of(scored({"a": 1.0, "b": 2.0})), "b", "bleu")
    assert scores.score_cell(entry_of(both), "b", "bleu").text == "2.00*"


def test_what_the_copy_row_beats_is_marked_where_more_is_better():
    tests = entry_of(scored({"copy-source": 5.0, "a": 4.0, "b": 6.0}))
    assert [scores.score_cell(tests, name, "bleu").mark for name in ("copy-source", "a", "b")] == ["copy", "beaten", ""]
    assert scores.copy_wins(tests) == []
    lost = entry_of(scored({"copy-source": 5.0, "a": 4.0, "b": 3.0}))
    assert scores.copy_wins(lost)[0] == "standard: BLEU 5.00 against 4.00 of the best system."
    copying = entry_of(scored({"copy-source": 100.0, "a": 4.0}, key="copy-rate"))
    assert scores.score_cell(copying, "a", "copy-rate").mark == ""
    assert scores.copy_wins(copying) == []


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("bleu", ("standard", "BLEU", "higher")),
        ("self-bleu", ("standard", "self-BLEU", None)),
        ("ter", ("standard", "TER", "lower")),
        ("paper:cdnpg-compat/iBLEU", ("paper:cdnpg-compat", "iBLEU", "higher")),
        ("paper:dress-pwkp/SARI-add", ("paper:dress-pwkp", "SARI-add", None)),
        ("paper:copynet-synthetic/exact@1[x-to-x]", ("paper:copynet-synthetic", "exact@1[x-to-x]", "higher")),
        ("of a later version", ("standard", "of a later version", None)),
    ],
)
def test_columns_of_older_files_are_described_by_their_keys(key, expected):
    column = Column.from_key(key, "s")
    assert (column.preset, column.heading, column.direction) == expected


def test_a_missing_optional_library_changes_no_direction(monkeypatch):
    """METEOR can be computed only with NLTK.

    That a higher METEOR is better must be known without NLTK, for score files of all versions.
    """
    monkeypatch.setitem(sys.modules, "nltk", None)
    older = scored({"copy-source": 5.0, "a": 4.0}, key="meteor-exact-stem").evaluation
    newer = convert(older.as_json(), Evaluation)
    for evaluation in (older, newer):
        entry = entry_of(ScoredSet("test", evaluation))
        assert scores.copy_wins(entry)[0] == "standard: METEOR-es 5.00 against 4.00 of the best system."
        assert scores.score_cell(entry, "a", "meteor-exact-stem").mark == "beaten"


def test_runs_that_differ_in_their_seed_are_one_experiment(tmp_path):
    runs = [read_run(make_run(tmp_path / "quora" / f"seed{seed}", seed=seed)) for seed in (1, 2)]
    other = read_run(
        make_run(tmp_path / "other", sources=["a b", "c d", "e f", "g h"], references=["a", "b", "c", "d"])
    )
    experiments = scores.group_runs([*runs, other])
    assert [(experiment.title, experiment.seeds) for experiment in experiments] == [
        ("quora", ["1", "2"]),
        ("other", ["1"]),
    ]


def test_experiments_of_one_name_are_told_apart(tmp_path):
    runs = [read_run(make_run(tmp_path / name / "quora", references=[name, *"bcd"])) for name in ("wean", "dnpg")]
    assert [experiment.title for experiment in scores.group_runs(runs)] == ["wean/quora", "dnpg/quora"]


def test_the_same_seed_twice_is_no_other_seed(tmp_path):
    """If experiments have the same name, their titles include the folder in which they differ."""
    sets = {"test": scored({"a": 1.0})}
    sets["test"].evaluation.data.files = {"references": [DataFile("test.tgt", "0")]}
    places = [tmp_path / "old" / "x" / "quora", tmp_path / "new" / "x" / "quora"]
    runs = [Run(place, settings={"BATCH": "64"}, seed="1", sets=sets) for place in places]
    experiments = scores.group_runs(runs)
    assert [(experiment.title, experiment.runs) for experiment in experiments] == [
        ("old/x/quora", runs[:1]),
        ("new/x/quora", runs[1:]),
    ]


def table_of(key: str, experiment: scores.Experiment) -> Table:
    """Return the published table with our rows."""
    tables = comparison.published_tables([experiment.sets["test"]])
    return next(table for table in tables if table.caption.startswith(PUBLISHED_TABLES[key].source))


def test_our_rows_stand_below_the_published_ones(tmp_path):
    """The published numbers come from Table 2 of C-DNPG."""
    run = read_run(make_run(tmp_path / "run"))
    (experiment,) = scores.group_runs([run])
    table = table_of("cdnpg-table2", experiment)
    names = [str(row[0]) for row in table.rows]
    texts = {str(row[0]): [str(cell) for cell in row[1:]] for row in table.rows}
    assert names[0] == "copy-source"
    assert texts["Transformer"] == ["published", "21.14", "37.97", "26.88", "40.14", "38.21"]
    assert names.index("transformer") == names.index("Transformer") + 1
    assert texts["FSET"][1] == "–"
    ours = run.sets["test"].evaluation.scores["transformer"]["paper:cdnpg-compat/BLEU-4"].score
    assert texts["transformer"][3].rstrip("*") == f"{ours:.2f}"
    assert "not in the paper" not in str(texts["copy_transformer"])


def test_a_system_the_paper_lacks_comes_last(tmp_path):
    outputs = {"mine": ["a b", "c", "d", "e"]}
    (experiment,) = scores.group_runs([read_run(make_run(tmp_path / "run", outputs=outputs, script="twitter_url"))])
    table = table_of("cdnpg-table2", experiment)
    assert [str(cell) for cell in table.rows[-1][:2]] == ["mine", "ours, not in the paper"]
    assert any(str(row[2]) == "30.25" for row in table.rows)  # Table 2 has this number for Twitter URL, not for Quora


@pytest.mark.parametrize(("recipe", "data"), [("pc_san/zhihu", "zhihu"), ("mta_lstm/essay", "zhihu"), ("x", "essay")])
def test_one_script_prepares_both_sets_of_essays(tmp_path, recipe, data):
    """The data set decides which published numbers are shown, not the name of the recipe."""
    key = "paper:pc-san/BLEU-2"
    test = scored({"mta_lstm": 1.5}, key=key)
    test.manifest.script = "essay"
    run = Run(tmp_path / recipe, sets={"test": test}, settings={"DATA": f"some/{data}"})
    captions = [table.caption for table in comparison.published_tables([scores.Experiment(recipe, [run]).sets["test"]])]
    assert captions
    assert all(caption.endswith(f", {data}") for caption in captions)


def test_data_that_no_published_table_has_is_compared_with_none(tmp_path):
    (experiment,) = scores.group_runs([read_run(make_run(tmp_path / "run", script="my_own"))])
    assert list(comparison.published_tables([experiment.sets["test"]])) == []


def test_groups_of_a_metric_meet_their_published_columns(tmp_path):
    """CopyNet's Table 1 has the types of rules as columns."""
    key = "paper:copynet-synthetic/exact@1[x-to-x]"
    run = Run(tmp_path, sets={"test": scored({"copynet": 98.42}, key=key)})
    (table,) = comparison.published_tables([scores.Experiment("rules", [run]).sets["test"]])
    rows = {str(row[0]): [str(cell) for cell in row[1:]] for row in table.rows}
    assert rows["CopyNet"] == ["published", "97.3", "93.7", "98.3", "68.2", "77.5"]
    assert rows["copynet"] == ["ours", "not scored", "98.42", *["not scored"] * 3]
