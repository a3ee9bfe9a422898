"""Test how recipes train: in parallel, with several seeds, and with settings that are chosen on validation.

A script replaces fairseq-train and immediately writes a log and a checkpoint.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.commands import ENVIRONMENT, ROOT, search_path
from wean_fairseq.storage.search import kept_search

RECIPE = f"""
set -euo pipefail
: "${{SYSTEMS:=first second}}"
source "{ROOT}/examples/lib/recipe.sh"
: "${{EPOCHS:=2}}"
if [[ -n ${{DECAY:-}} ]]; then
  mkdir -p "$RUN/text" && echo a >"$RUN/text/train.src"
  decay_linearly 0.1 8
fi
for system in $SYSTEMS; do
  [[ -z ${{OTHER_SEARCH:-}} ]] || search=()
  [[ -z ${{OTHER_SEARCH:-}} || $system != second ]] || search=(--search-preset wean)
  train "$system" "arch_$system" --lr 0.001 --best-checkpoint-metric bleu
done
if [[ -n ${{DECODED:-}} ]]; then
  generate first test --beam "${{BEAM:-5}}"
  generate first tune --nbest 2
fi
[[ -n ${{JOB:-}} ]] || say "scores of $RUN"
[[ -n ${{PLAIN:-}} ]] || curves
"""
# BLEU is highest at the learning rate 0.002. With MEET=N, the script waits until N trainings have started.
TRAIN = """
import os, sys, time
from pathlib import Path
options = dict(zip(sys.argv, sys.argv[1:]))  # the last of each
folder, rate = Path(options["--save-dir"]), float(options["--lr"])
if folder.name == os.environ.get("BROKEN"):
    sys.exit("fairseq-train: error: this one is broken.")
with open(os.environ["BEGUN"], "a") as begun:
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    print(folder.name, options["--seed"], os.environ["OMP_NUM_THREADS"] + device, file=begun)
until = time.monotonic() + 60
while len(Path(os.environ["BEGUN"]).read_text().splitlines()) < int(os.environ.get("MEET", 1)):
    assert time.monotonic() < until, "no other training was begun"
    time.sleep(0.05)
best = 20 - abs(rate - 0.002) * 1000
with open(options["--log-file"], "a") as log:
    print({"max_epoch": int(options["--max-epoch"])}, file=log)
    print("num. shared model params: 9 (num. trained: 9)", file=log)
    for epoch, bleu in ((1, best / 2), (2, best), (3, best - 1)):
        line = f"epoch {epoch:03d} | valid on 'valid' subset | loss 3 | bleu {bleu} | num_updates {epoch * 10}"
        print(line, file=log)
    if "--stop-time-hours" in options:
        print("Stopping training due to cumulative_training_time: 2.0 > stop_time_hours: 1.0 hour(s)", file=log)
    if "--patience" in options:
        print("early stop since valid performance hasn't improved for last 1 runs", file=log)
(folder / "checkpoint_best.pt").touch()
"""

GENERATE = """
import os, sys
with open(os.environ["DECODED"], "a") as decoded:
    print(*sys.argv[sys.argv.index("--no-progress-bar") + 1 :], file=decoded)
print("S-0\\ta")
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the recipe with variables.

    Each line of the file ``begun`` names a training that was started.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    found = "\nprint('GPU 0: x')\nprint('GPU 1: x')\n"
    for name, content in (("fairseq-train", TRAIN), ("fairseq-generate", GENERATE), ("nvidia-smi", found)):
        program = programs / name
        program.write_text(f"#!{sys.executable}{content}", encoding="utf-8")
        program.chmod(0o755)
    recipe = tmp_path / "recipe.sh"
    recipe.write_text(RECIPE, encoding="utf-8")

    def start(*, script: Path = recipe, **variables: object) -> subprocess.CompletedProcess:
        environment = {**ENVIRONMENT, "PATH": search_path(programs), "GPUS": "0"}
        environment |= {"RUN": str(tmp_path / "run"), "BEGUN": str(tmp_path / "begun")}
        environment |= {name: str(value) for name, value in variables.items()}
        return subprocess.run(["bash", script], env=environment, capture_output=True, text=True, timeout=300)

    return start


def begun(folder: Path) -> list[str]:
    """Return the trainings that were started, each with its name, seed and number of threads."""
    return (folder / "begun").read_text(encoding="utf-8").splitlines()


def trainings(folder: Path) -> dict:
    """Return the record of the trainings in a run."""
    return json.loads((folder / "trainings.json").read_text(encoding="utf-8"))


def test_two_jobs_train_at_the_same_time_and_are_not_trained_again(run, tmp_path):
    for _ in range(2):
        done = run(JOBS=2, MEET=2, OMP_NUM_THREADS=3, PLAIN=1)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("scores of") == 1
    assert sorted(begun(tmp_path)) == ["first 1 3", "second 1 3"]
    assert "training first" in (tmp_path / "run/jobs/1-first.log").read_text(encoding="utf-8")


def test_a_training_that_was_stopped_by_time_continues_with_more(run, tmp_path):
    for hours, ended in ((1, True), (2, True), (None, False)):
        done = run(SYSTEMS="first", PLAIN=1, **({"TRAIN_FLAGS": f"--stop-time-hours {hours}"} if hours else {}))
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("training first was ended by --stop-time-hours: repeat the command" in done.stdout) == ended
    assert run(SYSTEMS="first", PLAIN=1).stdout.count("training first: done before") == 1
    assert len(begun(tmp_path)) == 3


def test_cores_are_shared_out_among_jobs(run, tmp_path):
    assert run(JOBS=2, OMP_NUM_THREADS="", PLAIN=1).returncode == 0
    threads = -(-len(os.sched_getaffinity(0)) // 2)
    assert sorted(begun(tmp_path)) == [f"first 1 {threads}", f"second 1 {threads}"]


@pytest.mark.parametrize(("seen", "expected"), [("", ["70", "71"]), ("4,6", ["74", "76"])])
def test_each_job_has_a_gpu(run, tmp_path, seen, expected):
    done = run(JOBS=2, MEET=2, GPUS=2, CUDA_VISIBLE_DEVICES=seen, OMP_NUM_THREADS=7, PLAIN=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(line.split()[2] for line in begun(tmp_path)) == expected


def test_each_seed_has_a_run_and_scores_of_its_own(run, tmp_path):
    done = run(SEEDS="4 7", SYSTEMS="first", OMP_NUM_THREADS=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(begun(tmp_path)) == ["first 4 1", "first 7 1"]
    for seed in (4, 7):
        assert f"scores of {tmp_path}/run/seed{seed}" in done.stdout
        assert list(trainings(tmp_path / f"run/seed{seed}")) == ["first"]


@pytest.mark.parametrize("references", ["aa", "ab"], ids=["one test set", "one of each seed"])
def test_the_seeds_are_scored_together(tmp_path, references):
    """Test a word that is correct in one of two runs, which gives 50 ± 71 % (standard deviation with n - 1)."""
    for seed, output, reference in ((4, "a", references[0]), (7, "b", references[1])):
        folder = tmp_path / f"seed{seed}/set"
        for name, text in (("first/test.txt", output), ("text-test/test.src", "s"), ("text-test/test.tgt", reference)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{text}\n", encoding="utf-8")
    score = 'RUN=$RUN/set; score test "$RUN/text-test/test.tgt" -- --metric exact@1'
    line = ["bash", "-c", f'set -e; source "{ROOT}/examples/lib/recipe.sh"; {score}']
    environment = {**ENVIRONMENT, "RUN": str(tmp_path), "RECIPE": "recipe", "GPUS": "0", "SEEDS": "4 7"}
    environment |= {"SYSTEMS": "first", "PATH": search_path()}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    if references == "ab":
        assert "the seeds have different test sets" in done.stdout
        assert not (tmp_path / "set").exists()
        return
    scores = json.loads((tmp_path / "set/test.json").read_text(encoding="utf-8"))["systems"]["first"]["exact@1"]
    assert (scores["score"], scores["deviation"]) == (50.0, pytest.approx(100 / 2**0.5))


def test_a_failing_job_is_one_sentence_and_the_others_go_on(run, tmp_path):
    done = run(JOBS=2, BROKEN="first", PLAIN=1)
    assert done.returncode == 1
    assert "training failed: this one is broken." in done.stdout
    assert "scores of" not in done.stdout
    assert done.stderr.startswith("recipe: error: not all of them ended well; the same command continues from here")
    assert done.stderr.count("\n") == 1
    assert [line.split()[0] for line in begun(tmp_path)] == ["second"]
    assert run(JOBS=2, PLAIN=1).returncode == 0
    assert [line.split()[0] for line in begun(tmp_path)] == ["second", "first"]


def test_a_slurm_array_has_a_task_for_every_training(run, tmp_path):
    script = tmp_path / "array.sh"
    done = run(SBATCH=script, SEEDS="1 2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 trainings; give it to sbatch" in done.stdout
    assert not (tmp_path / "begun").exists()
    assert "#SBATCH --array=0-3\n" in script.read_text(encoding="utf-8")
    task = run(script=script, SLURM_ARRAY_TASK_ID=3, SEEDS="1 2", OMP_NUM_THREADS=8, RUN="elsewhere", PLAIN=1)
    assert task.returncode == 0, task.stdout + task.stderr
    assert begun(tmp_path) == ["second 2 1"]
    assert (tmp_path / "run/seed2/second/checkpoint_best.pt").exists()


def test_a_training_is_not_gone_on_with_other_options(run, tmp_path):
    assert run(TRAIN_FLAGS="--lr 0.0005").returncode == 0
    assert "--lr 0.0005" in trainings(tmp_path / "run")["first"]["options"]
    done = run()
    assert done.returncode == 1
    assert "was begun with other options (--lr: 0.0005 -> 0.001): set RUN" in done.stderr
    assert done.stderr.count("\n") == 1
    assert run(TRAIN_FLAGS="--lr 0.0005", EPOCHS=3).returncode == 0  # the same training with more epochs
    assert len(begun(tmp_path)) == 4


@pytest.mark.parametrize("hostile", ["a[$(touch {0})]\n", "\x1b]0;$(touch {0})\x07"])
def test_no_file_of_a_run_directory_is_evaluated(run, tmp_path, hostile):
    """Test state files that contain commands.

    The recipe must not run these commands: it repeats training and decoding, and refuses changed options.
    """
    for name in ("bin/dict.src.txt", "bin/dict.tgt.txt", "text-test/test.src", "text-test/test.tgt"):
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_text("a 1\n", encoding="utf-8")
    (tmp_path / "run/text-tune").symlink_to("text-test")
    given = {"DECODED": tmp_path / "searches", "SYSTEMS": "first", "PLAIN": 1}
    assert run(**given).returncode == 0
    touched = tmp_path / "touched"
    for name in (".trained", "search.set", "search.txt", "test.search"):
        (tmp_path / "run/first" / name).write_text(hostile.format(touched), encoding="utf-8")
    assert run(**given).returncode == 0
    assert len(begun(tmp_path)) == 2
    (tmp_path / "run/first/command").write_text(hostile.format(touched), encoding="utf-8")
    done = run(**given)
    # The file contains no option names.
    assert "first/command is not a file of settings" in done.stderr
    assert "\x1b" not in done.stderr
    assert not touched.exists()


def test_batches_of_so_many_tokens(run, tmp_path):
    for name, flags, pairs in (("all", "", 900), ("few", "--batch-size 100", 100)):
        assert run(RUN=tmp_path / name, TOKENS=900, TRAIN_FLAGS=flags).returncode == 0
        options = trainings(tmp_path / name)["first"]["options"]
        assert {"--max-tokens 900", f"--batch-size {pairs}"} <= set(options)
    done = run(RUN=tmp_path / "decay", TOKENS=900, DECAY=1)
    assert done.returncode == 1
    assert "falls to 0 over batches of BATCH pairs here, so TOKENS cannot be set" in done.stderr


def test_a_test_set_is_decoded_anew_by_another_search(run, tmp_path):
    """Test that the search of the first decoded set is stored with the checkpoint.

    A search for re-ranking hypotheses is not stored.
    """
    for name in ("bin/dict.src.txt", "bin/dict.tgt.txt", "text-test/test.src", "text-test/test.tgt"):
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_text("a 1\n", encoding="utf-8")
    (tmp_path / "run/text-tune").symlink_to("text-test")
    searches, found = tmp_path / "searches", []
    for flags, beam in (("", 5), ("--unkpen 2", 5), ("--unkpen 2", 5), ("", 5), ("", 5), ("", 8)):
        done = run(DECODED=searches, SEARCH_FLAGS=flags, BEAM=beam, PLAIN=1)
        assert done.returncode == 0, done.stdout + done.stderr
        found.append(kept_search(tmp_path / "run/first/checkpoint_best.pt"))
    assert searches.read_text(encoding="utf-8").splitlines() == [
        *("--beam 5", "--nbest 2", "--beam 5 --unkpen 2", "--nbest 2 --unkpen 2", "--beam 5", "--nbest 2", "--beam 8")
    ]
    plain = {"search_preset": "wean", "replace_unk": True, "beam": 5}
    penalised = plain | {"unkpen": 2}
    assert found == [plain, penalised, penalised, plain, plain, plain | {"beam": 8}]
    stored = tmp_path / "run/first/search.txt"
    for damage in (stored.unlink, lambda: stored.write_bytes(b"")):
        damage()
        assert run(DECODED=searches, BEAM=8, PLAIN=1).returncode == 0
        assert kept_search(tmp_path / "run/first/checkpoint_best.pt") == plain | {"beam": 8}
    assert len(searches.read_text(encoding="utf-8").splitlines()) == 7, "the stored outputs were decoded again"


@pytest.mark.parametrize("jobs", [1, 2])
def test_search_flags_are_checked_before_each_training(run, tmp_path, jobs):
    """The search of WEAN, which the second system has, does not go with --lenpen 2."""
    done = run(OTHER_SEARCH=1, SEARCH_FLAGS="--lenpen 2", JOBS=jobs, PLAIN=1)
    assert done.returncode == 1
    assert "SEARCH_FLAGS cannot be given to fairseq-generate (--lenpen 2): " in done.stdout + done.stderr
    assert begun(tmp_path) == ["first 1 1"]


def test_the_best_rate_on_validation_is_kept_with_all_that_were_tried(run, tmp_path):
    done = run(RATES="0.001 0.002 0.004", PATIENCE=1)
    assert done.returncode == 0, done.stdout + done.stderr
    found = trainings(tmp_path / "run")["second"]
    assert found["chosen"] == "lr-0.002,dropout-own"
    assert {name: one["best"] for name, one in found["tries"].items()} == {
        "lr-0.001,dropout-own": 19.0,
        "lr-0.002,dropout-own": 20.0,
        "lr-0.004,dropout-own": 18.0,
    }
    assert (found["best"], found["epoch_of_best"], found["epochs"], found["end"]) == (20.0, 2.0, 3.0, "converged")
    checkpoint = tmp_path / "run/second/checkpoint_best.pt"
    assert checkpoint.resolve().parent.name == "lr-0.002,dropout-own"


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({}, {"RATES": "0.001 0.002"}, "was trained without RATES and DROPOUTS: leave them out"),
        ({"RATES": "0.001 0.002"}, {}, "has trainings with several RATES or DROPOUTS: give the same again"),
    ],
)
def test_one_training_and_several_tries_do_not_share_a_folder(run, tmp_path, first, second, reason):
    """Check that a path that is already used for something else is refused.

    Otherwise, the link to the best try could replace a trained model, or a training could append to the log of a try.
    """
    assert run(SYSTEMS="first", **first).returncode == 0
    folder = tmp_path / "run/first"
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    done = run(SYSTEMS="first", **second)
    assert done.returncode == 1
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def test_all_tries_of_a_system_have_the_same_other_options(run, tmp_path):
    """Test that a try with other options is refused, because an earlier try with another size could be chosen."""
    assert run(SYSTEMS="first", RATES="0.002").returncode == 0
    done = run(SYSTEMS="first", RATES="0.004", TRAIN_FLAGS="--hidden-size 8")
    assert done.returncode == 1
    assert "was begun with other options (--hidden-size: not given -> 8): set RUN" in done.stderr
    assert run(SYSTEMS="first", RATES="0.002 0.004").returncode == 0
    assert trainings(tmp_path / "run")["first"]["chosen"] == "lr-0.002,dropout-own"


def test_only_the_best_rate_is_trained_to_the_end(run, tmp_path):
    """Test that each rate is first trained for TRY_EPOCHS, and only the best rate to the end.

    The script that replaces fairseq-train records each start.
    """
    assert run(SYSTEMS="first", RATES="0.001 0.002", TRY_EPOCHS=1, EPOCHS=4).returncode == 0
    found = trainings(tmp_path / "run")["first"]
    assert {name: (one["end"], one["schedule"]) for name, one in found["tries"].items()} == {
        "lr-0.001,dropout-own": ("not chosen", 1),
        "lr-0.002,dropout-own": ("cut", 4),
    }
    assert found["chosen"] == "lr-0.002,dropout-own"
    starts = [line.split()[0] for line in (tmp_path / "begun").read_text().splitlines()]
    assert starts == ["lr-0.001,dropout-own", "lr-0.002,dropout-own", "lr-0.002,dropout-own"]


def test_a_system_may_have_rates_of_its_own(run, tmp_path):
    assert run(RATES="0.001 0.002", RATES_second="0.004", PATIENCE=1).returncode == 0
    found = trainings(tmp_path / "run")
    assert {name: len(one["tries"]) for name, one in found.items()} == {"first": 2, "second": 1}
    assert found["second"]["chosen"] == "lr-0.004,dropout-own"


def test_a_training_that_patience_did_not_end_is_called_cut(run, tmp_path):
    assert run().returncode == 0
    assert trainings(tmp_path / "run")["first"]["end"] == "cut"
    assert (tmp_path / "run/curves.png").stat().st_size > 0


def test_test_pairs_with_a_sentence_of_the_training_text_are_told_from_the_others(tmp_path):
    """Test that the side of the pair that contains the sentence does not matter.

    The expected groups are listed by hand.
    """
    sides = {"text/train": ("a b\nc d\n", "e f\ng h\n"), "text-test/test": ("x\ng h\ny\na\n", "a b\nq\nw w\nb\n")}
    for name, texts in sides.items():
        (tmp_path / name).parent.mkdir()
        for side, text in zip(("src", "tgt"), texts, strict=True):
            (tmp_path / f"{name}.{side}").write_text(text, encoding="utf-8")
    environment = {**ENVIRONMENT, "RUN": str(tmp_path), "RECIPE": "recipe", "GPUS": "0"}
    script = f'source "{ROOT}/examples/lib/recipe.sh"; known_sentences test; cat "$RUN/text-test/test.known"'
    line = ["bash", "-c", script, "recipe"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["seen", "seen", "unseen", "unseen"], done.stderr


def test_a_data_set_is_binarised_anew_after_a_system_that_has_data_of_its_own(tmp_path):
    """Test a data set after ``fset``, which reads text with retrieved pairs.

    The next data set of the table must be created from its own text.
    """
    recipes = f'source "{ROOT}/examples/lib/recipe.sh"; source "{ROOT}/examples/granularity_transformer/systems.sh"'
    others = "remember prepare test_of_text train generate without_pieces samples score known_sentences say python"
    stubs = f'for name in {others} decay_linearly; do eval "$name() {{ :; }}"; done; schedule=()'
    stubs += "; binarise() { binary_data; echo; training_text; echo; }"
    both = "for RUN in first second; do mkdir $RUN; DATA=.; compare quora; done"
    environment = {**ENVIRONMENT, "RUN": "run", "RECIPE": "recipe", "GPUS": "0", "SYSTEMS": "fset", "TEXT": "elsewhere"}
    line = ["bash", "-c", f"set -euo pipefail; {recipes}; {stubs}; {both}", "recipe"]
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    expected = [f"{run}/{part}" for run in ("first", "second") for part in ("bin", "text", "bin-pairs", "pairs")]
    assert done.stdout.split() == expected, done.stderr


@pytest.mark.parametrize(("patience", "metric"), [(3, "bleu"), ("", None)])
def test_the_synthetic_rules_are_validated_by_bleu_if_there_is_a_patience(run, tmp_path, patience, metric):
    """The loss grows while the outputs improve, so that it cannot end a training."""
    run(script=ROOT / "examples/copynet/synthetic.sh", SMOKE=1, SYSTEMS="copynet", PATIENCE=patience)
    assert begun(tmp_path) == ["copynet 1 1"]
    command = (tmp_path / "run/copynet/command").read_text(encoding="utf-8").splitlines()
    given = dict(line.partition(" ")[::2] for line in command)
    assert given.get("--best-checkpoint-metric") == metric
    assert ("--eval-bleu" in given) == bool(patience)
    assert given.get("--patience", "") == str(patience)
