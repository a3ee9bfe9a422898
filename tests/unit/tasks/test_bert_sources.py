"""Test ``--bert`` of the task ``paraphrase``. Sentences get features, and archs that read none are refused."""

from argparse import Namespace

import numpy as np
import pytest
import torch

from tests.bert_directory import LAYERS, WIDTH, write_bert
from tests.model_contract import EOS, PAD, make_dictionary
from tests.unit.tasks.test_paraphrase import make_task
from wean_fairseq.data.bert_features import FrozenBert
from wean_fairseq.errors import UserError

pytest.importorskip("transformers")

DICTIONARY = make_dictionary(9)
# `novel` is in no dictionary, and the last source is long
SOURCES = ["w1 w0", "w3", "w2 novel w5", "w1 w0", "w4 " * 12]
TARGETS = ["w7", "w3", "w2 w5", "w3 w4", "w4"]
SIZES = {"embed_dim": 6, "ffn_dim": 10, "attention_heads": 3, "encoder_layers": 1, "decoder_layers": 1}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("bert"), [*(f"w{number}" for number in range(8)), "novel"])


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data", SOURCES, TARGETS)


def write_data(folder, sources, targets):
    folder.mkdir()
    for language, lines in (("src", sources), ("tgt", targets)):
        DICTIONARY.save(str(folder / f"dict.{language}.txt"))
        for split in ("train", "test"):
            path = folder / f"{split}.src-tgt.{language}"
            path.write_text("".join(f"{line.strip()}\n" for line in lines), encoding="utf-8")
    return folder


def build(task, arch="copy_transformer", **options):
    torch.manual_seed(5)
    return task.build_model(Namespace(_name=arch, arch=arch, **options or SIZES)).eval()


def batch_of(task, split="train"):
    task.load_dataset(split)
    dataset = task.dataset(split)
    return dataset.collater([dataset[index] for index in range(len(dataset))])


def assert_are_features(bert, batch, sources):
    """Check that the features of each row are BERT's features of its words, and 0 at the end symbol and at padding."""
    net_input = batch["net_input"]
    rows = zip(net_input["bert_features"], net_input["src_tokens"], batch["id"].tolist(), strict=True)
    for row, tokens, number in rows:
        expected = torch.zeros(len(tokens), LAYERS, WIDTH)
        words = tuple(sources[number].split())
        if words:
            rows = dict(FrozenBert(str(bert), None).features([words]))[0]
            expected[tokens.ne(PAD) & tokens.ne(EOS)] = torch.from_numpy(rows).float()
        torch.testing.assert_close(row, expected, rtol=1e-3, atol=1e-3)


def test_features_come_with_every_batch_and_unknown_words_keep_theirs(data, bert):
    task = make_task(data, bert=str(bert))
    build(task)
    sample = batch_of(task)
    mapped, _ = task.map_slots(sample)
    assert_are_features(bert, mapped, SOURCES)
    assert "bert_features" not in sample["net_input"]


def test_a_model_reads_what_bert_says_of_an_unknown_word(data, bert):
    """Without copying, the model can distinguish two unknown words, both ``<unk>``, only by their BERT features."""
    task = make_task(data, bert=str(bert))
    model = build(task, **SIZES, copy_mode="none")
    outputs = []
    for word in ("novel", "newer", "novel"):
        line = task.source_dictionary.encode_line(f"w1 {word}").long()
        dataset = task.build_dataset_for_inference([line], np.array([len(line)]))
        mapped, _ = task.map_slots(dataset.collater([dataset[0]]))
        with torch.no_grad():
            outputs.append(model.encoder(**mapped["net_input"])["encoder_out"])
    assert torch.equal(outputs[0], outputs[2])
    assert not torch.allclose(outputs[0], outputs[1])


def test_without_the_option_batches_and_model_have_nothing_of_bert(data):
    task = make_task(data)
    assert not [name for name in build(task).state_dict() if "bert" in name]
    mapped, _ = task.map_slots(batch_of(task))
    assert set(mapped["net_input"]) == {"src_tokens", "src_lengths", "prev_output_tokens"}


@pytest.mark.parametrize("arch", ["wean_lstm", "granularity_transformer", "transformer"])
def test_archs_that_read_no_features_are_refused_with_the_names_of_those_that_do(data, bert, arch):
    message = f"--bert is for archs that read its features, and {arch} does not: leave it out, or choose from "
    with pytest.raises(UserError, match=f"{message}copy_transformer, paraphrase_transformer, pc_san"):
        build(make_task(data, bert=str(bert)), arch)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bert_cache": "somewhere"}, "--bert-cache is for --bert DIR"),
        ({"bert": "nowhere"}, "there is no BERT directory 'nowhere'"),
    ],
)
def test_options_that_make_no_sense_are_refused(data, options, message):
    with pytest.raises(UserError, match=message):
        make_task(data, **options)


def test_sentences_longer_than_bert_reads_are_refused_cut_or_left_out_as_the_options_say(tmp_path, bert):
    """The BERT of ``tests/bert_directory.py`` reads 24 pieces, which are 22 words and two special pieces."""
    sources = ["w1 w2", "w3 " * 23]
    data = write_data(tmp_path / "data", sources, ["w1", "w2"])
    with pytest.raises(UserError, match=r"are 25 pieces long, .* reads 24: .* --length-policy truncate"):
        make_task(data, bert=str(bert)).load_dataset("train")
    cut = make_task(data, bert=str(bert), max_pair_length=5, length_policy="truncate")
    mapped, _ = cut.map_slots(batch_of(cut))
    assert_are_features(bert, mapped, ["w1 w2", "w3 " * 5])
    make_task(data, bert=str(bert), max_pair_length=5).load_dataset("train")  # a longer training pair is left out
    with pytest.raises(UserError, match="are 25 pieces long"):  # a longer test pair is not left out but refused
        make_task(data, bert=str(bert), max_pair_length=5).load_dataset("test")


@pytest.mark.parametrize("sources", [["w1", ""], ["", ""]])
def test_an_empty_line_has_no_features(tmp_path, bert, sources):
    task = make_task(write_data(tmp_path / "data", sources, ["w1", "w2"]), bert=str(bert), keep_empty_lines=True)
    build(task)
    mapped, _ = task.map_slots(batch_of(task))
    assert_are_features(bert, mapped, sources)


def test_a_sentence_is_not_kept_in_the_file_of_topics(data, bert):
    """With the separator between topics, the same words have other features, so both tasks need separate files."""
    from wean_fairseq.tasks.topic_essay import TopicEssayConfig, TopicEssayTask

    make_task(data, bert=str(bert)).load_dataset("train")
    kept = set((data / "bert-features").iterdir())
    cfg = TopicEssayConfig(data=str(data), source_lang="src", target_lang="tgt", bert=str(bert), topic_separator="")
    cfg.required_seq_len_multiple, cfg.train_subset, cfg.max_topics, cfg.dataset_impl = 1, "train", 12, None
    TopicEssayTask.setup_task(cfg).load_dataset("train")
    assert len(set((data / "bert-features").iterdir()) - kept) == 2  # the features and their lock file
