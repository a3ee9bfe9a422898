"""Test that models learn a task with one right answer (cf. Sockeye's copy tests).

Some words become their synonyms, and the others stay the same.
"""

from pathlib import Path

import pytest

from tests.integration.commands import TASK, USER_DIR, generate, preprocess, random_sentences, train, write_pairs

LSTM = ["--criterion", "query_embedding", "--embed-dim", 32, "--hidden-size", 64, "--dropout", 0.1]
LSTM += ["--encoder-layers", 1, "--decoder-layers", 1, "--encoder-bidirectional"]
TRANSFORMER = ["--criterion", "model_loss", "--embed-dim", 32, "--ffn-dim", 64, "--attention-heads", 4]
# tests/unit/models/test_granularity_transformer.py compares stacks of layers with the equations.
TRANSFORMER += ["--encoder-layers", 1, "--decoder-layers", 1]
# The published initial weights, uniform in [-0.1, 0.1], are meant for wider layers. With them, 600 updates would be too
# few.
NTS = ["--criterion", "model_loss", "--embed-dim", 32, "--hidden-size", 64, "--dropout", 0.1, "--init-range", 0]
MODELS = {"seq2seq_lstm": LSTM, "granularity_transformer": TRANSFORMER}
# test_command_line.py also trains a WEAN, and test_families_learn.py trains every family with its first preset.
SLOW = {"wean_lstm": LSTM, "nts": NTS, "enc_dec_a": NTS}
UPDATES = 600


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return 4,000 training pairs of 3 to 8 words from a dictionary of 28 words.

    The 200 test sentences do not occur in the training pairs.
    """
    folder = tmp_path_factory.mktemp("synonyms")
    seen = random_sentences(4000, seed=1)
    fresh = [sentence for sentence in random_sentences(300, seed=2) if sentence not in set(seen)]
    write_pairs(folder / "text" / "train", seen)
    write_pairs(folder / "text" / "valid", fresh[:50])
    write_pairs(folder / "text" / "test", fresh[50:250])
    preprocess(folder / "text", folder / "bin")
    return folder / "bin"


@pytest.mark.parametrize("arch", [*MODELS, *(pytest.param(arch, marks=pytest.mark.slow) for arch in SLOW)])
def test_synonyms_are_learnt(data: Path, tmp_path: Path, arch: str) -> None:
    rate = ["--lr", 0.003, "--lr-scheduler", "polynomial_decay", "--total-num-update", UPDATES]
    model = ["--user-dir", USER_DIR, "--arch", arch, *TASK, *(MODELS | SLOW)[arch]]
    train(data, tmp_path, *rate, "--max-update", UPDATES, "--no-epoch-checkpoints", model=model)
    expected = (data.parent / "text" / "test.tgt").read_text(encoding="utf-8").splitlines()
    hypotheses = generate(data, tmp_path / "checkpoint_best.pt").hypotheses
    right = sum(hypotheses[number] == sentence for number, sentence in enumerate(expected))
    assert right / len(expected) > 0.95
