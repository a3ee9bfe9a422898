"""Use ``copy_transformer`` with a BERT through the real commands: training, resuming, exporting and Python."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from tests.integration.commands import ROOT, USER_DIR, Result, generate, preprocess, run, train, write_pairs
from tests.integration.test_bad_input import assert_one_sentence
from wean_fairseq import load
from wean_fairseq.errors import UserError

pytest.importorskip("transformers")

TASK = ["--user-dir", USER_DIR, "--task", "paraphrase"]
MODEL = [*TASK, "--arch", "copy_transformer", "--embed-dim", 16, "--ffn-dim", 16, "--attention-heads", 2]
MODEL += ["--encoder-layers", 1, "--decoder-layers", 1, "--criterion", "model_loss"]
FEW = ["--max-update", 3, "--no-epoch-checkpoints"]
LINES = [(f"do we like the {thing} ?", f"is the {thing} good ?") for thing in ("tea", "cat", "red hat", "old tea")] * 9


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    for split in ("train", "valid", "test"):
        write_pairs(folder / split, *zip(*(LINES if split == "train" else LINES[:3]), strict=True))
    preprocess(folder, folder / "data", "--dataset-impl", "raw")
    return folder / "data"


@pytest.fixture(scope="module")
def bert(data: Path) -> Path:
    folder = data.parent / "bert"
    arguments = ["--layers", 3, "--dim", 8, "--heads", 2, "--updates", 3, "--max-positions", 40]
    script = ROOT / "preprocess" / "make_tiny_bert.py"
    run("python", script, "--text", data.parent / "train.src", "--output", folder, *arguments)
    return folder


@pytest.fixture(scope="module")
def trained(data: Path, bert: Path) -> tuple[Path, Result]:
    """Train for three updates. Return the checkpoint and the result of the command."""
    result = train(data, data.parent / "run", "--bert", bert, *FEW, model=MODEL)
    return data.parent / "run" / "checkpoint_last.pt", result


@pytest.fixture(scope="module")
def exported(data: Path, trained: tuple[Path, Result]) -> Path:
    run("wean-export", trained[0], "--output", data.parent / "model")
    return data.parent / "model"


def test_bert_reads_each_split_once_and_a_training_continues(data: Path, bert: Path, trained: tuple[Path, Result]):
    """Test that a longer training resumes from update 3 and finds the stored features.

    It must end with the parameters of a training that runs all updates at once.
    """
    assert trained[1].out.count("BERT reads") == 2  # one message for train and one for valid
    assert torch.load(trained[0], weights_only=True)["cfg"]["task"]["bert"] == str(bert)
    more = ["--max-update", 6, "--no-epoch-checkpoints", "--bert", bert]
    resumed = shutil.copytree(trained[0].parent, data.parent / "resumed")
    train(data, resumed, *more, model=MODEL)
    train(data, data.parent / "at_once", *more, model=MODEL)
    found, expected = (
        torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]
        for folder in (resumed, data.parent / "at_once")
    )
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_all_ways_of_generation_write_the_same(data: Path, bert: Path, trained: tuple[Path, Result], exported: Path):
    """Test three commands with the checkpoint or the exported folder, and Python with both."""
    sources = (data.parent / "test.src").read_text(encoding="utf-8").splitlines()
    given = ["--bert", bert, "--max-len-a", 0, "--max-len-b", 9, "--beam", 3]
    scored = generate(data, trained[0], *given).hypotheses
    assert json.loads((exported / "config.json").read_text(encoding="utf-8"))["cfg"]["task"]["bert"] == str(bert)
    typed = run(
        *("fairseq-interactive", data, *TASK, "--path", exported, "--cpu", "--source-lang", "src"),
        *("--target-lang", "tgt", *given),
        stdin="".join(f"{line}\n" for line in sources),
    )
    assert typed.hypotheses == scored
    options = ["--max-len-a", 0, "--max-len-b", 9, "--beam", 3, "--bert", bert]
    printed = run("wean-generate", "--model", exported, *options, stdin="".join(f"{line}\n" for line in sources))
    assert printed.out.splitlines() == [scored[number] for number in range(len(sources))]
    written = load(exported).generate(sources, max_len_a=0.0, max_len_b=9, beam=3)
    assert written == printed.out.splitlines()
    assert load(trained[0]).generate(sources, max_len_a=0.0, max_len_b=9, beam=3) == written


def test_a_model_without_its_bert_is_refused(data: Path, bert: Path, trained: tuple[Path, Result], exported: Path):
    other = shutil.copytree(bert, data.parent / "other")
    (other / "special_tokens_map.json").write_text("{}", encoding="utf-8")
    assert_one_sentence(generate(data, trained[0], "--bert", other, expect_success=False), "BERT of SHA-256")
    assert_one_sentence(generate(data, trained[0], expect_success=False), "was trained with --bert DIR: give --bert")
    with pytest.raises(UserError, match="there is no BERT directory 'nowhere'"):
        load(exported, bert="nowhere")


def test_archs_that_read_no_bert_are_refused(data: Path, bert: Path, tmp_path: Path):
    refused = train(data, tmp_path, "--bert", bert, *FEW, expect_success=False)
    assert_one_sentence(refused, "--bert is for archs that read its features, and wean_lstm does not")
