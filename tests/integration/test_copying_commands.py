"""Test with the real commands (train, generate, interactive) that words never seen in training are copied."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.integration.commands import (
    ROOT,
    TASK,
    USER_DIR,
    Result,
    generate,
    paraphrase,
    random_sentences,
    run,
    train,
    with_names,
)
from tests.integration.test_bad_input import assert_one_sentence, refused_training

SMALL = ["--embed-dim", "32", "--hidden-size", "48"]
COPYNET = ["--user-dir", USER_DIR, "--arch", "copynet", "--criterion", "model_loss", *TASK]


@pytest.fixture(scope="module")
def copied(text_data: Path, copying: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """Return the result of decoding the test split, and the file with its copy provenance."""
    provenance = tmp_path_factory.mktemp("provenance") / "copied.jsonl"
    result = generate(text_data, copying, "--copy-provenance", provenance, "--search-preset", "copynet")
    return result, provenance


def interactive(data: Path, checkpoint: Path, lines: list[str], *arguments: object) -> Result:
    return run(
        *("fairseq-interactive", data, "--user-dir", USER_DIR, *TASK, "--path", checkpoint, "--cpu"),
        *("--source-lang", "src", "--target-lang", "tgt", "--beam", "3", *arguments),
        stdin="".join(f"{line}\n" for line in lines),
    )


def test_names_never_seen_in_training_come_out_right(copied: tuple[Result, Path], text: Path):
    """Test that most outputs are correct, also for the 20 of 60 test sentences with a unique name."""
    sources = (text / "test.src").read_text(encoding="utf-8").splitlines()
    outputs = copied[0].hypotheses
    assert sorted(outputs) == list(range(60))
    right = [outputs[number] == paraphrase(source) for number, source in enumerate(sources)]
    with_name = [good for good, source in zip(right, sources, strict=True) if "Name" in source]
    assert len(with_name) == 20
    assert sum(with_name) >= 18
    assert sum(right) >= 54


def test_sources_and_references_are_printed_with_their_words(copied: tuple[Result, Path], text: Path):
    result, _ = copied
    for tag, side in (("S", "src"), ("T", "tgt")):
        lines = (text / f"test.{side}").read_text(encoding="utf-8").splitlines()
        printed = dict(line.split("\t")[:2] for line in result.out.splitlines() if line.startswith(f"{tag}-"))
        assert printed == {f"{tag}-{number}": line for number, line in enumerate(lines)}
    assert "<oov" not in result.out
    assert "<unk>" not in result.out


def test_an_invented_name_typed_into_interactive_comes_out(text_data: Path, copying: Path):
    lines = ["kept1 Zorblax Quimby kept5", "said2 kept3 Zorblax", "kept4 <oov-0> said1"]
    result = interactive(text_data, copying, lines)
    assert result.hypotheses == dict(enumerate(map(paraphrase, lines))), result.describe()


def test_unknown_pieces_of_a_word_are_copied_and_joined(text_data: Path, copying: Path):
    """With BPE, the pieces of an unknown word are copied and joined into one word."""
    result = interactive(text_data, copying, ["kept1 Zor@@ blax kept5"], "--post-process", "subword_nmt")
    detokenised = re.findall(r"^D-0\t\S+\t(.*)$", result.out, flags=re.MULTILINE)
    assert detokenised == ["kept1 Zorblax kept5"], result.describe()


def test_more_names_than_slots_leave_unk(text_data: Path, copying: Path):
    result = interactive(text_data, copying, ["Zorblax kept1 Quimby"], "--oov-slots", 1)
    assert result.hypotheses[0].split()[:2] == ["Zorblax", "kept1"]
    assert "Quimby" not in result.hypotheses[0]


def test_provenance_says_which_words_were_copied_from_where(copied: tuple[Result, Path]):
    result, provenance = copied
    entries = {entry["id"]: entry for entry in map(json.loads, provenance.read_text(encoding="utf-8").splitlines())}
    assert sorted(entries) == list(range(60))
    names = 0
    for number, entry in entries.items():
        words = [step["word"] for step in entry["output"]]
        assert " ".join(words[:-1]) == result.hypotheses[number]
        assert words[-1] == "</s>"
        for step in entry["output"]:
            if step["word"].startswith("Name"):
                names += 1
                assert step["copied"] == 1.0  # this word cannot be generated
                place = max(step["positions"], key=step["positions"].get)
                assert entry["source"][int(place)] == step["word"]
    assert names >= 18


def test_provenance_overwrites_nothing(text_data: Path, copying: Path, copied: tuple[Result, Path]):
    before = copied[1].read_bytes()
    result = generate(text_data, copying, "--copy-provenance", copied[1], expect_success=False)
    assert_one_sentence(result, str(copied[1]), "exists already")
    assert copied[1].read_bytes() == before


def test_provenance_needs_a_directory(text_data: Path, copying: Path, tmp_path: Path):
    result = generate(text_data, copying, "--copy-provenance", tmp_path / "no" / "x", expect_success=False)
    assert_one_sentence(result, "there is no directory")


def test_validation_by_bleu_counts_copied_words_as_words(text_data: Path, copying: Path, tmp_path: Path):
    """Test that a model that writes nearly every sentence correctly has a BLEU near 100.

    This would be impossible if slots counted as words.
    """
    best = ["--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 12}', "--eval-tokenized-bleu"]
    shutil.copy(copying, tmp_path / "checkpoint_last.pt")
    arguments = ["--reset-lr-scheduler", "--reset-optimizer", "--reset-dataloader", "--reset-meters"]
    result = train(text_data, tmp_path, "--lr", 1e-6, "--max-epoch", 1, *best, *arguments, model=[*COPYNET, *SMALL])
    assert result.logged("valid_bleu")[-1] > 90


def test_interactive_replace_unk_knows_the_typed_word(raw_data: Path, checkpoint: Path):
    """Test that fairseq replaces <unk> by the typed word with the most attention if the model does not copy."""
    result = interactive(raw_data, checkpoint, ["kept1 Zorblax kept5"], "--replace-unk")
    assert result.hypotheses[0] == "kept1 Zorblax kept5", result.describe()


@pytest.mark.parametrize("arguments", [["--oov-slots", 5], ["--copy-provenance", "x.jsonl"], ["--copy-fold-case"]])
def test_options_of_copying_are_refused_where_nothing_copies(text_data: Path, tmp_path, arguments):
    result = refused_training(text_data, tmp_path / "out", *arguments, "--lr", 0.001)
    assert_one_sentence(result, f"{arguments[0]} is for archs that copy words")
    assert not (ROOT / "x.jsonl").exists()


def test_binary_data_with_unknown_words_gets_a_warning(data: Path, tmp_path: Path):
    result = train(data, tmp_path, "--lr", 0.001, "--max-update", 1, model=[*COPYNET, *SMALL])
    assert "--dataset-impl raw" in result.out + result.err


def test_smoothing_over_slots_is_refused(text_data: Path, tmp_path: Path):
    model = [*COPYNET, *SMALL, "--criterion", "label_smoothed_cross_entropy"]
    result = refused_training(text_data, tmp_path / "out", "--lr", 0.001, model=model)
    assert_one_sentence(result, "--criterion model_loss --label-smoothing")


def test_a_sentence_that_is_too_long_is_one_sentence(text_data: Path, copying: Path):
    result = generate(text_data, copying, "--max-source-positions", 6, expect_success=False)
    assert_one_sentence(result, "longer than this model takes", "--length-policy truncate")


def test_two_dictionaries_are_refused(text: Path, tmp_path: Path):
    run(
        *("fairseq-preprocess", "--source-lang", "src", "--target-lang", "tgt", "--dataset-impl", "raw"),
        *("--trainpref", text / "train", "--validpref", text / "valid", "--destdir", tmp_path / "bin"),
    )
    result = refused_training(tmp_path / "bin", tmp_path / "out", "--lr", 0.001, model=[*COPYNET, *SMALL])
    assert_one_sentence(result, "two dictionaries", "--joined-dictionary")


def test_an_ordinary_sentence_decodes_the_same_alone_and_among_others(text_data: Path, copying: Path):
    lines = with_names(random_sentences(6, seed=41), seed=41)
    together = interactive(text_data, copying, lines, "--buffer-size", 6, "--batch-size", 6).hypotheses
    alone = interactive(text_data, copying, lines).hypotheses
    assert together == alone
