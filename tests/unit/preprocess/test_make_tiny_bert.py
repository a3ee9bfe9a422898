"""Test that the task loads the tiny BERT, whose words come from the text, and that pre-training lowers the loss."""

import json

import pytest
import torch

from wean_fairseq.data.bert_features import FrozenBert

pytest.importorskip("transformers")

import make_tiny_bert as script

TINY = ["--dim", "16", "--heads", "2", "--layers", "3", "--vocabulary", "300", "--max-positions", "24"]
ENGLISH = [f"the {thing} of {place} is very Blue" for thing in ("tea", "sea", "bee") for place in ("Rome", "Oslo")] * 9
CHINESE = ["我们 在 北京 喝茶", "他们 在 上海 看海", "北京 的 茶 很 好"]


@pytest.fixture
def text(tmp_path):
    def write(lines):
        path = tmp_path / "text.txt"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write


def test_what_reads_a_real_bert_reads_it(text, tmp_path, capsys):
    """The text has words of two languages. Chinese words are split into characters, and none is unknown."""
    path = text(ENGLISH + CHINESE)
    assert script.main(["--text", str(path), "--output", str(tmp_path / "bert"), *TINY]) == 0
    bert = FrozenBert(str(tmp_path / "bert"))
    assert (bert.num_layers, bert.dim) == (3, 16)
    found = dict(bert.features([("tea", "北京"), ("Rome",)]))
    assert found[0].shape == (2, 3, 16)
    pieces = (tmp_path / "bert" / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert {"北", "京", "tea", "Rome"} <= set(pieces)
    assert "北京" not in pieces
    assert f"{len(pieces)} pieces" in capsys.readouterr().out


def test_an_uncased_one_reads_words_in_any_case_alike(text, tmp_path):
    path = text(ENGLISH)
    rows = {}
    for name, options in (("cased", []), ("uncased", ["--lowercase"])):
        assert script.main(["--text", str(path), "--output", str(tmp_path / name), *TINY, *options]) == 0
        found = dict(FrozenBert(str(tmp_path / name)).features([("Rome",), ("rome",)]))
        rows[name] = torch.from_numpy(found[0] - found[1]).abs().max()
    assert rows["uncased"] == 0 < rows["cased"]


def test_pretraining_lowers_the_loss_and_is_repeatable(text, tmp_path, capsys):
    """Two runs give identical bytes, although the library draws random numbers.

    The printed values are also recorded in a file.
    """
    arguments = ["--text", str(text(ENGLISH)), *TINY, "--updates", "60", "--lr", "0.01", "--output"]
    assert script.main([*arguments, str(tmp_path / "one")]) == script.main([*arguments, str(tmp_path / "two")]) == 0
    assert FrozenBert(str(tmp_path / "one")).digest == FrozenBert(str(tmp_path / "two")).digest
    facts = json.loads((tmp_path / "one" / "manifest.json").read_text(encoding="utf-8"))["pretraining"]
    assert facts["lines"] == 54 - 3
    assert facts["loss_after"] < facts["loss_before"] - 1
    losses = f"{facts['loss_before']:.3f} before, {facts['loss_after']:.3f} after"
    assert f"loss on 3 held-out lines: {losses}" in capsys.readouterr().out
    assert script.main([*arguments, str(tmp_path / "one")]) == 0
    assert "is complete already: nothing to do" in capsys.readouterr().out
    # an existing model is never overwritten
    assert script.main([*arguments, str(tmp_path / "one"), "--seed", "2"]) == 2


@pytest.mark.parametrize(
    ("rate", "largest", "message"),
    [
        ("1e30", 1.0, "--lr must be at most 1, but is 1e+30"),
        ("1e5", 1e9, "the pre-training diverged, so no file is written: lower --lr, which is 100000"),
    ],
)
def test_weights_that_are_not_finite_are_not_written(rate, largest, message, text, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(script, "LARGEST_RATE", largest)
    options = ["--text", str(text(ENGLISH)), "--output", str(tmp_path / "bert"), *TINY, "--updates", "3"]
    assert script.main([*options, "--lr", rate]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_as_many_pieces_are_hidden_as_bert_hides():
    """As in BERT, the model must guess 15 % of the word pieces.

    Of these pieces, 80 % are replaced by [MASK], 10 % stay unchanged, and 10 % become another piece. Special pieces
    never need to be guessed.
    """
    tokenizer = type("Tokenizer", (), {"pad_token_id": 0, "mask_token_id": 4, "__len__": lambda self: 1000})()
    lines = [[2, *range(10, 10 + length), 3] for length in (100, 40, 90)] * 400
    batch = script.masked_batch(lines, tokenizer, torch.Generator().manual_seed(1), "cpu")
    ids = torch.tensor([line + [0] * (102 - len(line)) for line in lines])
    inputs, labels = batch["input_ids"], batch["labels"]
    guessed = labels != -100
    assert torch.equal(labels[guessed], ids[guessed])
    assert torch.equal(inputs[~guessed], ids[~guessed])
    assert torch.equal(batch["attention_mask"].bool(), ids != 0)
    assert not (guessed & (ids < 5)).any()
    pieces = (ids >= 5).sum()
    assert float(guessed.sum() / pieces) == pytest.approx(0.15, abs=0.005)
    shares = [inputs[guessed].eq(4), inputs[guessed].eq(ids[guessed])]
    assert [float(share.float().mean()) for share in shares] == pytest.approx([0.8, 0.1], abs=0.01)
    others = inputs[guessed & (inputs != 4) & (inputs != ids)]
    assert int(others.min()) >= 5 and len(others.unique()) > 500


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["a b"], ["--heads", "3"], "--dim must be a multiple of --heads, but 16 is none of 3"),
        ([" "], [], "there is no word in the text"),
        (["a b"], ["--updates", "1"], "pre-training needs two lines of text at least"),
    ],
)
def test_what_cannot_be_is_one_sentence(text, tmp_path, capsys, lines, options, message):
    arguments = ["--text", str(text(lines)), "--output", str(tmp_path / "bert"), *TINY, *options]
    assert script.main(arguments) == 2
    assert f"make_tiny_bert: error: {message}" in capsys.readouterr().err
    assert not (tmp_path / "bert").exists()


def test_a_missing_text_is_named(tmp_path, capsys):
    assert script.main(["--text", str(tmp_path / "nowhere"), "--output", str(tmp_path / "bert")]) == 2
    assert "there is no file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", [("--dim", "10001"), ("--layers", "101"), ("--max-positions", "100001"), ("--lr", "nan"), ("--lr", "0")]
)
def test_sizes_that_no_bert_has_are_refused(text, tmp_path, capsys, option):
    with pytest.raises(SystemExit) as stopped:
        script.main(["--text", str(text(["a b"])), "--output", str(tmp_path / "bert"), *option])
    assert stopped.value.code == 2
    assert f"argument {option[0]}: '{option[1]}' is not a " in capsys.readouterr().err
