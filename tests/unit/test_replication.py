"""The verdicts of docs/replication.md follow from the result files, and the page is up to date."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("replication", ROOT / "scripts" / "replication.py")
assert spec is not None
assert spec.loader is not None
replication = importlib.util.module_from_spec(spec)
spec.loader.exec_module(replication)

CHECK = {"result": "made_up", "metric": "bleu", "above": "new", "below": "old"}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a result of two systems; p-values where their paired tests were made."""

    def make(new: tuple[float, float], old: tuple[float, float], p: tuple[float, float] | None, end: str = "cut"):
        """Each system is given by its interval."""
        cells = {name: {"bleu": {"score": sum(ci) / 2, "ci": list(ci)}} for name, ci in (("new", new), ("old", old))}
        pair = {"metric": "bleu", "baseline": "old", "system": "new"}
        tests = [{**pair, "p_values": {"bootstrap": p[0], "randomization": p[1]}}] if p else []
        epochs = {"new": 3.0, "old": 15.0}
        result = {
            "command": "bash recipe.sh",
            "seed": 1,
            "trainings": {name: {"end": end, "epochs_to_95_percent": number} for name, number in epochs.items()},
            "evaluation": {"systems": cells, "pairwise": tests, "data": {"sentences": 100}},
        }
        folder = tmp_path / "results"
        folder.mkdir()
        (folder / "made_up.json").write_text(json.dumps(result), encoding="utf-8")

    monkeypatch.setattr(replication, "ROOT", tmp_path)
    replication.read_result.cache_clear()
    yield make
    replication.read_result.cache_clear()


def judge(*checks: dict, **claim: str) -> str:
    """The verdict on a claim with these checks."""
    return replication.verdict(claim, [replication.run_check(check) for check in checks])


@pytest.mark.parametrize(
    ("new", "old", "p", "end", "expected"),
    [
        ((30, 32), (20, 22), (0.001, 0.001), "converged", "holds"),
        ((30, 32), (20, 22), (0.001, 0.001), "cut", "holds in part"),
        ((30, 32), (29, 31), (0.001, 0.001), "converged", "holds"),  # a paired test sees more than two intervals
        ((30, 32), (29, 31), (0.001, 0.06), "converged", "does not hold here"),  # both tests have to
        # Without tests: 1 is less than sqrt(1 + 1), the interval of a difference of independent scores; 1.5 is more.
        ((30, 32), (29, 31), None, "converged", "does not hold here"),
        ((30.5, 32.5), (29, 31), None, "converged", "holds"),
        ((30, 32), (20, 22), None, "converged", "holds"),
        ((20, 22), (30, 32), (0.001, 0.001), "converged", "does not hold here"),
        ((20, 22), (30, 32), None, "converged", "does not hold here"),
    ],
)
def test_a_verdict_needs_a_significant_difference_and_complete_trainings(write, new, old, p, end, expected):
    write(new, old, p, end)
    assert judge(CHECK) == expected


def test_some_differences_are_a_part_and_a_stated_reason_makes_trainings_complete(write):
    write((30, 32), (20, 22), None)
    reverse = {**CHECK, "above": "old", "below": "new"}
    assert judge(CHECK, reverse, complete="the rate fell to zero") == "holds in part"
    assert judge(CHECK, complete="the rate fell to zero") == "holds"
    assert "(the other way round)" in replication.run_check(reverse).text


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [((30, 32), (20, 22), "holds"), ((29, 31), (30, 32), "holds"), ((20, 22), (30, 32), "does not hold here")],
)
def test_as_good_is_what_is_not_worse(write, new, old, expected):
    write(new, old, None, "converged")
    assert judge({**CHECK, "as_good": True}) == expected


def test_parts_of_a_test_set_are_compared_by_their_intervals(write):
    write((30, 32), (20, 22), (0.5, 0.5), "converged")
    result = replication.read_result("made_up")
    result["evaluation"]["systems"]["new"]["bleu[seen]"] = {"score": 34.0, "ci": [33.0, 35.0]}
    parts = {**CHECK, "metric": "bleu[seen]", "than": "bleu", "below": "new"}
    assert judge(parts) == "holds"
    assert replication.run_check(parts).text == "new: bleu[seen] 34.00 [33.00, 35.00], bleu 31.00 [30.00, 32.00]"


def test_numbers_of_trainings_and_of_layers_are_compared(write):
    """Expected: WEAN's concat has 2 d^2 + d = 131,328 parameters at width 256 (its Table 5 prints 0.13 M)."""
    write((30, 32), (20, 22), None, "converged")
    faster = {"result": "made_up", "training": "epochs_to_95_percent", "above": "old", "below": "new"}
    fewer = {"words": 50_000, "width": 256, "above": "linear", "below": "concat"}
    assert judge(faster, fewer) == "holds"
    assert replication.run_check(faster).text == "epochs to 95 %: old 15, new 3"
    assert replication.run_check(fewer).text.endswith("concat 0.13 M")


def test_what_was_not_run_and_what_cannot_be_are_said():
    assert judge(run="bash recipe.sh") == "not run yet"
    assert judge(cannot="there were no raters") == "cannot be tested here"


def test_the_page_is_that_of_the_results():
    assert replication.main(["--check"]) == 0, "run python scripts/replication.py"


@pytest.mark.parametrize(
    ("content", "expected"), [("0.54", "holds"), ("0.51", "does not hold here"), ("0.4", "does not hold here")]
)
def test_granularities_of_words_are_compared_in_every_layer(write, tmp_path, content, expected):
    """1.96 standard errors of 0.01 are more than the 0.01 of the second case."""
    write((30, 32), (20, 22), None, "converged")
    table = f"layer\tfunction\tcontent\tstandard_error\n1\t0.1\t0.2\t0.01\n2\t0.5\t{content}\t0.01\n"
    (tmp_path / "results" / "made_up.new.granularity.tsv").write_text(table, encoding="utf-8")
    assert judge({"result": "made_up", "granularity": "new", "above": "content", "below": "function"}) == expected


def test_a_training_that_was_cut_counts_though_another_rate_was_chosen(write):
    write((30, 32), (20, 22), (0.001, 0.001), "converged")
    assert judge(CHECK) == "holds"
    replication.read_result("made_up")["trainings"]["old"]["tries"] = {"lr-0.1": {"end": "cut"}}
    assert judge(CHECK) == "holds in part"
