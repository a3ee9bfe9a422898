"""Test weak labels in batches of the task.

They are aligned with their words, in every layout, or refused if they do not match.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.model_contract import EOS, PAD, build_model
from tests.unit.tasks.test_paraphrase import (  # noqa: F401 - `data` is a fixture
    DICTIONARY,
    LENGTHS,
    data,
    make_task,
    words,
)
from wean_fairseq.errors import UserError
from wean_fairseq.storage.files import sha256_of

SIZES = {"src": LENGTHS, "tgt": LENGTHS[::-1]}


def label(sentence, place, language):
    """Return a label that differs between positions."""
    return (sentence * 7 + place * place + (language == "tgt")) % 3 % 2


def write_labels(folder, splits=("train",), **changed):
    folder.mkdir(exist_ok=True)
    for split in splits:
        for language, sizes in SIZES.items():
            rows = [" ".join(str(label(n, i, language)) for i in range(size)) for n, size in enumerate(sizes)]
            (folder / f"{split}.{language}.z").write_text("".join(f"{row}\n" for row in rows))
    for name, text in changed.items():
        (folder / name.replace("_", ".")).write_text(text)
    return str(folder)


@pytest.fixture
def raw_data(tmp_path):
    for split in ("train", "valid"):
        for language, offset in (("src", 0), ("tgt", 3)):
            rows = [" ".join(DICTIONARY[word] for word in words(size, offset)) for size in SIZES[language]]
            (tmp_path / f"{split}.src-tgt.{language}").write_text("".join(f"{row}\n" for row in rows))
            DICTIONARY.save(str(tmp_path / f"dict.{language}.txt"))
    return tmp_path


def epoch_batches(task, split="train", epoch=1):
    task.load_dataset(split)
    iterator = task.get_batch_iterator(
        task.dataset(split), max_sentences=4, max_positions=(99, 99), ignore_invalid_inputs=True, seed=1, epoch=epoch
    )
    return list(iterator.next_epoch_itr(shuffle=True))


def check(batch, limit=99, left_pad_source=True):
    """Assert that every word has its label, that the end symbol has label 1, and that padding has label -1."""
    net_input = batch["net_input"]
    for language, tokens, labels in (
        ("src", net_input["src_tokens"], net_input["source_labels"]),
        ("tgt", batch["target"], net_input["target_labels"]),
    ):
        assert labels.shape == tokens.shape
        for row, number in enumerate(batch["id"].tolist()):
            size = min(SIZES[language][number], limit)
            expected = [*(label(number, place, language) for place in range(size)), 1]
            padding = [-1] * (tokens.size(1) - len(expected))
            left = language == "src" and left_pad_source
            assert labels[row].tolist() == (padding + expected if left else expected + padding)
            assert tokens[row].eq(PAD).tolist() == labels[row].eq(-1).tolist()


@pytest.mark.parametrize("left_pad_source", [True, False])
@pytest.mark.parametrize("kind", ["data", "raw_data"])
def test_every_word_has_its_label(kind, left_pad_source, request, tmp_path):
    folder = request.getfixturevalue(kind)
    labels = write_labels(tmp_path / "labels")
    task = make_task(folder, granularity_labels=labels, left_pad_source=left_pad_source)
    batches = epoch_batches(task)
    assert sorted(number for batch in batches for number in batch["id"].tolist()) == list(range(len(LENGTHS)))
    for batch in batches:
        check(batch, left_pad_source=left_pad_source)


def test_labels_are_cut_with_their_sentences(data, tmp_path):  # noqa: F811
    labels = write_labels(tmp_path / "labels")
    for policy, limit in (("truncate", 5), ("drop", 99)):
        task = make_task(data, granularity_labels=labels, max_pair_length=5, length_policy=policy)
        for batch in epoch_batches(task):
            check(batch, limit=limit)


def test_a_restart_in_a_later_epoch_sees_the_same_labels(data, tmp_path):  # noqa: F811
    labels = write_labels(tmp_path / "labels")
    first, second = (epoch_batches(make_task(data, granularity_labels=labels), epoch=3) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        check(one)
        assert torch.equal(one["net_input"]["source_labels"], other["net_input"]["source_labels"])


def test_labels_that_differ_from_their_manifest_are_refused(data, tmp_path):  # noqa: F811
    labels = write_labels(tmp_path / "labels")
    files = {"train.src.z": {"sha256": sha256_of(Path(labels, "train.src.z"))}, "train.tgt.z": {"sha256": "0" * 64}}
    Path(labels, "manifest.json").write_text(json.dumps({"files": files}))
    with pytest.raises(UserError, match=r"labels/train\.tgt\.z has changed since .*manifest\.json: restore it"):
        make_task(data, granularity_labels=labels).load_dataset("train")
    del files["train.src.z"]
    Path(labels, "manifest.json").write_text(json.dumps({"files": files}))
    with pytest.raises(UserError, match=r"labels/train\.src\.z is not in .*manifest\.json, which lists the other"):
        make_task(data, granularity_labels=labels).load_dataset("train")


def test_splits_without_labels_have_none(data, tmp_path):  # noqa: F811
    task = make_task(data, granularity_labels=write_labels(tmp_path / "labels"))
    assert "source_labels" not in epoch_batches(task, "valid")[0]["net_input"]
    assert "source_labels" not in epoch_batches(make_task(data))[0]["net_input"]
    both = make_task(data, granularity_labels=write_labels(tmp_path / "labels", ("train", "valid")))
    check(epoch_batches(both, "valid")[0])


def test_a_batch_with_labels_trains_the_model_and_the_task_tells_it_the_epoch(data, tmp_path):  # noqa: F811
    task = make_task(data, granularity_labels=write_labels(tmp_path / "labels"))
    batch = epoch_batches(task)[0]
    sizes = {"phrase_dim": 8, "phrase_heads": 2, "sentence_dim": 6, "sentence_heads": 3, "separator_dim": 4}
    model = build_model("dnpg", task, **sizes).train()
    sample, _ = task.map_slots(batch)
    for epoch, weight in ((1, 1.0), (4, 0.01)):
        task.begin_epoch(epoch, model)
        sums = model(**sample["net_input"], target=sample["target"])
        labels = sums.logged["source_label_loss"] + sums.logged["target_label_loss"]
        torch.testing.assert_close(sums.loss - sums.nll_loss, weight * labels, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train_src_z": "0 1\n"}, r"has labels of 1 sentence, but the data has 11"),
        ({"train_tgt_z": "\n".join(["0"] * 11)}, r"line 1 of .*train.tgt.z has 1 labels for 10 words"),
        ({"train_src_z": "0 1 2\n" + "\n".join(["0"] * 10)}, r"line 1 of .*train.src.z has labels other than 0 and 1"),
    ],
)
def test_labels_of_another_text_are_refused(changed, message, data, tmp_path):  # noqa: F811
    task = make_task(data, granularity_labels=write_labels(tmp_path / "labels", **changed))
    with pytest.raises(UserError, match=message):
        task.load_dataset("train")


def test_missing_files_are_named(data, tmp_path):  # noqa: F811
    with pytest.raises(UserError, match=r"--granularity-labels .*nowhere is not a directory"):
        make_task(data, granularity_labels=str(tmp_path / "nowhere")).load_dataset("train")
    labels = write_labels(tmp_path / "labels")
    for side in ("tgt", "src"):  # first one file is missing, then both
        (tmp_path / "labels" / f"train.{side}.z").unlink()
        with pytest.raises(UserError, match=rf"there is no .*train.{side}.z, which --granularity-labels asks for"):
            make_task(data, granularity_labels=labels).load_dataset("train")


def test_sizes_are_those_of_the_pairs(data, tmp_path):  # noqa: F811
    plain, labelled = make_task(data), make_task(data, granularity_labels=write_labels(tmp_path / "labels"))
    for task in (plain, labelled):
        task.load_dataset("train")
    assert np.array_equal(labelled.dataset("train").sizes, plain.dataset("train").sizes)
    assert labelled.dataset("train")[1]["source"].tolist() == [*words(9), EOS]
