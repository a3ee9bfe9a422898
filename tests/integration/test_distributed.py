"""For every family, two processes with half of each batch (gloo, CPU) make the same updates as one process.

In each epoch, one update consists of a single batch, so one of the two processes has no batch. fairseq gives it a dummy
batch, which must not count. One batch is smaller than the others. Validation has a single batch, so again one process
has none.

Every training is a real fairseq-train. One process runs all trainings one after the other, because most of the time of
a command is spent on starting it.
"""

import json
import random
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary

from tests.bert_directory import write_bert
from tests.families import families, flags, tiny
from tests.integration import warm
from tests.integration.commands import (
    ENVIRONMENT,
    KEPT,
    TIMEOUT,
    USER_DIR,
    parameters,
    paraphrase,
    random_sentences,
    with_names,
    write_pairs,
)

# 69 pairs are four batches of 16 and one batch of 5. An epoch has three updates, one of which consists of a single
# batch.
SIZES = {"train": 69, "valid": 5}
BATCH, UPDATES = 16, 12
TOPICS, CHUNK = [f"topic{number}" for number in range(12)], "<ST>"

# eps is larger than Adam's usual 1e-8. Some gradients are 0 except for rounding errors, for example the gradient of the
# bias of attention keys, which does not change a softmax. A small eps would turn these gradients into full steps.
COMMON = ["--user-dir", USER_DIR, "--batch-size", BATCH, "--max-update", UPDATES, "--seed", 1, "--cpu"]
COMMON += ["--lr", 0.003, "--clip-norm", 1, "--data-buffer-size", 0, "--num-workers", 0, "--no-epoch-checkpoints"]
COMMON += ["--save-interval", 9, "--validate-interval", 4]
COMMON += ["--log-format", "json", "--log-interval", 1, "--source-lang", "src", "--target-lang", "tgt"]
ADAM = ("--optimizer", "adam", "--adam-eps", 1e-4)
TWO = ["--distributed-world-size", 2, "--distributed-backend", "gloo", "--distributed-no-spawn"]

# Dropout is off, because its masks differ between batches.
UNITS = ("--embed-dim", 8, "--hidden-size", 8)
LSTM = (*UNITS, "--dropout", 0)
LAYER = ("--num-layers", 1)
LAYERS = ("--encoder-layers", 1, "--decoder-layers", 1)
DECODER = ("--embed-dim", 8, "--ffn-dim", 12, "--attention-heads", 2, "--dropout", 0, "--attention-dropout", 0)
TRANSFORMER = (*DECODER, *LAYERS)
LEVELS = ("--phrase-dim", 8, "--phrase-heads", 2, "--sentence-dim", 6, "--sentence-heads", 3, "--separator-dim", 4)
LEVELS += (*LAYERS, "--aggregator-dim", 4, "--dropout", 0, "--attention-dropout", 0)
LEVELS += ("--granularity-labels", "{folder}/labels")
FAIRSEQ = ("--encoder-embed-dim", 8, "--encoder-ffn-embed-dim", 12, "--encoder-attention-heads", 2, *LAYERS)
FAIRSEQ += ("--decoder-attention-heads", 2, "--share-all-embeddings", "--dropout", 0)
SMOOTHED = ("--label-smoothing", 0.1)


@dataclass(frozen=True)
class Case:
    """A training that is run with one and with two processes.

    Args:
        arch: the arch to train.
        arguments: arguments of the arch in addition to ``COMMON``.
        data: "pairs" (with unknown words that can be copied) or "essays".
        criterion: name of the criterion.
        batches: batches per update in each of the two processes.
    """

    arch: str
    arguments: Sequence[object] = ()
    data: str = "pairs"
    criterion: str = "model_loss"
    optimizer: Sequence[object] = ADAM
    batches: int = 1

    def command(self, folder: Path, save_dir: Path, processes: int) -> list[str]:
        """Return the arguments of fairseq-train for ``processes`` processes that share the work."""
        task = "topic_essay" if self.data == "essays" else "paraphrase"
        own = [str(argument).format(folder=folder) for argument in self.arguments]
        what = ["--task", task, "--arch", self.arch, "--criterion", self.criterion, *own, *self.optimizer]
        words = [folder / self.data, *what, *COMMON, "--update-freq", 2 * self.batches // processes]
        return [str(word) for word in (*words, "--save-dir", save_dir)]


# One case per family, with all losses that the family adds to the loss of the words.
FAMILIES = {
    "wean_lstm": Case("wean_lstm", (*LSTM, *LAYERS, *SMOOTHED), criterion="query_embedding"),
    "copynet": Case("copynet", LSTM),
    "pointer_generator": Case("pointer_generator", (*UNITS, "--coverage")),
    "copy_transformer": Case("copy_transformer", TRANSFORMER),
    "dnpg": Case("dnpg", (*LEVELS, "--anneal-after", 2)),
    "granularity_transformer": Case("granularity_transformer", (*TRANSFORMER, *SMOOTHED)),
    "fset": Case("fset", flags(tiny("fset") | {"pair_symbol": KEPT[0]})),
    "residual_lstm": Case("residual_lstm", (*LSTM, "--num-layers", 2)),
    "nts": Case("nts", (*LSTM, *LAYER)),
    "mta_lstm": Case("mta_lstm", (*LSTM, *LAYER, "--coverage-loss-weight", 1), "essays"),
    "sc_lstm": Case("sc_lstm", (*LSTM, *LAYER, "--control-loss-weight", 0.5), "essays"),
    "ppg": Case("ppg", (*LSTM, "--chunk-symbol", CHUNK), "essays"),
    "pc_san": Case("pc_san", (*DECODER, "--decoder-layers", 1, "--bert-layers", "none"), "essays"),
}
# Families that are not named above run with their default options.
FAMILIES |= {family: Case(family, flags(tiny(family))) for family in families() if family not in FAMILIES}
WEAN = (*LSTM, *LAYERS)
VARIANTS = {
    "seq2seq_lstm": Case("seq2seq_lstm", WEAN, criterion="query_embedding"),
    "wean_dot": Case("wean_lstm", (*WEAN, "--query-score", "dot"), criterion="query_embedding"),
    "wean_concat": Case("wean_lstm", (*WEAN, "--query-score", "concat"), criterion="query_embedding"),
    "wean_cross_entropy": Case("wean_lstm", WEAN, criterion="cross_entropy"),
    "wean_sentence_average": Case("wean_lstm", (*WEAN, "--sentence-avg"), criterion="query_embedding"),
    "wean_fused_adam": Case("wean_lstm", WEAN, optimizer=("--optimizer", "fused_adam", "--adam-eps", 1e-4)),
    # All target words are given, because each process would sample different words.
    "wean_policy_gradient": Case(
        "wean_lstm",
        (*WEAN, "--relevance-weight", 0, "--fluency-weight", 0, "--given-words", 99, "--baseline-width", 8),
        criterion="policy_gradient",
    ),
    "wean_two_batches_an_update": Case("wean_lstm", WEAN, batches=2),
    "fairseqs_transformer": Case("transformer", FAIRSEQ, criterion="query_embedding"),
    "rnnsearch": Case("rnnsearch", LSTM),
    "enc_dec": Case("enc_dec", LSTM),
    "copynet_full": Case("copynet_full", LSTM),
    "no_coverage": Case("pointer_generator", UNITS, optimizer=("--optimizer", "adagrad_accumulator")),
    "paraphrase_transformer": Case("paraphrase_transformer", (*TRANSFORMER, *SMOOTHED)),
    "dnpg_weak": Case("dnpg", (*LEVELS, "--decoder-labels", "weak")),
    # granularity_transformer_release is not included. In it, a word's scope depends on the padding of the batch, as in
    # the released code.
    **{kind: Case(f"granularity_transformer_{kind}", TRANSFORMER) for kind in ("resonance", "scope", "mean")},
    "stacked_lstm": Case("stacked_lstm", (*LSTM, "--num-layers", 2)),
    "enc_dec_a": Case("enc_dec_a", (*LSTM, *LAYER)),
    "tat_lstm": Case("tat_lstm", (*LSTM, *LAYER), "essays"),
    "tav_lstm": Case("tav_lstm", (*LSTM, *LAYER), "essays"),
    "pc_san_bert": Case("pc_san", (*DECODER, "--decoder-layers", 2, "--bert", "{folder}/bert"), "essays"),
}


def write_raw(folder: Path, splits: Mapping[str, tuple[list[str], list[str]]], unknown: str) -> None:
    """Write text and dictionaries in the form of ``fairseq-preprocess --dataset-impl raw``.

    Args:
        folder: the folder to create.
        splits: sources and targets of each split by name.
        unknown: prefix of the words to leave out of the dictionary.
    """
    dictionary = Dictionary()
    for name, (sources, targets) in splits.items():
        write_pairs(folder / f"{name}.src-tgt", sources, targets)
        for word in " ".join([*sources, *targets]).split():
            if not word.startswith(unknown):
                dictionary.add_symbol(word)
    for language in ("src", "tgt"):
        dictionary.save(str(folder / f"dict.{language}.txt"))


def pairs(number: int, seed: int) -> tuple[list[str], list[str]]:
    """Return sentences and their paraphrases, a third of which contain the same name on both sides."""
    sources = with_names(random_sentences(number, seed), seed)
    return sources, [paraphrase(line) for line in sources]


def essays(number: int, seed: int) -> tuple[list[str], list[str]]:
    """Return lists of topics, and essays with one clause for each topic."""
    chance = random.Random(seed)
    lines = [chance.sample(TOPICS, chance.randint(1, 5)) for _ in range(number)]
    return [" ".join(line) for line in lines], [f" {CHUNK} ".join(f"we like {word}" for word in line) for line in lines]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that contains pairs, weak labels of their words, and essays."""
    folder = tmp_path_factory.mktemp("texts")
    made = {split: pairs(size, seed) for seed, (split, size) in enumerate(SIZES.items())}
    write_raw(folder / "pairs", made, "Name")
    write_raw(folder / "essays", {split: essays(size, size) for split, size in SIZES.items()}, "Name")
    (folder / "labels").mkdir()
    chance = random.Random(3)
    for language, lines in zip(("src", "tgt"), made["train"], strict=True):
        labels = (" ".join(str(chance.randint(0, 1)) for _ in line.split()) for line in lines)
        (folder / f"labels/train.{language}.z").write_text("".join(f"{line}\n" for line in labels))
    return folder


def train_all(folder: Path, texts: Path, cases: Mapping[str, Case], wrapper: str) -> None:
    """Train every case with one process, into ``folder``/one/NAME, and with two processes, into ``folder``/two/NAME."""
    two = [
        *TWO,
        "--ddp-backend",
        wrapper,
        "--distributed-init-method",
        f"file://{folder}/meeting",
        "--distributed-rank",
    ]
    running = {}
    for share, where, more in (("one", "one", []), ("first", "two", [*two, 0]), ("second", "two", [*two, 1])):
        running[share] = start(folder, share, where, texts, cases, more)
    wait_for(folder, running)


def start(
    folder: Path, share: str, where: str, texts: Path, cases: Mapping[str, Case], more: Sequence[object]
) -> subprocess.Popen:
    """Start the process ``share``, which trains all cases into ``folder``/``where``/NAME.

    This process trains alone if ``more`` is empty.
    """
    commands = {
        name: [*case.command(texts, folder / where / name, 2 if more else 1), *map(str, more)]
        for name, case in cases.items()
    }
    (folder / f"{share}.json").write_text(json.dumps(commands))
    line = [str(warm.programs() / "train-in-turn"), str(folder / f"{share}.json"), share]
    with (folder / f"{share}.log").open("w") as log:
        return subprocess.Popen(line, env=ENVIRONMENT, stdout=log, stderr=subprocess.STDOUT)


def wait_for(folder: Path, running: Mapping[str, subprocess.Popen]) -> None:
    """Wait until all processes have finished their trainings."""
    try:
        codes = {share: process.wait(TIMEOUT) for share, process in running.items()}
    finally:
        for process in running.values():
            process.kill()
    for share, code in codes.items():
        assert code == 0, f"{share} ended with {code}:\n{(folder / f'{share}.log').read_text()[-6000:]}"


def assert_equal_trainings(folder: Path, name: str) -> None:
    """Assert that one process and two processes end with the same model, and log the same losses."""
    one, two = (folder / where / name / "checkpoint_last.pt" for where in ("one", "two"))
    expected, found = parameters(one), parameters(two)
    assert found.keys() == expected.keys()
    for key, parameter in expected.items():
        torch.testing.assert_close(found[key], parameter, rtol=0, atol=1e-6, msg=lambda text, key=key: f"{key}: {text}")
    one_logged, two_logged = (logged(folder / f"{share}.log", name) for share in ("one", "first"))
    assert len(one_logged["loss"]) == len(one_logged["gnorm"]) == UPDATES
    assert one_logged["valid_loss"]
    for key, values in one_logged.items():
        assert two_logged[key] == pytest.approx(values, abs=2e-3), key  # the values are rounded to three digits


def logged(log: Path, name: str) -> dict[str, list[float]]:
    """Return the losses and the gradient norms that the training ``name`` has logged, in order."""
    (text,) = [part for part in log.read_text().split("=== ") if part.startswith(f"{name}\n")]
    keys = ("loss", "gnorm", "valid_loss")
    return {key: [float(value) for value in re.findall(rf'"{key}": "([^"]+)"', text)] for key in keys}


@pytest.fixture(scope="module")
def families(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train every family, and return the folder."""
    folder = tmp_path_factory.mktemp("families")
    train_all(folder, texts, FAMILIES, "legacy_ddp")
    return folder


@pytest.fixture(scope="module")
def bf16(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train every family with ``--bf16`` on the CPU, and return the folder."""
    folder = tmp_path_factory.mktemp("bf16")
    cases = {name: replace(case, arguments=(*case.arguments, "--bf16")) for name, case in FAMILIES.items()}
    wait_for(folder, {"one": start(folder, "one", "one", texts, cases, [])})
    return folder


@pytest.mark.parametrize("name", FAMILIES)
def test_bf16_trains_on_a_cpu_as_float32_does(families: Path, bf16: Path, name: str) -> None:
    found, expected = (logged(folder / "one.log", name)["loss"] for folder in (bf16, families))
    # bfloat16 has 8 significant bits, so a rounding error is at most 1/256 of a number. A loss accumulates many such
    # errors.
    assert found == pytest.approx(expected, rel=0.02)
    # fairseq writes the parameters as float32
    for parameter in parameters(bf16 / f"one/{name}/checkpoint_last.pt").values():
        assert torch.equal(parameter, parameter.to(torch.bfloat16).to(parameter.dtype))


@pytest.mark.parametrize("name", FAMILIES)
def test_two_processes_equal_one(families: Path, name: str) -> None:
    assert_equal_trainings(families, name)


@pytest.fixture(scope="module", params=["legacy_ddp", "pytorch_ddp"])
def everything(request: pytest.FixtureRequest, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train every family and its variants, with both of fairseq's ways to exchange gradients, and return the folder."""
    words = [*TOPICS, "##s"]
    if not (texts / "bert").exists():
        write_bert(texts / "bert", words)
    folder = tmp_path_factory.mktemp(request.param)
    train_all(folder, texts, {**FAMILIES, **VARIANTS}, request.param)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", {**FAMILIES, **VARIANTS})
def test_two_processes_equal_one_in_all_variants(everything: Path, name: str) -> None:
    assert_equal_trainings(everything, name)
