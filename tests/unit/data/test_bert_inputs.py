"""Test stored features. They are placed in a batch, read without BERT, and rewritten by one process if damaged."""

import json
import logging
import os
import re
import shutil
import threading
from collections import namedtuple

import pytest
import torch

from tests.bert_directory import LAYERS, WIDTH, write_bert
from tests.model_contract import EOS, PAD, make_dictionary
from wean_fairseq.data.bert_features import FrozenBert
from wean_fairseq.data.bert_inputs import StoredFeatures
from wean_fairseq.errors import UserError

pytest.importorskip("transformers")

DICTIONARY = make_dictionary(9)  # the id of w0 is 4
TOPICS = [("w1", "w0"), ("w3",), ("w2", "w1", "w5"), ("w3",)]  # one topic list occurs twice


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("bert"), [f"w{number}" for number in range(8)])


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


class CountingBert(FrozenBert):
    """A ``FrozenBert`` that counts the sentences it reads."""

    read = 0

    def features(self, topics):
        for found in super().features(topics):
            self.read += 1
            yield found


def prepared(folder, cache, topics=TOPICS, separator="[PAD]"):
    """Return stored features and the number of sentences that BERT read for them."""
    bert = CountingBert(str(folder), separator)
    features = StoredFeatures(bert, cache)
    features.prepare("train", topics)
    return features, bert.read


def ids(*sentences, left_pad):
    """Return the ids of padded sentences as a tensor (B, S)."""
    rows = [[DICTIONARY.index(word) for word in words] + [EOS] for words in sentences]
    width = max(map(len, rows))
    return torch.tensor([[PAD] * (width - len(row)) * left_pad + row + [PAD] * (width - len(row)) * (not left_pad)
                         for row in rows])  # fmt: skip


def entries(cache):
    return sorted(path for path in cache.iterdir() if not path.name.startswith("."))


@pytest.mark.parametrize("left_pad", [True, False])
def test_features_stand_where_their_words_do(folder, cache, left_pad):
    """Test that each sentence's rows equal BERT's features. A loop finds these rows. All other rows are 0."""
    features, _ = prepared(folder, cache)
    sentences = [TOPICS[2], TOPICS[1], TOPICS[0]]
    src_tokens = ids(*sentences, left_pad=left_pad)
    aligned = features.align(src_tokens, DICTIONARY)
    assert aligned.shape == (*src_tokens.shape, LAYERS, WIDTH)
    assert aligned.dtype == torch.float32
    for row, words, places in zip(aligned, sentences, src_tokens, strict=True):
        expected = dict(FrozenBert(str(folder)).features([words]))[0]
        topic = 0
        for place, index in enumerate(places.tolist()):
            if index in (PAD, EOS):
                assert not row[place].any()
            else:
                torch.testing.assert_close(row[place], torch.from_numpy(expected[topic]).float(), rtol=1e-3, atol=1e-3)
                topic += 1
        assert topic == len(words)


def test_bert_reads_distinct_topics_once_and_never_again(folder, cache):
    features, read = prepared(folder, cache)
    assert read == 3
    again, read_again = prepared(folder, cache)
    assert read_again == 0
    src_tokens = ids(*TOPICS, left_pad=True)
    assert torch.equal(again.align(src_tokens, DICTIONARY), features.align(src_tokens, DICTIONARY))
    assert again.bert.read == 0


def test_topics_that_nobody_prepared_are_read_at_once(folder, cache):
    """Test the features of new topics, which fairseq-interactive needs. They must equal the stored features."""
    features, _ = prepared(folder, cache)
    known, new = ids(TOPICS[2], ("w6", "w7"), left_pad=True), ids(("w6", "w7"), left_pad=False)
    fresh = StoredFeatures(FrozenBert(str(folder)), cache)
    torch.testing.assert_close(features.align(known, DICTIONARY), fresh.align(known, DICTIONARY), rtol=1e-3, atol=1e-3)
    assert features.bert.read == 3 + 1
    assert fresh.align(new, DICTIONARY)[0, :2].abs().sum() > 1


def test_a_batch_without_topics_is_zero(folder, cache):
    features, _ = prepared(folder, cache)
    assert not features.align(torch.tensor([[PAD, EOS], [PAD, EOS]]), DICTIONARY).any()


def test_what_changes_the_features_asks_for_another_file(folder, cache, tmp_path):
    other = write_bert(tmp_path / "other", [f"w{number}" for number in range(8)], seed=4)
    makers = [
        lambda: prepared(folder, cache),
        lambda: prepared(folder, cache, separator="[SEP]"),
        lambda: prepared(other, cache),
        lambda: prepared(folder, cache, TOPICS[:2]),
        lambda: prepared(folder, cache, [("w1", "w0"), ("w3",), ("w2", "w1"), ("w5",)]),
    ]
    for number, make in enumerate(makers, start=1):
        assert make()[1] > 0
        assert len(entries(cache)) == number
    assert [make()[1] for make in makers] == [0] * len(makers)


def flip_a_bit(path):
    content = bytearray((path / "features.npy").read_bytes())
    content[-3] ^= 1
    (path / "features.npy").write_bytes(content)


def cut(path):
    content = (path / "features.npy").read_bytes()
    (path / "features.npy").write_bytes(content[:-7])


def claim_another_bert(path):
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | {"bert": "0" * 64}))


@pytest.mark.parametrize(
    "damage",
    [flip_a_bit, cut, claim_another_bert, shutil.rmtree, lambda path: (path / "manifest.json").unlink()],
    ids=["flipped bit", "cut off", "foreign", "gone", "no manifest"],
)
def test_a_damaged_or_foreign_file_is_computed_again(folder, cache, damage, caplog):
    prepared(folder, cache)
    good = {path.name: path.read_bytes() for path in entries(cache)[0].iterdir()}
    damage(entries(cache)[0])
    _, read = prepared(folder, cache)
    assert read == 3
    assert {path.name: path.read_bytes() for path in entries(cache)[0].iterdir()} == good
    assert ("is damaged or was not written by this package" in caplog.text) == (damage is not shutil.rmtree)


def test_a_run_that_is_stopped_leaves_nothing(folder, cache, monkeypatch):
    def stopped(self, topics):
        yield from list(super(CountingBert, self).features(topics))[:1]
        raise KeyboardInterrupt

    monkeypatch.setattr(CountingBert, "features", stopped)
    with pytest.raises(KeyboardInterrupt):
        prepared(folder, cache)
    assert [path.name for path in cache.iterdir() if not path.name.endswith(".lock")] == []
    monkeypatch.undo()
    assert prepared(folder, cache)[1] == 3


def test_what_a_killed_run_left_does_not_hinder(folder, cache):
    prepared(folder, cache)
    (complete,) = entries(cache)
    complete.rename(cache / ".wean-0123456789abcdef.partial")
    (cache / ".wean-0123456789abcdef.partial" / "manifest.json").unlink()
    assert prepared(folder, cache)[1] == 3
    assert [path.name for path in cache.iterdir() if path.name.endswith(".partial")] == []


def test_two_at_once_compute_once(folder, cache, monkeypatch, caplog):
    """Test that the second process waits for the first, which holds its lock until the file exists."""
    caplog.set_level(logging.INFO)
    started, go_on = threading.Event(), threading.Event()
    read = []

    def slow(self, topics):
        started.set()
        assert go_on.wait(60)
        for found in FrozenBert.features(self, topics):
            read.append(found[0])
            yield found

    monkeypatch.setattr(CountingBert, "features", slow)
    threads = [threading.Thread(target=prepared, args=(folder, cache)) for _ in range(2)]
    threads[0].start()
    assert started.wait(60)
    threads[1].start()
    while "waiting for it" not in caplog.text and threads[1].is_alive():
        threads[1].join(0.01)
    go_on.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(read) == [0, 1, 2]
    assert len(entries(cache)) == 1
    assert "waiting for it" in caplog.text


@pytest.mark.parametrize("damage", ["pipe", "archive", "brace"])
def test_damaged_features_are_computed_again(folder, cache, damage):
    """A pipe made the training wait without end. NumPy raised errors of many kinds for the others."""
    prepared(folder, cache)
    file = next(cache.glob("*/features.npy"))
    content = file.read_bytes()
    file.unlink()
    if damage == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(b"PK\x03\x04" if damage == "archive" else content.replace(b"}", b"{", 1))
    _, read = prepared(folder, cache)
    assert (read, file.read_bytes()) == (3, content)


def test_a_directory_that_cannot_be_used_is_named(folder, cache):
    cache.write_text("a file")
    with pytest.raises(UserError, match=r"cannot be kept in .*cache \(File exists\): .* --bert-cache"):
        prepared(folder, cache)


@pytest.mark.parametrize(
    ("topics", "separator", "unknown", "words"),
    [
        ([("x",), ("y", "x")], "[PAD]", 2, 2),
        ([("x", "<unk>"), ("<unk>",)], None, 1, 1),
        ([("x@@", "y"), ("z",)], None, 2, 2),
        ([("w1", "x"), ("y", "z")], None, 3, 4),
    ],
)
def test_words_that_bert_does_not_know_are_counted(folder, cache, caplog, topics, separator, unknown, words):
    """A BERT of another language reads every word as [UNK]. Different words without subword marks are counted."""
    bert = CountingBert(str(folder), separator)
    reads = f"the BERT in {folder} reads {unknown} of {words} different words of train as [UNK]"
    if unknown == words:
        with pytest.raises(UserError, match=re.escape(f"{reads}: it is for another language, or")):
            StoredFeatures(bert, cache).prepare("train", topics, training=True)
        assert (bert.read, entries(cache)) == (0, [])
    warning = f"{reads}: it cannot distinguish these words"
    for is_old in (False, False, True):  # without features, with stored ones, and with those of an older version
        if is_old:
            (entry,) = entries(cache)
            content = json.loads((entry / "manifest.json").read_text())
            assert content.pop("unknown") == [unknown, words]
            (entry / "manifest.json").write_text(json.dumps(content))
        caplog.clear()
        StoredFeatures(bert, cache).prepare("train", topics)
        found = [record.message for record in caplog.records if record.levelno == logging.WARNING]
        assert found == [] if is_old else [warning]
        if unknown == words and not is_old:
            with pytest.raises(UserError, match=re.escape(f"{reads}: it is for another language, or")):
                StoredFeatures(bert, cache).prepare("train", topics, training=True)
    assert bert.read == len(set(topics))


@pytest.mark.parametrize("topics", [TOPICS, [("w1", "x")], [("<unk>",)]])
def test_a_bert_that_knows_most_words_is_not_reported(folder, cache, caplog, topics):
    StoredFeatures(CountingBert(str(folder)), cache).prepare("train", topics, training=True)
    assert not [record for record in caplog.records if record.levelno == logging.WARNING]


def test_a_full_disk_is_named_before_bert_runs(folder, cache, monkeypatch):
    usage = namedtuple("usage", "total used free")(100, 1, 99)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    bert = CountingBert(str(folder))
    with pytest.raises(UserError, match=r"which .*cache has no room for"):
        StoredFeatures(bert, cache).prepare("train", TOPICS)
    assert bert.read == 0
