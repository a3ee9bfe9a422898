"""Run the task ``topic_essay`` with the real commands.

The models are a stock arch, PC-SAN with a BERT created from the text, and MTA-LSTM.
"""

import random
import shutil
from pathlib import Path

import pytest
import torch

from tests.integration.commands import ROOT, USER_DIR, Result, generate, preprocess, run, train, write_pairs
from tests.integration.test_bad_input import assert_one_sentence

pytest.importorskip("transformers")

TASK = ["--user-dir", USER_DIR, "--task", "topic_essay"]
SIZES = ["--dropout", 0.1, "--criterion"]
STOCK = [*TASK, "--arch", "transformer", "--encoder-layers", 1, "--decoder-layers", 1, "--share-all-embeddings"]
STOCK += ["--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16, "--encoder-attention-heads", 2]
STOCK += ["--decoder-attention-heads", 2, *SIZES, "cross_entropy"]
PC_SAN = [*TASK, "--arch", "pc_san", "--decoder-layers", 2, "--embed-dim", 16, "--ffn-dim", 16]
PC_SAN += ["--attention-heads", 2, *SIZES, "model_loss"]
MTA_LSTM = [*TASK, "--arch", "mta_lstm", "--embed-dim", 12, "--hidden-size", 16, *SIZES, "model_loss"]
FEW = ["--max-update", 3, "--no-epoch-checkpoints"]
WORDS = [f"topic{number}" for number in range(12)]
NOVEL = "novelty"  # this word occurs only in the test topics, so it is not in the dictionary


def essays(number: int, seed: int) -> tuple[list[str], list[str]]:
    """Return lists of topics, and essays that have a clause about each topic."""
    chance = random.Random(seed)
    topics = [chance.sample(WORDS, chance.randint(1, 5)) for _ in range(number)]
    return [" ".join(line) for line in topics], [" ".join(f"we like {word} ," for word in line) for line in topics]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with {train,valid,test}.{src,tgt}."""
    folder = tmp_path_factory.mktemp("essays")
    for seed, (split, size) in enumerate({"train": 40, "valid": 11, "test": 9}.items()):
        topics, texts = essays(size, seed)
        if split == "test":
            topics[0] += f" {NOVEL}" if topics[0].count(" ") < 4 else ""
            topics[1] = f"topic3 {NOVEL}"
        write_pairs(folder / split, topics, texts)
    return folder


@pytest.fixture(scope="module")
def essay_data(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return data in text form (`--dataset-impl raw`), so that BERT can read words that are not in the dictionary."""
    folder = tmp_path_factory.mktemp("data") / "raw"
    preprocess(plain, folder, "--dataset-impl", "raw")
    return folder


@pytest.fixture(scope="module")
def bert(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a BERT from the essays with ``make_tiny_bert.py``, and pre-train it briefly."""
    folder = tmp_path_factory.mktemp("bert") / "tiny"
    arguments = ["--layers", 3, "--dim", 8, "--heads", 2, "--updates", 3, "--max-positions", 40]
    script = ROOT / "preprocess" / "make_tiny_bert.py"
    run("python", script, "--text", plain / "train.tgt", "--output", folder, *arguments)
    return folder


@pytest.fixture(scope="module")
def pc_san(essay_data: Path, bert: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Train a PC-SAN for three updates. Return the checkpoint and the result of the command."""
    folder = tmp_path_factory.mktemp("pc_san")
    result = train(essay_data, folder, "--bert", bert, *FEW, model=PC_SAN)
    return folder / "checkpoint_last.pt", result


def interactive(data: Path, checkpoint: Path, lines: list[str], *arguments: object, **kwargs: object) -> Result:
    return run(
        *("fairseq-interactive", data, *TASK, "--path", checkpoint, "--cpu", "--source-lang", "src"),
        *("--target-lang", "tgt", "--beam", 2, "--max-len-b", 5, *arguments),
        stdin="".join(f"{line}\n" for line in lines),
        **kwargs,
    )


def write_essays(data: Path, bert: Path | None, checkpoint: Path, *arguments: object, **kwargs: object) -> Result:
    given = [] if bert is None else ["--bert", bert]
    return generate(data, checkpoint, *given, *arguments, task="topic_essay", **kwargs)


def test_a_stock_arch_trains_and_writes(plain: Path, tmp_path: Path):
    """Test a stock arch on binary data, with 9 lines of topics for 9 essays. The task needs no option."""
    preprocess(plain, tmp_path / "data")
    result = train(tmp_path / "data", tmp_path / "run", *FEW, model=STOCK)
    assert "topic words" not in result.out  # all words of train and valid are known
    checkpoint = tmp_path / "run" / "checkpoint_last.pt"
    written = write_essays(tmp_path / "data", None, checkpoint)
    assert len(written.hypotheses) == 9
    # fairseq-generate logs to standard error, but fairseq-train does not
    assert "are not in the dictionary" in written.err
    assert len(interactive(tmp_path / "data", checkpoint, ["topic1 topic2", "topic3"]).hypotheses) == 2


def test_bert_is_no_part_of_the_checkpoint(pc_san: tuple[Path, Result], bert: Path):
    """Test that the checkpoint has the digest and the path of the BERT, but no tensor of the size of its weights."""
    from wean_fairseq.data.bert_features import FrozenBert

    state = torch.load(pc_san[0], weights_only=True)
    assert str(state["cfg"]["task"]["bert"]) == str(bert)
    assert state["model"]["encoder.bert_states.digest"].tolist() == list(bytes.fromhex(FrozenBert(str(bert)).digest))
    assert not [name for name in state["model"] if "word_embeddings" in name or "intermediate" in name]


def test_bert_reads_each_split_once(essay_data: Path, bert: Path, pc_san: tuple[Path, Result], tmp_path: Path):
    """Test that a second training finds the stored features.

    Therefore the second training needs neither transformers nor the memory for a BERT.
    """
    assert pc_san[1].out.count("BERT reads") == 2  # one message for train and one for valid
    kept = [path for path in (essay_data / "bert-features").iterdir() if path.is_dir()]
    assert len(kept) >= 2
    again = train(essay_data, tmp_path, "--bert", bert, *FEW, model=PC_SAN)
    assert "BERT reads" not in again.out
    assert again.logged("loss") == pc_san[1].logged("loss")


def test_pc_san_writes_the_same_from_kept_and_fresh_features(
    essay_data: Path, plain: Path, bert: Path, pc_san: tuple[Path, Result]
):
    """Compare fairseq-generate, which reads stored features, with fairseq-interactive, which runs BERT."""
    written = write_essays(essay_data, bert, pc_san[0], "--max-len-a", 0)
    topics = (plain / "test.src").read_text(encoding="utf-8").splitlines()
    assert len(written.hypotheses) == len(topics) == 9
    typed = interactive(essay_data, pc_san[0], topics, "--bert", bert, "--beam", 3, "--max-len-b", 4)
    for (number, score, text), (other, typed_score, typed_text) in zip(
        written.scored_hypotheses, typed.scored_hypotheses, strict=True
    ):
        assert (number, text) == (other, typed_text)
        assert score == pytest.approx(typed_score, abs=2e-3)


def test_bert_reads_words_that_the_dictionary_has_not(essay_data: Path, bert: Path, pc_san: tuple[Path, Result]):
    """Test that two unknown words lead to two scores, although both are ``<unk>`` for the dictionary."""
    typed = interactive(essay_data, pc_san[0], ["topic1 we", "topic1 likely"], "--bert", bert)
    same = interactive(essay_data, pc_san[0], ["topic1 likely", "topic1 likely"], "--bert", bert)
    assert len({score for _, score, _ in same.scored_hypotheses}) == 1
    assert len({score for _, score, _ in typed.scored_hypotheses}) == 2


def test_another_bert_is_refused(essay_data: Path, bert: Path, pc_san: tuple[Path, Result], tmp_path: Path):
    other = shutil.copytree(bert, tmp_path / "other")
    (other / "vocab.txt").write_text("another tokenizer\n", encoding="utf-8")
    (other / "manifest.json").unlink()  # otherwise, the changed file is refused first
    assert_one_sentence(write_essays(essay_data, other, pc_san[0], expect_success=False), "BERT")
    assert_one_sentence(write_essays(essay_data, None, pc_san[0], expect_success=False), "--bert")


def test_mta_lstm_is_told_how_much_to_write(essay_data: Path, tmp_path: Path):
    train(essay_data, tmp_path, *FEW, model=MTA_LSTM)
    checkpoint = tmp_path / "checkpoint_last.pt"
    assert_one_sentence(write_essays(essay_data, None, checkpoint, expect_success=False), "--essay-length N")
    assert len(write_essays(essay_data, None, checkpoint, "--essay-length", 12).hypotheses) == 9
    assert len(interactive(essay_data, checkpoint, ["topic1"], "--essay-length", 12).hypotheses) == 1


@pytest.mark.parametrize(
    ("lines", "arguments", "expected"),
    [
        (("topic1 topic2 topic3 topic4 topic5 topic6", "a b"), [], "train has 1 line(s) with more than 5 topics"),
        (("topic1", "we like topic1 , </d> topic1"), [], "train has 1 essay(s) with </d> (line 41)"),
        (("", "a b"), [], "1 empty line(s) (line 41)"),
        (("topic1", "a b"), ["--bert", "nowhere"], "there is no BERT directory 'nowhere'"),
        (("topic1", "a b"), ["--bert", "{bert}"], "--bert is for archs that read its features"),
    ],
    ids=["more topics", "released format", "no topic", "no BERT", "no reader"],
)
def test_what_a_user_gets_wrong_is_one_sentence(
    essay_data: Path, bert: Path, tmp_path: Path, lines, arguments, expected
):
    left_out = shutil.ignore_patterns("bert-features", "checksums.sha256")
    data = shutil.copytree(essay_data, tmp_path / "data", ignore=left_out)
    for side, line in zip(("src", "tgt"), lines, strict=True):
        with (data / f"train.src-tgt.{side}").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    arguments = [str(bert) if argument == "{bert}" else argument for argument in arguments]
    result = train(data, tmp_path / "run", *FEW, *arguments, model=STOCK, expect_success=False)
    assert_one_sentence(result, expected)


def test_vectors_of_another_width_are_one_sentence(essay_data: Path, bert: Path, tmp_path: Path):
    (tmp_path / "vectors.txt").write_text("topic1 1 2 3\n", encoding="utf-8")
    vectors = ["--bert", bert, "--topic-vectors", tmp_path / "vectors.txt"]
    result = train(essay_data, tmp_path / "run", *FEW, *vectors, model=PC_SAN, expect_success=False)
    assert_one_sentence(result, "has vectors of width 3, but the model's embeddings are 16 wide")
