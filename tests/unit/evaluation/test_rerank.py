"""Test that re-ranking chooses on the tuning set alone and applies the choice to the test set."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from wean_fairseq.evaluation.cli import main

TUNE_SOURCES = ["the old cat sat down", "a big dog ran away fast", "rain fell on the wide roof"]
TUNE_REFERENCES = ["the cat sat down", "a dog ran away fast", "rain fell on the roof"]
# The search named 5 has the correct outputs as second hypotheses. The search named 12 has no correct output, and its
# first hypotheses are copies of the source.
FIVE = [["cats", "the cat sat down"], ["dogs", "a dog ran away fast"], ["rains", "rain fell on the roof"]]
TWELVE = [[source, "a a a"] for source in TUNE_SOURCES]
TEST_FIVE = [["one wrong", "one right"], ["two wrong", "two right"]]
TEST_TWELVE = [["one copy", "one x"], ["two copy", "two x"]]

Run = Callable[..., tuple[int, str, str]]


def write_log(name: str, nbest: Sequence[Sequence[str]], target: str = "unseen", sources: Sequence[str] = ()) -> None:
    """Write the output of fairseq-generate, with the last sentence first, as in its sorted batches."""
    lines = []
    for number, entries in reversed(list(enumerate(nbest))):
        lines += [f"S-{number}\t{sources[number] if sources else 'source'}", f"T-{number}\t{target}"]
        for place, text in enumerate(entries):
            lines += [f"H-{number}\t{-place}\t{text}", f"D-{number}\t{-place}\t{text}", f"P-{number}\t-1.0"]
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(name="run")
def make_run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Write two searches of both sets, change to their folder, and return a function that runs the command."""
    monkeypatch.chdir(tmp_path)
    Path("ref").write_text("\n".join(TUNE_REFERENCES) + "\n", encoding="utf-8")
    Path("src").write_text("\n".join(TUNE_SOURCES) + "\n", encoding="utf-8")
    for name, nbest in {"t5": FIVE, "t12": TWELVE, "e5": TEST_FIVE, "e12": TEST_TWELVE}.items():
        write_log(name, nbest)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["rerank", "--overwrite", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


TUNE = ("--tune", "5=t5", "12=t12", "--ref", "ref", "--src", "src")
# the order differs from TUNE, because only the names matter
BOTH = (*TUNE, "--test", "12=e12", "5=e5", "--output", "out")


def chosen(path: str = "choice.json") -> tuple[str, int]:
    choice = json.loads(Path(path).read_text(encoding="utf-8"))["chosen"]
    return choice["search"], choice["rank"]


def test_the_pair_that_is_best_on_the_tuning_set_is_applied_to_the_test_set(run: Run) -> None:
    """The second hypotheses of search 5 are the references, so BLEU is 100.

    In the test set, the second hypotheses are the outputs "right".
    """
    status, out, _ = run(*BOTH, "--json", "choice.json")
    lines = out.splitlines()
    assert status == 0
    assert lines[0] == "tuning set: 3 sentences, 1 reference"
    assert lines[2].split() == ["search", "BLEU"]
    assert lines[4] == "5, hypothesis 2    100.00  <- chosen"
    assert [line.split(",")[0] for line in lines[3:7]] == ["5", "5", "12", "12"]
    assert "bleu: nrefs:1|case:mixed|eff:no|tok:13a|" in out
    assert lines[-1] == "out: 2 lines, hypothesis 2 of e5"
    assert Path("out").read_text(encoding="utf-8") == "one right\ntwo right\n"
    assert chosen() == ("5", 2)


@pytest.mark.parametrize("metric", ["bleu", "sari", "rouge-l"])
def test_the_choice_scores_at_least_as_high_as_any_single_reading(run: Run, metric: str, tmp_path: Path) -> None:
    """Every candidate is scored again by the scoring command, as a plain file.

    The chosen candidate must have the maximum score.
    """
    again = {}
    for search, nbest in {"5": FIVE, "12": TWELVE}.items():
        for rank in (1, 2):
            Path("plain").write_text("".join(f"{entries[rank - 1]}\n" for entries in nbest), encoding="utf-8")
            files = [
                "--hyp",
                "X=plain",
                "--ref",
                "ref",
                "--src",
                "src",
                "--json",
                "x.json",
                "--overwrite",
                "--resamples",
                "0",
            ]
            assert main([*files, "--metric", metric, "--quiet"]) == 0
            cells = json.loads(Path("x.json").read_text(encoding="utf-8"))["systems"]["X"]
            again[search, rank] = cells[metric]["score"]
    status, _, _ = run(*TUNE, "--metric", metric, "--json", "choice.json")
    content = json.loads(Path("choice.json").read_text(encoding="utf-8"))
    assert status == 0
    assert {(item["search"], item["rank"]): item["score"] for item in content["candidates"]} == pytest.approx(again)
    assert again[chosen()] == max(again.values())
    assert again[chosen()] > again["5", 1], "higher than the default, the first entry of the first search"
    assert content["metric"] == metric
    assert [log["name"] for log in content["data"]["logs"]] == ["t5", "t12"]


def test_metrics_can_disagree(run: Run) -> None:
    """The first hypotheses of search 12 are copies of the source, for which SARI is low and BLEU is high."""
    write_log("t5", [["rain", "cat down"], ["rain", "dog fast"], ["rain", "rain roof"]])
    assert run(*TUNE, "--json", "choice.json")[0] == 0
    assert chosen() == ("12", 1)
    assert run(*TUNE, "--metric", "sari", "--json", "choice.json")[0] == 0
    assert chosen() == ("5", 2)


def test_nothing_of_the_test_set_moves_the_choice(run: Run) -> None:
    """Test that swapped outputs and T- lines of the test set do not change the choice and the scores.

    The T- lines must have no effect.
    """
    _, before, _ = run(*BOTH)
    written = Path("out").read_text(encoding="utf-8")
    write_log("e5", TEST_FIVE, target="one wrong")
    assert run(*BOTH)[1] == before
    assert Path("out").read_text(encoding="utf-8") == written
    write_log("e5", TEST_TWELVE, target="one right")
    write_log("e12", TEST_FIVE, target="one right")
    assert run(*BOTH)[1] == before
    assert Path("out").read_text(encoding="utf-8") == "one x\ntwo x\n"


def test_a_log_of_both_sets_is_reported(run: Run) -> None:
    status, out, _ = run(*TUNE, "--test", "12=./t12", "5=t5", "--output", "out")
    warnings = [line for line in out.splitlines() if "--test" in line]
    assert status == 0
    assert warnings == [
        f"warning: {path} is a log of --tune and of --test; give logs of two sets." for path in ("./t12", "t5")
    ]


def test_searches_of_different_test_sets_are_refused(run: Run) -> None:
    before = sorted(Path().iterdir())
    write_log("e5", TEST_FIVE, sources=["A man .", "a dog"])
    write_log("e12", TEST_TWELVE, sources=["a man.", "a cat"])
    status, _, error = run(*BOTH)
    assert (status, "S-1 of e5 and of e12 differ; give logs of one test set." in error) == (2, True)
    assert sorted(Path().iterdir()) == before
    for sources in (["a man.", "a dog"], ["a <unk> .", "a do@@ g"]):  # the second model has another dictionary
        write_log("e12", TEST_TWELVE, sources=sources)
        assert run(*BOTH)[0] == 0


def test_tuning_logs_in_another_order_than_the_source_are_refused(run: Run) -> None:
    write_log("t5", FIVE, sources=[*TUNE_SOURCES[1:], TUNE_SOURCES[0]])
    status, _, error = run(*TUNE)
    assert status == 2
    assert "5: 3 S- lines of its log are not the lines of the source" in error
    write_log("t5", FIVE, sources=TUNE_SOURCES)
    write_log("t12", TWELVE, sources=TUNE_SOURCES)
    assert "warning" not in run(*TUNE)[1]
    # The other checks are those of the scores.
    again = ("--tune", "5=t5", "6=t5", "--ref", "ref", "--src", "src")
    assert "warning: --tune 5 and 6 are the same log; give each search once." in run(*again)[1]
    # searches may find the same outputs with other scores
    Path("t6").write_text(Path("t5").read_text(encoding="utf-8").replace("-1.0", "-1.5"), encoding="utf-8")
    assert "warning" not in run("--tune", "5=t5", "6=t6", "--ref", "ref", "--src", "src")[1]
    write_log("t5", [[""], *FIVE[1:]], sources=TUNE_SOURCES)
    assert "warning: --tune 5: 1 empty hypotheses (line 1), scored as empty." in run(*TUNE, "--ranks", "1")[1]
    write_log("e5", [[""], *TEST_FIVE[1:]])
    assert "warning: --test 5: 1 empty hypotheses (line 1), scored as empty." in run(*BOTH, "--ranks", "1")[1]
    write_log("t5", [["the same"]] * len(FIVE), sources=TUNE_SOURCES)
    assert "outputs are the same sentence ('the same')" in run(*TUNE, "--ranks", "1")[1]
    write_log("t5", FIVE, sources=TUNE_SOURCES)
    write_log("e5", [["one@@ s", "one"], ["two", "two"]])
    assert "--test 5: 1 outputs hold pieces of words" in run(*BOTH)[2]
    write_log("t5", [["a", "b"]] * 12, target="a")
    lines = "".join(f"{number} b\n" for number in range(12))
    Path("ref").write_text(lines, encoding="utf-8")
    said = run("--tune", "5=t5", "--ref", "ref")[1]
    assert "warning: --tune 5: all 12 outputs are their T- lines; if the log is one of --score-reference" in said


def test_logs_may_be_pipes(run: Run) -> None:
    """The shell passes ``<(...)`` as a pipe, which can be read only once."""
    end, begin = os.pipe()
    os.write(begin, Path("t5").read_bytes())
    os.close(begin)
    expected = run(*TUNE)[1]
    assert run("--tune", f"5=/dev/fd/{end}", *TUNE[2:])[:2] == (0, expected)
    os.close(end)


def test_of_equal_scores_the_first_wins(run: Run) -> None:
    """All four candidates are the same text.

    The search that is named first wins, and its rank 1 comes before its rank 2.
    """
    write_log("t5", [[text, text] for text in TUNE_REFERENCES])
    write_log("t12", [[text, text] for text in TUNE_REFERENCES])
    run(*TUNE, "--json", "choice.json")
    assert chosen() == ("5", 1)
    run("--tune", "12=t12", "5=t5", "--ref", "ref", "--json", "choice.json")
    assert chosen() == ("12", 1)


def test_a_sentence_with_fewer_hypotheses_keeps_its_last(run: Run) -> None:
    """The first sentence has only its reference as a hypothesis, so rank 2 is right everywhere and BLEU is 100."""
    write_log("t5", [FIVE[0][1:], FIVE[1], FIVE[2]])
    write_log("e5", [["only"], ["two wrong", "two right"]])
    _, out, _ = run(*BOTH)
    assert "5, hypothesis 2    100.00  <- chosen  (1 sentences have fewer and keep their last)" in out
    assert Path("out").read_text(encoding="utf-8") == "only\ntwo right\n"
    assert "warning: e5 has fewer than 2 hypotheses for 1 sentence: the last one is written." in out


def test_copied_words_and_pieces_are_put_back_before_scoring(run: Run) -> None:
    """With restored slot and joined pieces, hypothesis 1 equals the reference and beats plain hypothesis 2."""
    Path("ref").write_text("Zork walks\n", encoding="utf-8")
    Path("src").write_text("Zork is walking\n", encoding="utf-8")
    Path("test.src").write_text("Blip is walking\n", encoding="utf-8")
    for name in ("t5", "e5"):
        write_log(name, [["<oov-0> wal@@ ks", "some one walks"]], sources=["<oov-0> is walking"])
    arguments = ("--tune", "5=t5", "--ref", "ref", "--src", "src", "--remove-bpe", "--metric", "exact@1")
    status, _, error = run(
        *arguments, "--test", "5=e5", "--test-oov-source", "test.src", "--output", "out", "--json", "choice.json"
    )
    assert (status, error) == (0, "")
    assert chosen() == ("5", 1)
    assert Path("out").read_text(encoding="utf-8") == "Blip walks\n"
    error = run(*arguments, "--test", "5=e5", "--oov-source", "src", "--output", "out")[2]
    assert "give the tokenised source text with --test-oov-source" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--ref", "ref"), "no search to choose from; give the logs of the tuning set with --tune NAME=LOG."),
        (("--tune", "t5", "--ref", "ref"), "--tune 't5' is not of the form NAME=FILE"),
        (("--tune", "5=t5"), "no reference file; give one or more with --ref."),
        (
            ("--tune", "5=t5", "5=t12", "--ref", "ref"),
            "--tune: the name '5' is given twice; give each FILE its own name.",
        ),
        (("--tune", "5=t5", "--ref", "ref", "--metric", "sari"), "give that of the tuning set with --src."),
        (
            (*TUNE, "--metric", "copy-rate"),
            "--metric copy-rate cannot choose a search; give a metric of one hypothesis",
        ),
        ((*TUNE, "--metric", "exact@10"), "--metric exact@10 cannot choose a search; give a metric of one hypothesis"),
        ((*TUNE, "--metric", "wer"), "unknown metric 'wer'"),
        ((*TUNE, "--ranks", "3"), "t5 has at most 2 hypotheses of a sentence but --ranks is 3; run fairseq-generate"),
        ((*TUNE, "--test", "5=e5", "12=e12"), "--test without --output; give both"),
        ((*TUNE, "--output", "out"), "--output without --test; give both"),
        ((*TUNE, "--test", "5=e5", "--output", "out"), "--tune has the searches 5, 12 but --test has 5;"),
        ((*TUNE, "--test", "5=e5", "12=t12", "--output", "out"), "t12 has 3 sentences but e5 has 2; give logs of one"),
        ((*TUNE, "--json", "./t5"), "--json ./t5 would overwrite t5; choose another name."),
        (("--tune", "5=e5", "--ref", "ref"), "system 5 (e5) has 2 lines but the reference has 3: it is too short"),
        (("--tune", "5=ref", "--ref", "ref"), "ref holds no H- lines of fairseq-generate"),
    ],
)
def test_errors_are_one_sentence_and_write_nothing(run: Run, arguments: tuple[str, ...], message: str) -> None:
    status, out, error = run(*arguments)
    assert (status, out) == (2, "")
    assert error.startswith("wean-evaluate: ")
    assert message in error
    assert error.count("\n") == 1
    assert not Path("out").exists()


def test_the_best_hypothesis_has_rank_1(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*TUNE, "--ranks", "0")
    error = capsys.readouterr().err
    assert "argument --ranks: '0' is not a whole number of 1 to 2147483647; see --help." in error
    assert (stopped.value.code, error.count("\n")) == (2, 1)
    assert not Path("out").exists()
