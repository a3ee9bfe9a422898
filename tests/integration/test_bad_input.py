"""If the user makes a mistake, a command ends with one sentence that names it, and without a traceback."""

import re
import shutil
from pathlib import Path

import pytest

from tests.integration.commands import TASK, TINY, USER_DIR, WEAN, Result, generate, preprocess, run, train, write_pairs


def assert_one_sentence(result: Result, *expected: str) -> None:
    """Assert that the command has failed with one error sentence, which contains all texts in ``expected``."""
    assert result.code not in (0, None), result.describe()
    assert "Traceback" not in result.err, result.describe()
    said = re.findall(r"^wean_fairseq: error: (.*)$", result.err, flags=re.MULTILINE)
    assert len(said) == 1, result.describe()
    assert said[0].endswith("."), said
    assert all(text in said[0] for text in expected), said


def refused_training(data: Path, save_dir: Path, *arguments: object, model: list[str] | None = None) -> Result:
    result = train(data, save_dir, *arguments, "--max-update", 2, model=model, expect_success=False)
    assert not list(save_dir.glob("checkpoint*.pt"))
    return result


def test_a_missing_option_of_a_tokenizer_does_not_print_all_options(data, checkpoint):
    """fairseq logs all options, about 10,000 characters, before it raises the error."""
    options = ["--user-dir", USER_DIR, *TASK, "--path", checkpoint, "--cpu", "--tokenizer", "moses"]
    result = run("fairseq-generate", data, *options, expect_success=False)
    assert_one_sentence(result, "tokenizer.source_lang=null")
    assert max(map(len, result.err.splitlines())) < 1000


def test_typed_bytes_that_are_no_text(data, checkpoint, tmp_path):
    (tmp_path / "typed").write_bytes(b"kept1\nkept2 \xff\n")
    options = ["--user-dir", USER_DIR, *TASK, "--path", checkpoint, "--cpu", "--input", tmp_path / "typed"]
    result = run("fairseq-interactive", data, *options, expect_success=False)
    assert_one_sentence(result, f"line 2 of {tmp_path / 'typed'} is not UTF-8")
    assert "\nH-0\t" in result.out


# --- data -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bad_text(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write text in which ``valid`` lacks a target and ``test`` has an empty second line on the source side."""
    folder = tmp_path_factory.mktemp("bad_text")
    for language in ("src", "tgt"):
        shutil.copy(text / f"train.{language}", folder)
    write_pairs(folder / "valid", ["kept1 kept2", "kept3 kept4", "kept5"], ["kept1 kept2", "kept3 kept4"])
    write_pairs(folder / "test", ["kept1 kept2", "", "kept5"], ["kept1 kept2", "kept3 kept4", "kept5"])
    return folder


@pytest.fixture(scope="module")
def bad_data(bad_text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data that fairseq-preprocess creates from ``bad_text`` without an error."""
    folder = tmp_path_factory.mktemp("bad_data") / "bin"
    preprocess(bad_text, folder, "--thresholdsrc", 3)
    return folder


def raw_copy(bad_text: Path, bad_data: Path, folder: Path) -> Path:
    for language in ("src", "tgt"):
        shutil.copy(bad_data / f"dict.{language}.txt", folder)
        for split in ("valid", "test"):
            shutil.copy(bad_text / f"{split}.{language}", folder / f"{split}.src-tgt.{language}")
    return folder


def test_missing_data_directory(tmp_path):
    missing = tmp_path / "no-such-data"
    assert_one_sentence(refused_training(missing, tmp_path / "out"), str(missing), "fairseq-preprocess")


def test_missing_split(data, checkpoint):
    result = generate(data, checkpoint, "--gen-subset", "tset", expect_success=False)
    assert_one_sentence(result, str(data), "'tset'", "test, train, valid")


def test_missing_dictionary(data, tmp_path):
    broken = tmp_path / "bin"
    shutil.copytree(data, broken)
    (broken / "dict.tgt.txt").unlink()
    assert_one_sentence(refused_training(broken, tmp_path / "out"), str(broken), "dict.tgt.txt")


def test_sides_of_different_length(bad_data, tmp_path):
    result = refused_training(bad_data, tmp_path / "out")
    assert_one_sentence(result, "valid.src-tgt.src has 3 lines", "valid.src-tgt.tgt has 2 lines")


def test_empty_line(bad_data, tmp_path):
    result = refused_training(bad_data, tmp_path / "out", "--valid-subset", "test")
    assert_one_sentence(result, "test.src-tgt.src", "line 2", "--keep-empty-lines")


@pytest.mark.parametrize(
    ("split", "expected"),
    [("valid", ["valid.src-tgt.src", "3 lines", "2 lines"]), ("test", ["test.src-tgt.src", "line 2"])],
    ids=["different_length", "empty_line"],
)
def test_raw_text_is_checked_too(bad_text, bad_data, checkpoint, tmp_path, split, expected):
    folder = raw_copy(bad_text, bad_data, tmp_path)
    raw = ["--source-lang", "src", "--target-lang", "tgt", "--dataset-impl", "raw", "--gen-subset", split]
    assert_one_sentence(generate(folder, checkpoint, *raw, expect_success=False), *expected)


def test_two_dictionaries(data, tmp_path):
    apart = tmp_path / "bin"
    shutil.copytree(data, apart)
    entries = (apart / "dict.tgt.txt").read_text(encoding="utf-8").splitlines()
    (apart / "dict.tgt.txt").write_text("\n".join([*entries[:-1], "elsewhere 1", ""]), encoding="utf-8")
    result = refused_training(apart, tmp_path / "out", model=[*WEAN, *TINY, "--task", "translation"])
    assert_one_sentence(result, "--joined-dictionary")


# --- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--query-score", "dot", "--hidden-size", 24], ["dot", "24", "16"]),
        (["--num-candidates", 100000], ["100000", "--num-candidates"]),
        (["--left-pad-target"], ["--left-pad-target"]),
        (["--label-smoothing", 1.5], ["--label-smoothing", "1.5"]),
        (["--decoder-layers", 3], ["bridge", "3", "linear"]),
    ],
    ids=lambda value: str(value[0]).strip("-"),
)
def test_option_that_cannot_be(data, tmp_path, options, expected):
    assert_one_sentence(refused_training(data, tmp_path, *options), *expected)


def test_unknown_query_score(data, tmp_path):
    result = refused_training(data, tmp_path, "--query-score", "cosine")
    # The command-line parser checks the choices, so it reports this error.
    assert result.code != 0
    assert "Traceback" not in result.err
    said = result.err.strip().splitlines()[-1]
    assert all(text in said for text in ("--query-score", "cosine", "dot", "general", "concat", "linear")), said


def test_criterion_with_a_model_it_does_not_know(data, tmp_path):
    lstm = ["--user-dir", USER_DIR, *TASK, "--arch", "lstm", "--criterion", "query_embedding"]
    small = ["--encoder-embed-dim", "16", "--decoder-embed-dim", "16", "--encoder-hidden-size", "16"]
    small += ["--decoder-hidden-size", "16", "--decoder-out-embed-dim", "16"]
    assert_one_sentence(
        refused_training(data, tmp_path, model=[*lstm, *small]), "query_embedding", "--criterion cross_entropy"
    )


def test_search_that_contradicts_the_preset(data, checkpoint):
    result = generate(data, checkpoint, "--search-preset", "wean", "--lenpen", 0.6, expect_success=False)
    assert_one_sentence(result, "--lenpen 0.6", "--search-preset wean")
