"""Run preprocess, train, validate, generate and interactive as real commands, on a task whose answers are known."""

import gzip
import re
import subprocess
from pathlib import Path

import pytest
import torch

from tests.integration.commands import (
    ENVIRONMENT,
    TASK,
    TINY,
    USER_DIR,
    Result,
    command_line,
    generate,
    needed_globals,
    parameters,
    paraphrase,
    run,
    train,
)
from tests.integration.test_bad_input import assert_one_sentence

SGD = ["--optimizer", "sgd", "--lr", 0.5, "--max-update", 1, "--log-interval", 1, "--dropout", 0.0]


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def share_of_right(hypotheses: dict[int, str], expected: list[str]) -> float:
    return sum(hypotheses[number] == sentence for number, sentence in enumerate(expected)) / len(expected)


def names_in(sentence: str) -> list[str]:
    return re.findall(r"Name\w+", sentence)


def unknown_as_unk(sentence: str) -> str:
    return re.sub(r"Name\w+", "<unk>", sentence)


# --- training and use of the trained model --------------------------------------------------------------------------


def test_stock_translation_as_users_first_call_it(data, tmp_path):
    first_call = ["--user-dir", USER_DIR, "--arch", "wean_lstm", "--criterion", "query_embedding"]
    small = ["--max-epoch", 2, "--lr", 0.005, "--batch-size", 64, "--save-dir", tmp_path, "--log-format", "json"]
    result = run("fairseq-train", data, *first_call, *TINY, "--optimizer", "adam", "--cpu", *small)
    first, last = result.logged("valid_loss")
    assert last < first
    names = {path.name for path in tmp_path.iterdir()}
    checkpoints = {"checkpoint1.pt", "checkpoint2.pt", "checkpoint_best.pt", "checkpoint_last.pt"}
    assert names == {*checkpoints, "checksums.sha256", ".training.lock"}
    assert needed_globals(tmp_path / "checkpoint_best.pt") == set()
    every = ["--required-batch-size-multiple", 1]  # otherwise, stock fairseq leaves out sentences
    decoded = generate(data, tmp_path / "checkpoint_best.pt", *every, task="translation")
    assert sorted(decoded.hypotheses) == list(range(60))


def test_training_learns_the_data(training):
    _, result = training
    # All words are predictable, so only <unk> causes a loss. A uniform guess would cost log2(47 words) = 5.6.
    assert result.logged("valid_loss")[-1] < 0.2


def test_training_is_quiet(training):
    """Test that a training hides the warnings that fairseq prints in every run and that users cannot avoid."""
    assert "Warning" not in training[1].err


def test_validate_gives_the_loss_that_training_gave(data, checkpoint, training):
    common = ["--user-dir", USER_DIR, *TASK, "--path", checkpoint, "--cpu", "--batch-size", 32]
    result = run("fairseq-validate", data, *common, "--valid-subset", "valid", "--log-format", "json")
    assert result.logged("valid_loss") == [min(training[1].logged("valid_loss"))]


def test_every_source_gets_a_hypothesis(text, generated):
    expected = [unknown_as_unk(sentence) for sentence in lines(text / "test.tgt")]
    assert [number for number, _, _ in generated.scored_hypotheses] == list(range(60))
    assert share_of_right(generated.hypotheses, expected) > 0.9


def test_interactive_answers_piped_lines(text, generated, data, checkpoint):
    sources = lines(text / "test.src")[:3]
    assert "Name" in sources[0]  # text that a user types may contain unknown words, too
    typed = [*sources, "kept1 nonsense said2 kept3", "kept1\rsaid2\u2028kept3\x85kept4", "", "\ufeffkept1"]
    options = ["--user-dir", USER_DIR, *TASK, "--path", checkpoint, "--cpu", "--beam", 3, "--max-len-a", 1]
    options += ["--max-len-b", 4, "--buffer-size", 4, "--batch-size", 4]
    result = run("fairseq-interactive", data, *options, stdin="\ufeff" + "".join(f"{line}\n" for line in typed))
    assert [result.hypotheses[number] for number in range(3)] == [generated.hypotheses[number] for number in range(3)]
    assert result.hypotheses[3] == paraphrase("kept1 <unk> said2 kept3")
    # Characters that other programs treat as line ends are not line ends here, so every line has its answer.
    assert list(result.hypotheses) == list(range(len(typed)))
    assert "\nS-4\tkept1 said2 kept3 kept4\n" in result.out


def test_the_set_up_makes_the_plugin_known_in_every_folder(tmp_path):
    """Test that fairseq finds the installed plugin and prints its options without the checkout on the module path."""
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"}
    line = command_line("fairseq-train", "--user-dir", "wean_fairseq", "--arch", "wean_lstm", "--help")
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--arch wean_lstm:" in done.stdout


# --- search ---------------------------------------------------------------------------------------------------------


def test_replace_unk_puts_back_the_attended_source_word(text, raw_data, checkpoint):
    raw = ["--source-lang", "src", "--target-lang", "tgt", "--dataset-impl", "raw", "--replace-unk"]
    hypotheses = generate(raw_data, checkpoint, *raw).hypotheses
    expected = lines(text / "test.tgt")
    assert sorted(hypotheses) == list(range(60))
    assert not any("<unk>" in hypothesis for hypothesis in hypotheses.values())
    # Every third sentence contains a name, which the correct output repeats.
    named = [number for number, sentence in enumerate(expected) if "Name" in sentence]
    kept = [number for number in named if names_in(hypotheses[number]) == names_in(expected[number])]
    assert len(named) == 20 and len(kept) >= 19
    assert share_of_right(hypotheses, expected) > 0.9


def test_wean_search_finds_what_stock_search_finds_without_normalisation(data, checkpoint):
    # The temperature makes the hypotheses compete with each other. Without it, the model would be too certain.
    flat = ["--temperature", 3, "--beam", 5]
    ours = generate(data, checkpoint, *flat, "--search-preset", "wean")
    every = ["--required-batch-size-multiple", 1]
    stock = generate(data, checkpoint, *flat, "--unnormalized", *every, task="translation")
    assert len(ours.scored_hypotheses) == 60
    assert [(number, text) for number, _, text in ours.scored_hypotheses] == [
        (number, text) for number, _, text in stock.scored_hypotheses
    ]
    for (_, ours_sum, _), (_, stock_sum, _) in zip(ours.scored_hypotheses, stock.scored_hypotheses, strict=True):
        assert ours_sum == pytest.approx(stock_sum, abs=1e-4)


def test_candidates_can_be_limited_at_test_time(data, checkpoint):
    result = generate(data, checkpoint, "--model-overrides", "{'num_candidates': 5}")
    most_frequent = {line.split()[0] for line in lines(data / "dict.src.txt")[:5]}
    used = {word for hypothesis in result.hypotheses.values() for word in hypothesis.split()}
    assert len(result.hypotheses) == 60
    assert used - {"<unk>"} <= most_frequent
    assert used & most_frequent


# --- options and archs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ["--query-score", "dot", "--detach-query-embedding", "--num-candidates", 8],
        ["--query-score", "concat", "--encoder-bidirectional", "--bridge", "linear"],
        ["--query-score", "linear", "--label-smoothing", 0.1, "--attention-tanh"],
        ["--query-score", "general", "--query-bias", "--sentence-avg", "--bridge", "top"],
    ],
    ids=lambda options: options[1],
)
def test_query_scores_train(data, tmp_path, options):
    result = train(data, tmp_path, *options, "--lr", 0.01, "--max-update", 40, "--no-save", "--log-interval", 1)
    losses = result.logged("nll_loss")
    assert sum(losses[-5:]) < sum(losses[:5])


def test_word_vectors_are_needed_only_to_begin_a_training(data, tmp_path):
    """Test that the log reports the number of words with a vector, which is half of the words here.

    For decoding, the word vectors come from the checkpoint.
    """
    words = [line.split()[0] for line in lines(data / "dict.src.txt") if not line.startswith("madeupword")]
    known = words[::2]
    for name, width in (("vectors.vec.gz", 16), ("narrow.vec.gz", 8)):
        with gzip.open(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write(f"{len(known)} {width}\n" + "".join(f"{word}{' 0.5' * width}\n" for word in known))
    few = ["--lr", 1e-9, "--max-update", 1, "--no-epoch-checkpoints", "--embedding-file"]
    refused = train(data, tmp_path / "run", *few, tmp_path / "narrow.vec.gz", expect_success=False)
    assert_one_sentence(refused, "has vectors of width 8, but the model's embeddings are 16 wide")
    result = train(data, tmp_path / "run", *few, tmp_path / "vectors.vec.gz")
    assert re.search(rf"has vectors for {len(known)} of the \d+ words of the dictionary \(", result.out + result.err)
    checkpoint = tmp_path / "run" / "checkpoint_last.pt"
    (embeddings,) = (value for name, value in parameters(checkpoint).items() if name == "encoder.embed_tokens.weight")
    assert int((embeddings == 0.5).all(dim=1).sum()) == len(known)
    (tmp_path / "vectors.vec.gz").unlink()
    assert len(generate(data, checkpoint).hypotheses) == 60


def test_seq2seq_preset_survives_in_its_checkpoint(data, tmp_path):
    model = ["--user-dir", USER_DIR, "--arch", "seq2seq_lstm", "--criterion", "query_embedding", *TINY, *TASK]
    train(data, tmp_path, "--max-update", 3, "--no-epoch-checkpoints", model=model)
    saved = tmp_path / "checkpoint_last.pt"
    weight = parameters(saved)["decoder.output.score.out_proj.weight"]
    dictionary_size = 4 + len(lines(data / "dict.tgt.txt"))
    assert weight.shape == (dictionary_size, 16)
    assert len(generate(data, saved).hypotheses) == 60  # the model was rebuilt without the name of its arch


# --- criterions -----------------------------------------------------------------------------------------------------


def first_update(data: Path, folder: Path, model: list[str], criterion: str) -> tuple[Result, dict[str, torch.Tensor]]:
    result = train(data, folder, *SGD, "--no-epoch-checkpoints", model=[*model, "--criterion", criterion])
    return result, parameters(folder / "checkpoint_last.pt")


@pytest.mark.parametrize(
    "model",
    [
        ["--arch", "wean_lstm", *TINY],
        [
            *("--arch", "transformer", "--share-all-embeddings"),
            *("--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "24", "--encoder-layers", "1"),
            *("--decoder-layers", "1", "--encoder-attention-heads", "2", "--decoder-attention-heads", "2"),
        ],
    ],
    ids=["wean_lstm", "transformer"],
)
def test_query_embedding_trains_as_cross_entropy_does(data, tmp_path, model):
    chosen = ["--user-dir", USER_DIR, *TASK, *model]
    ours, our_parameters = first_update(data, tmp_path / "ours", chosen, "query_embedding")
    stock, stock_parameters = first_update(data, tmp_path / "stock", chosen, "cross_entropy")
    assert ours.logged("train_loss") == stock.logged("train_loss") != []
    assert ours.logged("valid_loss") == stock.logged("valid_loss") != []
    assert our_parameters.keys() == stock_parameters.keys()
    for name, parameter in our_parameters.items():
        torch.testing.assert_close(parameter, stock_parameters[name], rtol=0, atol=2e-6, msg=name)
