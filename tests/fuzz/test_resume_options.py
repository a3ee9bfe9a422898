"""Resume a training inside an epoch with changed options. Every pair is used once per epoch, or a warning is printed.

The first tests create iterators as the trainer creates them, and record their pairs. The tests with complete trainings
record the pairs that the training fetches.
"""

import json
import logging
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset, ListDataset, iterators
from hypothesis import strategies as st

from tests.fuzz.text import attempt, budgets
from tests.integration.commands import ADAM, TASK, TINY, plugged, preprocess, random_sentences, write_pairs
from tests.model_contract import make_dictionary
from tests.reliability import Reliability
from wean_fairseq.tasks import epoch_batches
from wean_fairseq.tasks.paraphrase import ParaphraseConfig, ParaphraseTask

DECIDES = {  # options that determine the pairs in N batches, with changed values
    "max_sentences": [1, 3, 4, 7],
    "max_tokens": [None, 24, 60],
    "seed": [1, 2],
    "num_shards": [1, 2, 3],
    "max_length": [6, 99],
    "pairs": [23, 40],
    "text": [0, 1],
}
GROUPS = [1, 2, 3, 5]  # --update-freq sets the batches per update, but not the pairs


def dataset(pairs: int, text: int) -> LanguagePairDataset:
    """Return a data set of pairs with 1 to 9 words. Each pair contains its own number."""
    chance = np.random.default_rng(text)
    lengths = chance.integers(1, 10, size=pairs)
    sentences = [torch.tensor([4 + number % 20] * (length - 1) + [2]) for number, length in enumerate(lengths)]
    dictionary, sizes = make_dictionary(), np.array([len(sentence) for sentence in sentences])
    sides = ListDataset(sentences, sizes)
    return LanguagePairDataset(sides, sizes, dictionary, sides, sizes, dictionary, shuffle=True)


def shards(options: dict[str, Any], epoch: int) -> list[epoch_batches.EpochBatches]:
    """Return the batches of an epoch, as the trainer of each process gets them."""
    cfg = ParaphraseConfig(data=".", train_subset="train", required_seq_len_multiple=1, num_shards=1, shard_id=0)
    task = ParaphraseTask(cfg, make_dictionary(), make_dictionary())
    data = dataset(options["pairs"], options["text"])
    task.datasets["train"] = data
    limit = options["max_length"]
    return [
        task.get_batch_iterator(
            dataset=data,
            max_tokens=options["max_tokens"],
            max_sentences=options["max_sentences"],
            max_positions=(limit, limit),
            ignore_invalid_inputs=True,
            seed=options["seed"],
            num_shards=options["num_shards"],
            shard_id=shard,
            epoch=epoch,
            disable_iterator_cache=True,  # every process needs a separate iterator
        )
        for shard in range(options["num_shards"])
    ]


def train(processes: list[epoch_batches.EpochBatches], group: int, updates: int | None) -> list[int]:
    """Return the ids of the pairs in the next ``updates`` updates, or in the rest of the epoch if it is ``None``."""
    seen = []
    for iterator in processes:
        grouped = iterators.GroupedIterator(iterator.next_epoch_itr(shuffle=True), group)
        for number, batches in enumerate(grouped, start=1):
            seen += [pair for batch in batches if batch for pair in batch["id"].tolist()]
            if number == updates:
                break
    return seen


@contextmanager
def warnings_of(name: str) -> Iterator[list[str]]:
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger(name).addHandler(handler)
    try:
        yield said
    finally:
        logging.getLogger(name).removeHandler(handler)


def drawn_options() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.sampled_from(values) for name, values in DECIDES.items()})


@budgets(25, 400)
def test_every_pair_is_in_the_epoch_once(examples, reliability):
    def check(before, changes, groups, updates, epoch):
        after = {**before, **changes}
        first = shards(before, epoch)
        done = train(first, groups[0], updates)
        state = json.loads(json.dumps(first[0].state_dict()))
        inside = state["iterations_in_epoch"] > 0
        with warnings_of(epoch_batches.__name__) as said:
            second = shards(after, state["epoch"])
            for iterator in second:
                iterator.load_state_dict(state)
        rest = Counter(train(second, groups[1], None))
        limit = after["max_length"]
        fits = Counter(number for number in range(after["pairs"]) if second[0].dataset.size(number)[0] <= limit)
        if not inside:  # at the end of an epoch, all options may change
            assert (said, rest) == ([], fits)
        elif said:
            assert len(said) == 1 and "STARTS AGAIN" in said[0]
            assert before != after and rest == fits
        else:
            assert rest + Counter(done) == fits

    attempt(
        examples,
        reliability,
        check,
        before=drawn_options(),
        changes=st.sampled_from(list(DECIDES)).flatmap(
            lambda name: st.sampled_from(DECIDES[name]).map(lambda value: {name: value})
        ),
        groups=st.tuples(st.sampled_from(GROUPS), st.sampled_from(GROUPS)),
        updates=st.integers(1, 6),
        epoch=st.integers(1, 3),
        kind="resumes with other options",
    )


def test_the_same_options_never_begin_anew():
    options = {name: values[-1] for name, values in DECIDES.items()} | {"max_sentences": 3, "num_shards": 2}
    for group in GROUPS:  # each process has 7 batches
        first, second = shards(options, 2), shards(options, 2)
        done = train(first, group, 1)
        with warnings_of(epoch_batches.__name__) as said:
            for iterator in second:
                iterator.load_state_dict(first[0].state_dict())
        assert not said and Counter(done + train(second, 1, None)) == Counter(range(options["pairs"]))


def test_old_checkpoints_are_gone_on_from():
    options = {name: values[0] for name, values in DECIDES.items()}
    first, second = shards(options, 1), shards({**options, "seed": 2}, 1)
    train(first, 1, 2)
    state = {name: value for name, value in first[0].state_dict().items() if name != "made_of"}
    second[0].load_state_dict(state)
    assert second[0].iterations_in_epoch == 2


# --- whole trainings ------------------------------------------------------------------------------------------------

MODEL = ["--arch", "wean_lstm", "--criterion", "query_embedding", *TINY, *TASK, *ADAM]
RATE = ["--lr", 0.01, "--no-epoch-checkpoints", "--num-workers", 0]
OTHERS = {
    "the same": ([], None),
    "batch size": (["--batch-size", 7], "--batch-size"),
    "max tokens": (["--max-tokens", 100], "--max-tokens"),
    "seed": (["--seed", 2], "--seed"),
    "update freq": (["--update-freq", 3], None),
    "data workers": (["--num-workers", 2], None),
    "lr": (["--lr", 0.1], None),
    "max pair length": (["--max-pair-length", 5], "limits of length"),
    "truncation": (["--max-pair-length", 5, "--length-policy", "truncate"], "how they are cut"),
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two data sets, ``a`` and ``b``, of 100 training pairs each, which share a dictionary."""
    folder = tmp_path_factory.mktemp("resumed")
    for name, seed in (("a", 1), ("b", 2)):
        (folder / f"text.{name}").mkdir()
        for split, size in (("train", 100), ("valid", 4), ("test", 4)):
            sentences = random_sentences(size, seed if split == "train" else 9)
            write_pairs(folder / f"text.{name}" / split, sentences)
        more = [] if name == "a" else ["--srcdict", folder / "bin.a" / "dict.src.txt"]
        preprocess(folder / f"text.{name}", folder / f"bin.{name}", *more)
    return folder


def watch(log: Path) -> None:
    """Install an audit hook in this process that records the pairs of every training step."""
    step = ParaphraseTask.train_step

    def audited(task: ParaphraseTask, sample: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("ignore_grad"):
            sys.audit("wean.trained", sample["id"].tolist())
        return step(task, sample, *args, **kwargs)

    def note(event: str, told: tuple[Any, ...]) -> None:
        if event == "wean.trained":
            with log.open("a") as file:
                file.write(f"{json.dumps(told[0])}\n")

    sys.addaudithook(note)
    ParaphraseTask.train_step = audited


def trained(folder: Path, data: Path, *arguments: object) -> tuple[Counter[int], str]:
    """Run a training. Return the pairs that it has used, and its output."""
    log = folder / "pairs"
    log.unlink(missing_ok=True)
    result = plugged("train", data, *MODEL, *RATE, "--save-dir", folder, *arguments, prepare=partial(watch, log))
    assert result.code == 0, result.describe()
    return Counter(pair for line in log.read_text().splitlines() for pair in json.loads(line)), result.out + result.err


@pytest.fixture(scope="module")
def begun(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Counter[int]]:
    """Return the folder of a training after 2 of the 4 updates of its first epoch, and the pairs that it used."""
    folder = tmp_path_factory.mktemp("begun")
    pairs, _ = trained(folder, texts / "bin.a", "--max-update", 2)
    assert 0 < pairs.total() < 100
    return folder, pairs


@pytest.mark.parametrize("name", ["batch size", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_a_training_with_other_options_begins_its_epoch_anew(
    name: str, texts: Path, begun: tuple[Path, Counter[int]], tmp_path: Path, reliability: Reliability
) -> None:
    options, why = OTHERS[name]
    folder = shutil.copytree(begun[0], tmp_path / "out")
    rest, said = trained(folder, texts / "bin.a", *options, "--max-epoch", 1)
    if why is None:
        assert "STARTS AGAIN" not in said and begun[1] + rest == Counter(range(100))
    else:
        assert "EPOCH 1 STARTS AGAIN" in said and why in said
        lines = (texts / "text.a" / "train.src").read_text().splitlines()
        limit = 5 if name == "max pair length" else 99
        fits = [number for number, line in enumerate(lines) if len(line.split()) <= limit]
        assert rest == Counter(fits)
    reliability.count("resumes with other options")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["inside", "boundary"])
def test_other_data_is_said(
    where: str, texts: Path, begun: tuple[Path, Counter[int]], tmp_path: Path, reliability: Reliability
) -> None:
    folder = shutil.copytree(begun[0], tmp_path / "out")
    if where == "boundary":
        trained(folder, texts / "bin.a", "--max-epoch", 1)
    rest, said = trained(folder, texts / "bin.b", "--max-epoch", 2 if where == "boundary" else 1)
    assert f"OTHER DATA: the pairs in {texts / 'bin.b'} are not those" in said
    assert ("STARTS AGAIN" in said) == (where == "inside") and rest == Counter(range(100))
    reliability.count("resumes with other options")
