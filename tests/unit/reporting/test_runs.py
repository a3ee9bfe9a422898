"""Test reading run directories. A hash identifies the files of a score, and broken files are reported."""

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from tests.unit.reporting.run_folder import OUTPUTS, REFERENCES, SOURCES, make_run, score
from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.training_log import read_log
from wean_fairseq.reporting.runs import decoding_speed, find_runs, read_recorded, read_run
from wean_fairseq.training.trainings import cut_note, describe_training


def test_a_run_has_its_texts_scores_and_costs(tmp_path):
    run = read_run(make_run(tmp_path / "run", seed=7))
    test = run.sets["test"]
    assert (run.seed, run.settings["BATCH"], run.problems) == ("7", "64", [])
    assert "SEED" not in run.settings
    assert list(test.evaluation.scores) == ["copy-source", "transformer", "copy_transformer"]
    assert list(run.systems) == ["transformer", "copy_transformer"]  # in the order of scoring, not sorted by name
    assert (test.sources, test.references, test.outputs) == (SOURCES, REFERENCES, OUTPUTS)
    system = run.systems["transformer"]
    assert [point.values["nll_loss"] for point in system.log.valid] == [4, 3]
    assert system.speed == {"test": 1040.5}


@pytest.mark.parametrize("is_part", [True, False])
def test_the_parts_of_a_run_share_its_text_by_a_link(tmp_path, is_part):
    """Recipes lock the folder of the whole run. Any other link leads out of the run, so its file is not shown."""
    folder = make_run(tmp_path / "seed1")
    if is_part:
        (tmp_path / ".run.lock").touch()
    (folder / "text-test").unlink()
    (folder / "text").rename(tmp_path / "text")
    (folder / "text").symlink_to("../text")
    assert read_run(folder).sets["test"].sources == (SOURCES if is_part else [])


@pytest.mark.parametrize("name", ["test.json", "trainings.json", "text/manifest.json", "transformer/copies.jsonl"])
def test_texts_behind_a_link_out_of_the_run_are_not_shown(tmp_path, name):
    folder = make_run(tmp_path / "run")
    file = folder / name
    content = file.read_text("utf-8") if file.exists() else "{}"
    file.unlink(missing_ok=True)
    file.symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text(content)
    says = f"{name} is behind a link that leads out of the run, so it is not shown."
    assert says in read_run(folder).problems
    file.unlink()
    file.write_text(content)
    assert says not in read_run(folder).problems


def test_texts_of_different_lengths_are_not_shown(tmp_path):
    """An edited score file may name another text of the run."""
    folder = make_run(tmp_path / "run")
    (folder / "text" / "train.src").write_text("a\n")
    content = json.loads((folder / "test.json").read_text())
    digest = sha256((folder / "text" / "train.src").read_bytes()).hexdigest()
    content["data"]["files"]["source"][0].update(name="train.src", sha256=digest)
    (folder / "test.json").write_text(json.dumps(content))
    run = read_run(folder)
    assert "test: its texts have different numbers of lines, so none is shown: score again." in run.problems
    assert (run.sets["test"].sources, run.sets["test"].outputs) == ([], {})


def test_only_settings_of_a_run_are_shown(tmp_path):
    """A link may lead to any file, and the folder that a run is in may have any file named settings."""
    folder = make_run(tmp_path / "run")
    (tmp_path / "secret").write_text("PASSWORD=a\nSEED=1\n")
    (folder / "settings").unlink()
    (folder / "settings").symlink_to("../secret")
    assert read_run(folder).settings == {}
    (folder / "settings").unlink()
    (tmp_path / "settings").write_text("PASSWORD=a\n")
    assert read_run(folder).settings == {}
    (tmp_path / "settings").write_text("BATCH=8\nSEED=1\n")
    assert read_run(folder).settings == {}
    (tmp_path / ".run.lock").touch()  # a recipe has locked the folder
    assert read_run(folder).settings == {"BATCH": "8"}


def test_time_of_an_update_is_the_median_over_epochs(tmp_path):
    """In the log, 100 updates took 20 s and 100 took 30 s, so the median is 0.25 s, and 200 updates take 50 s."""
    training = read_log(make_run(tmp_path / "run") / "transformer" / "train.log")
    assert training.parameters == 3_586_984
    assert (training.updates, training.seconds_per_update, training.done) == (200, pytest.approx(0.25), True)
    assert training.hours == pytest.approx(50 / 3600)


def test_an_epoch_that_was_done_again_counts_once_and_json_is_read(tmp_path):
    log = tmp_path / "train.log"
    ends = [(1, 100, 20), (2, 200, 5), (2, 200, 30)]
    log.write_text(
        "".join(
            json.dumps({"epoch": epoch, "train_train_wall": str(wall), "train_num_updates": str(updates)}) + "\n"
            for epoch, updates, wall in ends
        )
    )
    assert read_log(log).seconds_per_update == pytest.approx(0.25)


def test_a_log_without_the_end_of_an_epoch_has_no_costs(tmp_path):
    (tmp_path / "train.log").write_text("epoch 001:     50 / 100 loss=5, num_updates=50, train_wall=9\n")
    training = read_log(tmp_path / "train.log")
    assert (training.seconds_per_update, training.hours, training.updates, training.done) == (None, None, 0, False)
    (tmp_path / "test.err").write_text("killed\n")
    assert decoding_speed(tmp_path / "test.err") is None


@pytest.mark.parametrize(("printed", "speed"), [("1,040.5", 1040.5), ("7", 7.0), ("1.2.3", None), (",", None)])
def test_a_speed_is_a_number_or_unknown(tmp_path, printed, speed):
    (tmp_path / "x.err").write_text(f"Translated 3 sentences (9 tokens) in 1.0s ({printed} sentences/s, 9 tokens/s)\n")
    assert decoding_speed(tmp_path / "x.err") == speed


def test_a_line_of_many_beginnings_ends(tmp_path):
    (tmp_path / "x.err").write_text("Translated 1 sentences " * 50_000)
    assert decoding_speed(tmp_path / "x.err") is None


def test_a_file_with_several_test_sets_is_read(tmp_path):
    """wean-evaluate writes one for --set, and wean-train for a model that was trained further."""
    folder = make_run(tmp_path / "run")
    content = json.loads((folder / "test.json").read_text())
    (folder / "test.json").write_text(json.dumps({"sets": {"test": content, "old-test": content}}))
    (folder / "z.json").write_text(json.dumps({"sets": {"test": content}}))
    odd = dict.fromkeys(("z", "../up", "a\nb", "x" * 300), content)
    (folder / "odd.json").write_text(json.dumps({"sets": odd}))
    assert find_runs(tmp_path) == [folder]
    run = read_run(folder)
    left_out = [f"odd.json has a test set with the name {name[:50]!r}, which is left out." for name in [*odd][1:]]
    assert (list(run.sets), run.problems) == (["odd-z", "test", "old-test", "z-test"], left_out)
    assert [test.outputs for test in run.sets.values()] == [OUTPUTS] * 4


def test_paired_tests_of_the_older_definition_are_left_out(tmp_path):
    folder = make_run(tmp_path / "run")
    (file,) = folder.glob("test.json")
    content = json.loads(file.read_text())
    for test in content["pairwise"]:
        del test["p_values"]
        test.update(p_bootstrap=0.01, p_randomization=0.01)
    file.write_text(json.dumps(content))
    run = read_run(folder)
    assert (len(content["pairwise"]) > 0, run.sets["test"].evaluation.comparisons) == (True, [])
    assert run.problems == ["test.json has paired tests of an older definition, which are left out: score again."]


def test_outputs_that_changed_after_scoring_are_not_shown(tmp_path):
    folder = make_run(tmp_path / "run")
    with (folder / "transformer" / "test.log").open("a") as log:
        log.write("one line more\n")
    run = read_run(folder)
    assert list(run.sets["test"].outputs) == ["copy_transformer"]
    (problem,) = run.problems
    assert problem.startswith(
        "test: the outputs that were scored for transformer are not in the run any more, or have changed"
    )


@pytest.mark.parametrize("side", ["src", "tgt"])
def test_a_text_that_changed_after_scoring_is_named(tmp_path: Path, side: str) -> None:
    folder = make_run(tmp_path / "run")
    (text,) = {path.resolve() for path in folder.rglob(f"test.{side}")}
    text.write_text(text.read_text().rpartition("\n")[0])
    (problem,) = read_run(folder).problems
    lost, effect = {
        "src": ("source sentences", "no samples are shown"),
        "tgt": ("references", "the samples are shown without them"),
    }[side]
    assert problem == (
        f"test: the {lost} that were scored are not in the run any more, or have changed since: {effect}; score again."
    )


def test_texts_outside_of_the_run_directory_are_not_missed(tmp_path: Path) -> None:
    """``wean-train --from`` scores the test set of the earlier training, whose text is in another run directory."""
    folder = make_run(tmp_path / "run")
    for link in ("text-test", "plain-test"):
        (folder / link).unlink(missing_ok=True)
    (folder / "text").rename(tmp_path / "elsewhere")
    assert read_run(folder).problems == []


def test_texts_that_are_not_those_of_the_recipe_are_not_missed(tmp_path: Path) -> None:
    """The outputs may have been scored against other files, which are anywhere."""
    folder = make_run(tmp_path / "run")
    scores = (folder / "test.json").read_text()
    (folder / "test.json").write_text(scores.replace("test.src", "my.src").replace("test.tgt", "my.tgt"))
    run = read_run(folder)
    assert (run.problems, run.sets["test"].sources, run.sets["test"].references) == ([], [], [])


def test_text_behind_a_link_is_not_called_lost(tmp_path: Path) -> None:
    """It is not shown, but it has not changed."""
    folder = make_run(tmp_path / "run")
    (folder / "transformer").rename(tmp_path / "model")
    (folder / "transformer").symlink_to(tmp_path / "model")
    (folder / "text").rename(tmp_path / "elsewhere")
    (folder / "text").symlink_to(tmp_path / "elsewhere")
    message = "manifest.json is behind a link that leads out of the run, so it is not shown."
    link = "behind a link that leads out of the run"
    expected = [f"text/{message}", f"text-test/{message}"]
    expected += [f"test: the source sentences are {link}: no samples are shown."]
    expected += [f"test: the references are {link}: the samples are shown without them."]
    expected += [f"test: the outputs of transformer are {link}: their samples are left out."]
    assert read_run(folder).problems == expected
    (tmp_path / "elsewhere").rename(tmp_path / "nowhere")
    lost = "that were scored are not in the run any more, or have changed since"
    problems = read_run(folder).problems
    assert [problem.partition(": ")[2].partition(": ")[0] for problem in problems[:2]] == [
        f"the source sentences {lost}",
        f"the references {lost}",
    ]
    assert problems[2:] == expected[-1:]


def test_a_system_that_its_scores_call_otherwise_keeps_its_log(tmp_path):
    folder = make_run(tmp_path / "run")
    score(folder, f"Ours={folder / 'transformer' / 'test.log'}", preset="paper:cdnpg-fixed")
    run = read_run(folder)
    assert "transformer" not in run.systems
    ours = run.systems["Ours"]
    assert (ours.name, ours.log.name, ours.folder) == ("Ours", "Ours", folder / "transformer")


def test_a_training_that_goes_on_is_not_done_and_millions_are_read(tmp_path):
    log = tmp_path / "train.log"
    text = "epoch 001 | loss 1 | num_updates 1e+06 | train_wall 2.5e+06 | wall 1\n"
    log.write_text(f"num. shared model params: 9\n{text}done training in 1.0 seconds\n")
    training = read_log(log)
    assert (training.updates, training.seconds_per_update, training.done) == (1_000_000, 2.5, True)
    log.write_text(f"{log.read_text()}num. shared model params: 9\n")
    assert not read_log(log).done


def test_patience_still_ended_a_training_that_is_started_again(tmp_path):
    """A recipe starts the best of several tries again, with more epochs. host/stopping.py writes the message."""
    log = tmp_path / "train.log"
    start = "num. shared model params: 9\n"
    end = "early stop since valid performance hasn't improved for last 8 runs\ndone training in 1.0 seconds\n"
    again = "this training is complete: 8 validations brought no improvement, and --patience is 8\n"
    log.write_text(f"{start}{end}{start}{again}")
    assert read_log(log).stopped_early
    log.write_text(f"{start}{end}{start}")
    assert not read_log(log).stopped_early


@pytest.mark.parametrize(
    ("line", "limit"),
    [  # the first two lines are fairseq's, the last two are those of wean_fairseq.host.stopping
        ("Stopping training due to num_updates: 1 >= max_update: 1", "--max-update"),
        ("Stopping training due to cumulative_training_time: 0.1 > stop_time_hours: 0.05 hour(s)", "--stop-time-hours"),
        ("this training is complete: it has 1 updates, and --max-update is 1", "--max-update"),
        ("this training is complete: it has run 0.1 hours, and --stop-time-hours is 0.05", "--stop-time-hours"),
    ],
)
def test_the_limit_that_ended_a_training_is_read(tmp_path, line, limit):
    log = tmp_path / "train.log"
    start, valid = "num. shared model params: 9\n", "epoch 001 | valid on 'valid' subset | loss 3 | num_updates 1\n"
    log.write_text(f"{start}{line}\n{valid}")
    assert read_log(log).limit == limit
    (tmp_path / "command").write_text("--arch x\n")
    note = cut_note(describe_training(tmp_path), "bash x.sh")
    assert note.startswith(
        f"was ended by {limit} while validation was still improving (best validation at epoch 1 of 1)"
    )
    assert f"a larger {limit}" in note and note.endswith("bash x.sh")
    log.write_text(f"{start}{line}\n{start}{valid}")
    assert read_log(log).limit == ""


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "test.json cannot be read as JSON"),
        ('{"systems": {"a": {"bleu": {"signature": "s"}}}, "data": {}}', "test.json is not what wean-evaluate --json"),
        (
            '{"systems": {"a": {"bleu": {"score": 1e308, "ci": [-1e308, 1e308], "signature": "s"}}}, "data": {}}',
            "test.json cannot be read as JSON",
        ),
        ('{"systems": [], "data": {}}', "test.json is not what wean-evaluate --json"),
        ('{"systems": {"a": {"bleu": {"score": 1, "signature": "s"}}}, "data": {"files": {"source": [{}]}}}', "is not"),
    ],
)
def test_broken_scores_are_a_problem_of_the_run(tmp_path, content, problem):
    folder = make_run(tmp_path / "run")
    (folder / "test.json").write_text(content)
    run = read_run(folder)
    assert not run.sets
    assert len(run.problems) == 1
    assert problem in run.problems[0]


RECORDED = {
    "experiment": "wean_quora",
    "command": "bash x.sh",
    "seed": 3,
    "note": "Two epochs.",
    "hardware": {"cores": 2},
    "evaluation": {
        "systems": {
            "copy-source": {"bleu": {"score": 5, "signature": "s"}},
            "a": {"bleu": {"score": 1, "signature": "s"}},
        },
        "data": {"files": {"references": [{"name": "test.tgt", "sha256": "f0", "lines": 4}]}},
    },
}


def test_recorded_scores_are_a_run_without_the_rest(tmp_path):
    (tmp_path / "wean_quora.json").write_text(json.dumps(RECORDED))
    (found,) = find_runs(tmp_path / "wean_quora.json")
    run = read_recorded(found)
    assert (run.path.name, run.seed, list(run.systems), list(run.sets)) == ("wean_quora", "3", ["a"], ["test"])
    assert run.settings == {"command": "bash x.sh", "hardware": "cores 2"}
    assert run.problems[1] == "Two epochs."


def test_a_system_without_scores_is_refused(tmp_path):
    systems = RECORDED["evaluation"]["systems"] | {"b": {}}
    changed = RECORDED | {"evaluation": RECORDED["evaluation"] | {"systems": systems}}
    (tmp_path / "x.json").write_text(json.dumps(changed))
    with pytest.raises(UserError, match=r"x\.json: 'b' has no scores"):
        read_recorded(tmp_path / "x.json")


@pytest.mark.parametrize(
    "content", ["", "[" * 100_000, "[1]", "{}", '{"experiment": "x", "evaluation": {"systems": {}, "data": {}}}']
)
def test_a_file_that_is_no_record_is_refused(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    fault = "( is not JSON|: Expected|: Object missing|: There are no scores)"
    refusal = rf"x\.json{fault}.*; give a file.* Or give the run directory"
    with pytest.raises(UserError, match=refusal):
        read_recorded(tmp_path / "x.json")


def test_other_json_files_are_passed_by(tmp_path):
    folder = make_run(tmp_path / "run")
    (folder / "rules.json").write_text('{"rules": 3}')
    (folder / "transformer" / "train.log").write_text("not a log\n")
    run = read_run(folder)
    assert list(run.sets) == ["test"]
    assert run.problems == ["transformer: its train.log holds no validation that can be read, so it has no curve."]


def test_runs_are_found_below_a_directory(tmp_path):
    for name in ("seed2", "seed1"):
        make_run(tmp_path / "table" / "quora" / name)
    assert find_runs(tmp_path) == [tmp_path / "table" / "quora" / name for name in ("seed1", "seed2")]


def test_a_pipe_is_not_called_a_missing_directory(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe is a pipe or a device; give the run directory of a recipe"):
        find_runs(tmp_path / "pipe")


@pytest.mark.parametrize("there", [True, False])
def test_a_directory_without_a_run_is_refused(tmp_path: Path, there: bool):
    folder = tmp_path if there else tmp_path / "nowhere"
    with pytest.raises(UserError, match="give the (run )?directory" if there else "there is no directory"):
        find_runs(folder)
