"""Test vectors that are learnt from text: the task can read them, and neighbours are similar."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary

from wean_fairseq.data.word_vectors import load_word_vectors

pytest.importorskip("gensim")

import word_vectors as script

PREPROCESS = Path(__file__).resolve().parents[3] / "preprocess"
# Words of the same kind share their contexts, because people drink drinks and travel to towns.
DRINKS, TOWNS = ["tea", "milk", "juice"], ["rome", "oslo", "北京"]
LINES = [f"she likes to drink warm {drink} at home" for drink in DRINKS]
LINES += [f"he will travel by train to {town} in spring" for town in TOWNS]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in LINES * 60) + "rare\n\n", encoding="utf-8")
    return path


def test_vectors_are_read_back_and_mean_something(text, tmp_path, capsys):
    assert script.main(["--text", str(text), "--output", str(tmp_path / "out"), "--dim", "12", "--epochs", "60"]) == 0
    dictionary = Dictionary()
    for word in [*DRINKS, *TOWNS, "rare"]:
        dictionary.add_symbol(word)
    matrix, found = load_word_vectors(str(tmp_path / "out" / "vectors.txt"), dictionary, 12)
    assert found.tolist() == [False] * 4 + [True] * 6 + [False]  # `rare` occurs once, and --min-count is 2
    unit = torch.nn.functional.normalize(matrix[4:10], dim=1)
    cosines = unit @ unit.T
    same = (cosines[:3, :3].sum() + cosines[3:, 3:].sum() - 6) / 12
    assert same > cosines[:3, 3:].mean() + 0.3
    said = f"word_vectors: wrote 20 words of 12 numbers to {tmp_path / 'out'}, from 3,061 words"
    assert said in capsys.readouterr().out


def test_vectors_that_are_not_finite_are_not_written(text, tmp_path, capsys, monkeypatch):
    def diverge(model, *_, **__):
        model.wv.vectors[3, 1] = float("nan")

    monkeypatch.setattr("gensim.models.Word2Vec.train", diverge)
    assert script.main(["--text", str(text), "--output", str(tmp_path / "out"), "--dim", "12"]) == 2
    assert "the training diverged, so no vectors are written" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_same_options_give_the_same_bytes(text, tmp_path):
    """The two processes have different hash seeds. Another seed gives other bytes."""
    content = []
    for number, seed in ((1, 5), (2, 5), (3, 6)):
        output = tmp_path / f"out{number}"
        done = subprocess.run(
            [sys.executable, PREPROCESS / "word_vectors.py", "--text", text, "--output", output]
            + ["--dim", "8", "--seed", str(seed), "--epochs", "2"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": str(number)},
        )
        assert done.returncode == 0, done.stderr
        content.append((output / "vectors.txt").read_bytes())
    assert content[0] == content[1] != content[2]
    manifest = json.loads((tmp_path / "out1" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["vocabulary"] == 20
    assert manifest["sources"][0]["file"] == "text.txt"


def test_a_second_run_has_nothing_to_do(text, tmp_path, capsys):
    arguments = ["--text", str(text), "--output", str(tmp_path / "out"), "--dim", "4", "--epochs", "1"]
    assert script.main(arguments) == script.main(arguments) == 0
    assert "is complete already: nothing to do" in capsys.readouterr().out
    text.write_text("other text other text\n", encoding="utf-8")
    assert script.main(arguments) == 2
    assert "pass --overwrite" in capsys.readouterr().err


def test_words_that_are_all_too_rare_are_one_sentence(text, tmp_path, capsys):
    arguments = ["--text", str(text), "--output", str(tmp_path / "out"), "--min-count", "10000"]
    assert script.main(arguments) == 2
    assert "no word of the text is seen 10000 times: lower --min-count." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_missing_library_is_named(text, tmp_path, capsys, monkeypatch):
    def missing(name):
        raise script_metadata.PackageNotFoundError(name)

    from importlib import metadata as script_metadata

    monkeypatch.setattr("wean_fairseq.optional.metadata.version", missing)
    assert script.main(["--text", str(text), "--output", str(tmp_path / "out")]) == 2
    assert "this needs gensim, which is not installed: pip install 'wean-fairseq[vectors]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"), [("dim", "10001"), ("dim", "100000000"), ("window", "1001"), ("negative", "1001")]
)
def test_sizes_that_no_vectors_have_are_refused(text, tmp_path, capsys, option, value):
    """Without this check, gensim would need terabytes for a width of a hundred million, and raise a traceback."""
    with pytest.raises(SystemExit) as stopped:
        script.main(["--text", str(text), "--output", str(tmp_path / "out"), f"--{option}", value])
    assert stopped.value.code == 2
    assert f"argument --{option}: '{value}' is not a whole number of 1 to " in capsys.readouterr().err


def test_a_lack_of_memory_is_one_sentence(text, tmp_path, capsys, monkeypatch):
    def fail(*_arguments, **_options):
        raise MemoryError("Unable to allocate 7.08 GiB")

    monkeypatch.setattr("gensim.models.Word2Vec.build_vocab", fail)
    assert script.main(["--text", str(text), "--output", str(tmp_path / "out")]) == 2
    assert "word_vectors: error: there is not enough memory (Unable to allocate 7.08 GiB)" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
