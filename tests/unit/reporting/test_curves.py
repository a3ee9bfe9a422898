"""Test learning curves: reading fairseq's logs in each of their formats, and drawing the figure."""

import json
from pathlib import Path

import pytest

from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.training_log import parse_line
from wean_fairseq.reporting.figures import draw_curves, summarise, validation_table
from wean_fairseq.reporting.plot_cli import check_metrics, main, read_history

# fairseq 0.12 writes such lines to --log-file after the time, here for 4 updates per epoch and validation every 2
# updates.
SIMPLE = """\
training on 1 devices (GPUs/TPUs)
epoch 001:      2 / 4 loss=9.5, nll_loss=9.5, ppl=724.08, wps=1052.8, num_updates=2, lr=0.001
begin validation on "valid" subset
epoch 001 | valid on 'valid' subset | loss 8.0 | nll_loss 8.0 | ppl 256 | bleu 10.5 | wps 623 | num_updates 2
epoch 001:      4 / 4 loss=7.5, nll_loss=7.5, ppl=181.02, wps=1052.8, num_updates=4, lr=0.001
epoch 001 | valid on 'valid' subset | loss 7.0 | ppl 128 | bleu 20.25 | num_updates 4 | best_bleu 20.25
epoch 001 | loss 8.5 | nll_loss 8.5 | ppl 362 | num_updates 4
epoch 002:      2 / 4 loss=6.5, nll_loss=6.5, ppl=90.51, wps=1052.8, num_updates=6, lr=0.001
epoch 002 | valid on 'valid' subset | loss 6.0 | ppl 64 | bleu 20 | num_updates 6 | best_bleu 20.25
"""
JSON = "\n".join(
    json.dumps(record)
    for record in (
        {"epoch": 1, "update": 0.5, "loss": "9.5", "num_updates": "2"},
        {"epoch": 1, "valid_loss": "8.0", "valid_bleu": "10.5", "valid_num_updates": "2"},
        {"epoch": 1, "update": 1.0, "loss": "7.5", "num_updates": "4"},
        {"epoch": 1, "valid_loss": "7.0", "valid_bleu": "20.25", "valid_num_updates": "4"},
        {"epoch": 1, "train_loss": "8.5", "train_num_updates": "4"},
        {"epoch": 2, "update": 1.5, "loss": "6.5", "num_updates": "6"},
        {"epoch": 2, "valid_loss": "6.0", "valid_bleu": "20", "valid_num_updates": "6"},
    )
)
TERMINAL = "\n".join(
    f"2026-01-01 00:00:00 | INFO | {'valid' if 'valid on' in line else 'train_inner'} | {line}"
    for line in SIMPLE.splitlines()
)


@pytest.fixture
def log(tmp_path):
    def write(content, name="train.log"):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize("content", [SIMPLE, JSON, TERMINAL], ids=["simple", "json", "terminal"])
def test_all_formats_say_the_same(log, content):
    history = read_history("WEAN", log(content))
    assert [(point.updates, point.epoch, point.values["bleu"]) for point in history.valid] == [
        (2, 0.5, 10.5),
        (4, 1.0, 20.25),
        (6, 1.5, 20.0),
    ]
    assert [(point.updates, point.values["loss"]) for point in history.train] == [(2, 9.5), (4, 7.5), (6, 6.5)]


def test_a_loss_that_is_the_likelihood_is_both(log):
    """fairseq's cross_entropy logs no nll_loss, but a ppl of 2^loss. With smoothing, ppl is 2^nll_loss."""
    line = "epoch {0} | valid on 'valid' subset | loss {1} | ppl {2} | num_updates {0}"
    history = read_history("lstm", log("\n".join((line.format(1, 0.5, 1.41), line.format(2, 8, 200)))))
    assert [point.values.get("nll_loss") for point in history.valid] == [0.5, None]


@pytest.mark.parametrize("beginning", ["| epoch 1 ", '| {"epoch": ', "| epoch 1 | valid on 'x", "| epoch 1: "])
def test_a_line_of_many_beginnings_ends(beginning):
    assert parse_line(beginning * 50_000) is None


def test_an_epoch_and_json_are_found_after_other_text():
    """If a line contains several beginnings, the first one counts.

    The line of an epoch must have train_wall, and JSON may be followed by spaces.
    """
    assert parse_line("x | epoch 002 | epoch 3 | train_wall 5 | num_updates 4") == (
        "train",
        2.0,
        {"epoch": 3.0, "train_wall": 5.0, "num_updates": 4.0},
        0,
        0,
    )
    assert parse_line('x | {"epoch": 2, "update": 1.5, "loss": "3"} ') == (
        "",
        1.5,
        {"epoch": 2.0, "update": 1.5, "loss": 3.0},
        0,
        0,
    )
    assert parse_line("x | epoch 002 | loss 5 | num_updates 4") is None


def test_a_resumed_run_replaces_what_it_did_again(log):
    again = "epoch 002:      1 / 4 loss=7, num_updates=5, lr=0.001\n"
    again += "epoch 002 | valid on 'valid' subset | loss 5.0 | bleu 30 | num_updates 6\n"
    history = read_history("WEAN", log(SIMPLE + again))
    assert [point.values["bleu"] for point in history.valid] == [10.5, 20.25, 30.0]
    assert [point.updates for point in history.train] == [2, 4, 5]


def test_a_run_started_over_forgets_the_first(log):
    over = "epoch 001:      1 / 4 loss=9, num_updates=1, lr=0.001\n"
    over += "epoch 001 | valid on 'valid' subset | loss 8.5 | bleu 3 | num_updates 2\n"
    assert [point.values["bleu"] for point in read_history("WEAN", log(SIMPLE + over)).valid] == [3.0]


def test_lines_written_twice_count_once(log):
    """fairseq adds a log handler at every validation and therefore writes lines several times."""
    doubled = "".join(line + "\n" + line + "\n" for line in SIMPLE.splitlines())
    assert [point.updates for point in read_history("WEAN", log(doubled)).valid] == [2, 4, 6]


def test_without_training_lines_the_epoch_is_that_of_the_validation(log):
    lines = [line for line in SIMPLE.splitlines() if "valid on" in line and "num_updates 2" not in line]
    history = read_history("WEAN", log("\n".join(lines)))
    assert [point.epoch for point in history.valid] == [1.0, 2.0]


def test_another_subset(log):
    content = SIMPLE.replace("valid on 'valid'", "valid on 'valid1'")
    assert len(read_history("WEAN", log(content), "valid1").valid) == 3
    with pytest.raises(UserError, match="no validation of the subset 'valid'"):
        read_history("WEAN", log(content))


def test_unknown_metric_names_those_there_are(log):
    history = read_history("WEAN", log(SIMPLE))
    with pytest.raises(UserError, match=r"logs no 'sari' at validation; it has best_bleu, bleu, loss"):
        check_metrics([history], ["bleu", "sari"])


@pytest.mark.parametrize(("losses", "expected"), [((4, 3), True), ((4, 3, 3), False), ((3, 5), False), ((4,), False)])
def test_a_log_whose_last_validation_is_the_best_is_improving(losses, expected, tmp_path):
    """fairseq logs best_loss from the second validation on.

    After only one validation, it is unknown whether the training is still improving.
    """
    best = [f" | best_loss {min(losses[: n + 1])}" if n else "" for n in range(len(losses))]
    lines = [
        f"epoch {n + 1:03d} | valid on 'valid' subset | loss {loss} | num_updates {n + 1}{best[n]}\n"
        for n, loss in enumerate(losses)
    ]
    (tmp_path / "train.log").write_text("".join(lines), encoding="utf-8")
    assert read_history("a", str(tmp_path / "train.log")).is_improving is expected


def test_summary_knows_which_way_is_better(log):
    history = read_history("WEAN", log(SIMPLE))
    assert summarise(history, "bleu") == "WEAN: best bleu 20.25 at epoch 1.00 (update 4), 95% of it by epoch 1.00"
    assert summarise(history, "loss") == "WEAN: best loss 6 at epoch 1.50 (update 6)"


@pytest.mark.parametrize(("metric", "values"), [("loss", (-5, -9.6, -10)), ("bleu", (-9, -1.04, -1))])
def test_negative_values_have_a_near_best(log, metric, values):
    """The loss -9.6 is within 5 % of the best loss -10, and the BLEU -1.04 is within 5 % of the best BLEU -1."""
    line = "epoch {0} | valid on 'valid' subset | {1} {2} | num_updates {0}"
    content = "\n".join(line.format(number, metric, value) for number, value in enumerate(values))
    assert read_history("A", log(content)).near_best(metric).updates == 1


def test_numbers_beyond_any_axis_are_left_out(log, tmp_path):
    content = SIMPLE.replace("loss 7.0", "loss 1e308").replace("num_updates 6", "num_updates 1e308")
    assert "1e+308" not in repr(read_history("A", log(content)).valid)
    assert main(["curves", f"\udcff={log(content)}", "--metric", "loss", "--output", str(tmp_path / "x")]) == 0


def test_table(log):
    table = validation_table([read_history("WEAN", log(SIMPLE))], ["bleu", "loss"])
    assert table.head == ["system", "epoch", "updates", "bleu", "loss"]
    assert table.rows[0] == ["WEAN", "0.500", "2", "10.5", "8"]


def test_curves_have_a_title_and_an_axis_with_the_unit(log):
    """fairseq logs both losses in bits, with logarithms to the base 2."""
    figure = draw_curves([read_history("WEAN", log(SIMPLE))], ["loss", "nll_loss"])
    assert figure.get_suptitle() == "Learning curves"
    names = ["loss", "negative log-likelihood"]
    assert [panel.get_ylabel() for panel in figure.axes] == [f"validation {name} (bits per token)" for name in names]


def test_a_long_name_is_cut_in_the_legend(log):
    """A name of 5,000 characters would leave no room for the curves. Therefore a label has at most 44 characters."""
    figure = draw_curves([read_history("W" * 5000, log(SIMPLE))], ["loss"])
    (name,) = (text.get_text() for text in figure.axes[0].get_legend().get_texts())
    assert name == "W" * 43 + "…"


def test_command_line_writes_picture_and_numbers(log, tmp_path, capsys):
    stem = tmp_path / "curves"
    logs = [f"WEAN={log(SIMPLE)}", f"Seq2seq={log(JSON, 'other.log')}"]
    assert main(["curves", *logs, "--output", str(stem), "--metric", "bleu", "loss", "--training"]) == 0
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert len((tmp_path / "curves.tsv").read_text(encoding="utf-8").splitlines()) == 7
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("Seq2seq: best bleu 20.25")
    assert printed[-3:] == [f"{stem}.{kind}" for kind in ("png", "svg", "tsv")]


def test_the_same_curves_are_the_same_file(log, tmp_path):
    for name in ("one", "two"):
        assert main(["curves", f"WEAN={log(SIMPLE)}", "--output", str(tmp_path / name)]) == 0
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train.log"], "NAME=LOG"),
        (["WEAN=/nowhere/train.log"], "/nowhere/train.log does not exist"),
        (["A=x", "B=x", "A=y"], "LOG: the name 'A' is given twice; give each LOG its own name."),
    ],
)
def test_errors_are_one_sentence(arguments, message, tmp_path, capsys):
    assert main(["curves", *arguments, "--output", str(tmp_path / "x")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_an_output_that_cannot_be_written(log, capsys):
    file = Path(log(SIMPLE))
    assert main(["curves", f"WEAN={file}", "--output", str(file / "x")]) == 2
    assert f"{file / 'x.png'} cannot be written (train.log is not a folder)" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["/dev/full", ".", "..", "folder/", ".png"])
def test_an_output_that_begins_no_file_name_is_refused(log, tmp_path, monkeypatch, capsys, output):
    monkeypatch.chdir(tmp_path)
    file = log(SIMPLE)
    before = {*tmp_path.rglob("*")}
    assert main(["curves", f"WEAN={file}", "--output", output]) == 2
    assert f"--output {output} is not the beginning of a file name: give one such as curves." in capsys.readouterr().err
    assert {*tmp_path.rglob("*")} == before


def test_an_empty_output_is_refused(log, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["curves", f"WEAN={log(SIMPLE)}", "--output", ""])
    assert "error: --output is empty: give a path" in capsys.readouterr().err


def test_a_suffix_of_the_output_is_not_doubled(log, tmp_path):
    assert main(["curves", f"WEAN={log(SIMPLE)}", "--output", str(tmp_path / "a.b.png")]) == 0
    assert sorted(path.name for path in tmp_path.glob("a*")) == ["a.b.png", "a.b.svg", "a.b.tsv"]
