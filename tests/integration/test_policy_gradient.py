"""Train DRESS and DRESS-LS with the real commands.

First an auto-encoder and a language model are trained, then a model with cross entropy, and finally with rewards.
"""

import shutil

import pytest
import torch

from tests.integration.commands import TASK, USER_DIR, generate, parameters, plugged, run, train, write_pairs
from wean_fairseq.storage.manifest import NAME as MANIFEST

PLUGIN = ["--user-dir", USER_DIR]
SMALL = ["--embed-dim", 8, "--hidden-size", 8, "--num-layers", 1]
ENC_DEC_A = [*PLUGIN, *TASK, "--arch", "enc_dec_a", *SMALL]
SOURCE_ONLY = ["--source-lang", "src", "--only-source"]


@pytest.fixture(scope="module")
def parts(text, data, tmp_path_factory):
    """Return checkpoints of an auto-encoder, a language model and an EncDecA.

    All of them use the dictionary of ``data``.
    """
    folder = tmp_path_factory.mktemp("parts")
    sentences = {
        split: (text / f"{split}.src").read_text(encoding="utf-8").split("\n")[:-1] for split in ("train", "valid")
    }
    for split, lines in sentences.items():
        write_pairs(folder / "text" / split, lines, lines)
    words = ["--srcdict", data / "dict.tgt.txt", "--workers", 1]
    splits = [part for split in sentences for part in (f"--{split}pref", folder / "text" / split)]
    run(
        "fairseq-preprocess",
        "--source-lang",
        "src",
        "--target-lang",
        "tgt",
        "--joined-dictionary",
        *words,
        *splits,
        "--destdir",
        folder / "pairs",
    )
    sides = [part for split in sentences for part in (f"--{split}pref", text / f"{split}.tgt")]
    run("fairseq-preprocess", "--only-source", *words, *sides, "--destdir", folder / "lines")
    stacked = [*PLUGIN, *TASK, "--arch", "stacked_lstm", *SMALL, "--criterion", "model_loss"]
    train(folder / "pairs", folder / "auto_encoder", "--lr", 0.1, "--max-update", 2, model=stacked)
    lstm_lm = ["--task", "language_modeling", "--arch", "lstm_lm", "--decoder-embed-dim", 8, "--decoder-hidden-size", 8]
    lstm_lm += ["--decoder-out-embed-dim", 8, "--sample-break-mode", "eos", *PLUGIN]
    train(folder / "lines", folder / "language_model", "--lr", 0.1, "--max-update", 2, model=lstm_lm)
    train(data, folder / "start", "--lr", 0.01, "--max-update", 2, model=[*ENC_DEC_A, "--criterion", "model_loss"])
    return {name: folder / name / "checkpoint_last.pt" for name in ("auto_encoder", "language_model", "start")}


def arguments(parts, save_dir, **others):
    """Return the arguments of a training by rewards that starts from the checkpoint ``start``."""
    given = {"auto-encoder": parts["auto_encoder"], "language-model": parts["language_model"], **others}
    chosen = [part for name, value in given.items() for part in (f"--{name}", value)]
    criterion = ["--criterion", "policy_gradient", "--given-words", 2, "--fewer-words", 1, "--fewer-every", 1, *chosen]
    sgd = ["--optimizer", "sgd", "--lr", 0.01, "--batch-size", 16, "--seed", 1, "--cpu", "--log-format", "json"]
    start = ["--finetune-from-model", parts["start"], "--save-dir", save_dir, "--data-buffer-size", 0]
    return [*ENC_DEC_A, *criterion, *sgd, *start]


@pytest.mark.parametrize("width", [0, 8])
def test_training_by_rewards(parts, data, tmp_path, width):
    """Test that two updates by rewards change the model.

    Rewards must be logged and select the best checkpoint, and the model must decode.
    """
    folder = tmp_path / "dress"
    chosen = ["--best-checkpoint-metric", "reward", "--maximize-best-checkpoint-metric", "--max-update", 2]
    result = run("fairseq-train", data, *arguments(parts, folder, **{"baseline-width": width}), *chosen)
    for name in ("reward_simplicity", "reward_relevance", "reward_fluency"):
        for value in (*result.logged(name), *result.logged(f"valid_{name}")):
            assert -1 <= value <= 1
    (simple,), (like,), (fluent,), (reward,) = (
        result.logged(f"valid_{name}") for name in ("reward_simplicity", "reward_relevance", "reward_fluency", "reward")
    )
    assert reward == pytest.approx(simple + 0.25 * like + 0.5 * fluent, abs=1e-3)
    before, after = parameters(parts["start"]), parameters(folder / "checkpoint_best.pt")
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    best = torch.load(folder / "checkpoint_best.pt", weights_only=True)
    assert best["extra_state"]["best"] == pytest.approx(reward, abs=1e-4)
    kept = best["criterion"]
    assert (kept is None) == (width == 0)
    if width:
        assert kept["baseline.weight"].any()
        again = run("fairseq-train", data, *arguments(parts, folder, **{"baseline-width": width}), "--max-update", 3)
        assert "(epoch 1 @ 2 updates)" in again.out + again.err
    assert len(generate(data, folder / "checkpoint_best.pt").hypotheses) == 60


def test_models_of_another_kind_are_refused(parts, data, tmp_path):
    swapped = [
        (
            {"auto-encoder": parts["language_model"]},
            "--task language_modeling, but must be an encoder-decoder that was",
        ),
        ({"language-model": parts["start"]}, "is of --task paraphrase, but must be a language model of fairseq"),
    ]
    for others, message in swapped:
        result = plugged("train", data, *arguments(parts, tmp_path / "run", **others)[2:])
        assert result.code == 1
        assert message in result.err.splitlines()[-1]
        assert "Traceback" not in result.err


LEXICAL = ["--arch", "dress_ls", "--lexical-dim", 4, "--criterion", "model_loss", "--skip-first-target"]


def test_a_lexical_model_is_trained_beside_a_base(parts, data, tmp_path):
    """Test that the base model does not change.

    The base model is part of the checkpoint, so decoding needs no other file than this checkpoint.
    """
    base = tmp_path / "base.pt"
    shutil.copy(parts["start"], base)
    model = [*PLUGIN, *TASK, *SMALL, *LEXICAL, "--base-checkpoint", base]
    train(data, tmp_path / "run", "--lr", 0.01, "--max-update", 2, model=model)
    before, after = parameters(base), parameters(tmp_path / "run" / "checkpoint_last.pt")
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert {".lexical." in name for name in after.keys() - before.keys()} == {True}
    again = train(data, tmp_path / "run", "--lr", 0.01, "--max-update", 3, model=model)
    assert "(epoch 1 @ 2 updates)" in again.out + again.err
    base.unlink()
    fast, stock = (
        generate(data, tmp_path / "run" / "checkpoint_last.pt", "--model-overrides", "{'lexical_share': 0.5}", *more)
        for more in ([], ["--stock-search"])
    )
    assert len(fast.hypotheses) == 60
    assert fast.hypotheses == stock.hypotheses


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"--base-checkpoint": "auto_encoder"}, "must be of the nts family with the options of this model, but its"),
        ({"--hidden-size": 6}, "but its hidden_size is 8 and not 6."),
        ({"data": "pairs"}, "was trained with another dictionary"),
        ({"--base-checkpoint": "nowhere"}, "there is no checkpoint"),
    ],
)
def test_a_base_that_does_not_fit_is_one_sentence(parts, data, tmp_path, options, message):
    paths = {**parts, "nowhere": tmp_path / "nowhere.pt"}
    given = {"--base-checkpoint": paths[options.pop("--base-checkpoint", "start")], **options}
    folder = data
    if given.pop("data", None):  # one word of the dictionary differs in this case
        folder = tmp_path / "data"
        shutil.copytree(data, folder)
        for side in ("src", "tgt"):
            lines = (data / f"dict.{side}.txt").read_text(encoding="utf-8").splitlines(keepends=True)
            (folder / f"dict.{side}.txt").write_text("other" + "".join(lines), encoding="utf-8")
        (folder / MANIFEST).unlink()
    line = [*TASK, *SMALL, *LEXICAL, *(part for pair in given.items() for part in pair), "--optimizer", "adam"]
    result = plugged("train", folder, *line, "--save-dir", tmp_path / "run", "--cpu", "--batch-size", 16)
    assert result.code == 1
    assert message in result.err.splitlines()[-1]
    assert "Traceback" not in result.err
