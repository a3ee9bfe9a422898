"""Test the comparison of experiments that were scored on the same sentences."""

import pytest
from msgspec.structs import replace

from tests.unit.reporting.run_folder import OUTPUTS, make_run
from wean_fairseq.evaluation import Evaluation
from wean_fairseq.evaluation.published import PUBLISHED_TABLES
from wean_fairseq.evaluation.tables import Cell
from wean_fairseq.reporting import comparison, scores
from wean_fairseq.reporting.runs import read_run

STANDARD = "standard"


@pytest.fixture(name="entries")
def two_experiments(tmp_path) -> list[scores.Entry]:
    """Return the entries of two experiments on the same questions, in which some systems have the same name.

    A third experiment, with other sentences, must be left out.
    """
    runs = [
        make_run(tmp_path / "copying" / "quora", preset=STANDARD),
        make_run(tmp_path / "plain" / "quora", outputs={"transformer": OUTPUTS["copy_transformer"]}, preset=STANDARD),
        make_run(tmp_path / "other", sources=["a b", "c d", "e f", "g h"], preset=STANDARD),
    ]
    (found,) = comparison.shared_tests(scores.group_runs([read_run(run) for run in runs]))
    return found


def test_experiments_on_the_same_sentences_are_put_together(entries):
    assert [(entry.experiment.title, entry.name) for entry in entries] == [
        ("copying/quora", "test"),
        ("plain/quora", "test"),
    ]
    assert entries[0].evaluation.data.sentences == 4


def test_every_system_has_a_row_with_its_experiment_and_size(entries):
    """The expected numbers are in the training log and in the JSON file with the scores."""
    table = comparison.overview_table(entries)
    assert table.head[:5] == ["system", "experiment", "parameters", "updates", "BLEU"]
    assert [[str(cell) for cell in row[:4]] for row in table.rows] == [
        ["copy-source", "–", "–", "–"],
        ["transformer", "copying/quora", "3,586,984", "200"],
        ["copy_transformer", "copying/quora", "3,586,984", "200"],
        ["transformer", "plain/quora", "3,586,984", "200"],
    ]
    bleu = [entry.evaluation.scores["transformer"]["bleu"].score for entry in entries]
    assert [str(table.rows[row][4]).rstrip("*") for row in (1, 3)] == [f"{score:.2f}" for score in bleu]
    assert str(table.rows[2][4]).rstrip("*") == str(table.rows[3][4])


def sign(evaluation: Evaluation, key: str, signature: str) -> None:
    """Replace the signature of a column."""
    evaluation.columns[key] = replace(evaluation.columns[key], signature=signature)


def test_a_metric_that_was_computed_otherwise_is_not_compared(entries):
    other = entries[1].evaluation
    sign(other, "bleu", "of another scorer")
    del other.columns["ibleu"]
    for cells in other.scores.values():
        del cells["ibleu"]
    row = comparison.overview_table(entries).rows[3]
    assert row[4:6] == [Cell("scored otherwise", "see plain/quora"), "–"]
    copied = comparison.overview_table(entries).rows[0]
    assert str(copied[4]) == f"{entries[0].evaluation.scores['copy-source']['bleu'].score:.2f}"
    drawn = {panel.metric: [name for name, _, _ in panel.systems] for panel in comparison.panels(entries)}
    assert drawn["BLEU"] == ["transformer (copying/quora)", "copy_transformer"]
    assert len(drawn["ROUGE-L"]) == 3


def test_a_copy_that_beats_every_system_is_said_first(entries):
    assert all("BLEU 0" not in item for warning in comparison.copy_warning(entries) for item in warning.items)
    for entry in entries:
        for name, cells in entry.evaluation.scores.items():
            cells["bleu"].score = 50.0 if name == "copy-source" else 20.0
    (warning,) = comparison.copy_warning(entries)
    assert warning.items[0] == "BLEU 50.00 against 20.00 of the best system."


def test_the_copy_beats_nobody_who_was_scored_otherwise(entries):
    """A score of 90 with another signature is not comparable with a score of 50."""
    for score, signature, entry in zip((20.0, 90.0), ("a", "b"), entries, strict=True):
        sign(entry.evaluation, "bleu", signature)
        for name, cells in entry.evaluation.scores.items():
            cells["bleu"].score = 50.0 if name == "copy-source" else score
    (warning,) = comparison.copy_warning(entries)
    assert warning.items[0] == "BLEU 50.00 against 20.00 of the best system."


def test_the_copy_row_has_every_metric_that_some_experiment_has(entries):
    del entries[0].evaluation.columns["sari"]
    for cells in entries[0].evaluation.scores.values():
        del cells["sari"]
    table = comparison.overview_table(entries)
    place = table.head.index("SARI")
    expected = entries[1].evaluation.scores["copy-source"]["sari"].score
    assert [str(row[place]) for row in table.rows[:2]] == [f"{expected:.2f}", "–"]


def test_a_published_column_holds_one_scorer_of_ours(entries):
    sign(entries[1].evaluation, "bleu", "of another scorer")
    (table,) = comparison.published_tables(entries)
    found = {str(row[1]): (str(row[2]), row[2].detail) for row in table.rows if str(row[0]) == "transformer"}
    assert found["ours, plain/quora"] == ("scored otherwise", "see plain/quora")
    assert found["ours, copying/quora"][0] != "scored otherwise"
    assert str(table.rows[0][2]) == f"{entries[0].evaluation.scores['copy-source']['bleu'].score:.2f}"


def test_rows_of_every_experiment_stand_below_the_published_ones(entries):
    """Only the rows of DNPG's Table 4 define which results belong together."""
    (table,) = comparison.published_tables(entries)
    assert table.caption.startswith(PUBLISHED_TABLES["dnpg-table4"].source)
    names = [(str(row[0]), str(row[1])) for row in table.rows]
    place = names.index(("Transformer", "published"))
    assert names[place + 1 : place + 3] == [
        ("transformer", "ours, copying/quora"),
        ("transformer", "ours, plain/quora"),
    ]
    assert sum(name == "copy-source" for name, _ in names) == 1
