"""Test the batches of the task for training, validation and search, and invalid input, on data written in the test."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data import indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: F401 - initialises fairseq's config store
from fairseq.models import ARCH_MODEL_REGISTRY

from tests.bert_directory import LAYERS, WIDTH, write_bert
from tests.model_contract import EOS, PAD, UNK, make_dictionary
from wean_fairseq.capabilities import Capabilities
from wean_fairseq.data.bert_features import FrozenBert
from wean_fairseq.errors import UserError
from wean_fairseq.tasks.topic_essay import TopicEssayConfig, TopicEssayTask

DICTIONARY = make_dictionary(9)
TOPICS = ["w1 w0", "w3", "w2 novel w5", "w3"]  # `novel` is in no dictionary
ESSAYS = ["w7 w8 w1", "w3", "w2 w5 w6 w7 w8", "w3 w4"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    pytest.importorskip("transformers")
    return write_bert(tmp_path_factory.mktemp("bert"), [*(f"w{number}" for number in range(8)), "novel"])


def write_data(folder, split, topics, essays, raw, dictionary=DICTIONARY):
    folder.mkdir(exist_ok=True)
    for language, lines in (("src", topics), ("tgt", essays)):
        dictionary.save(str(folder / f"dict.{language}.txt"))
        prefix = str(folder / f"{split}.src-tgt.{language}")
        if raw:
            Path(prefix).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            continue
        builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=len(dictionary))
        for line in lines:
            builder.add_item(dictionary.encode_line(line, add_if_not_exist=False).long())
        builder.finalize(f"{prefix}.idx")


@pytest.fixture(params=[True, False], ids=["raw", "binary"])
def data(request, tmp_path):
    for split in ("train", "test"):
        write_data(tmp_path / "data", split, TOPICS, ESSAYS, request.param)
    return tmp_path / "data"


def make_task(data, **options):
    cfg = TopicEssayConfig(
        data=str(data), source_lang="src", target_lang="tgt", train_subset="train", dataset_impl=None
    )
    cfg.required_seq_len_multiple, cfg.num_shards, cfg.shard_id = 1, 1, 0  # fairseq takes them from its dataset options
    for name, value in options.items():
        setattr(cfg, name, value)
    return TopicEssayTask.setup_task(cfg)


class Model(torch.nn.Module):
    """A model that the task can build, and that keeps its batch."""

    capabilities = Capabilities(inputs=("bert_features",))

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))
        self.seen = None

    def set_num_updates(self, number):
        """Do nothing, because fairseq only requires this method."""


class PlanningModel(Model):
    capabilities = Capabilities(needs_length=True, inputs=("bert_features",))


class PlainModel(Model):
    capabilities = Capabilities()


@pytest.fixture(autouse=True)
def _register(monkeypatch):
    for name, model in (("reads", Model), ("plans", PlanningModel), ("plain", PlainModel)):
        monkeypatch.setitem(ARCH_MODEL_REGISTRY, name, model)


def build(task, arch, monkeypatch):
    """Build the model without fairseq's own function, which needs a registered dataclass."""
    monkeypatch.setattr("fairseq.models.build_model", lambda cfg, task, _: ARCH_MODEL_REGISTRY[cfg._name]())
    return task.build_model(SimpleNamespace(_name=arch))


def batch_of(task, split="train"):
    task.load_dataset(split)
    dataset = task.dataset(split)
    return dataset.collater([dataset[index] for index in range(len(dataset))])


class Criterion(torch.nn.Module):
    """A criterion that keeps the batch."""

    def forward(self, model, sample):
        self.net_input = sample["net_input"]
        return model.weight * 1, 1, {}


class Generator:
    """A generator that keeps the batch and returns no hypotheses."""

    def generate(self, models, sample, **kwargs):
        self.net_input = sample["net_input"]
        return []


class Optimizer:
    def backward(self, loss):
        loss.backward()


def three_ways(task, model, sample):
    """Return ``net_input`` as it reaches the model in training, in validation and in search."""
    criterion, generator, seen = Criterion(), Generator(), []
    task.train_step(sample, model, criterion, Optimizer(), 0)
    seen.append(criterion.net_input)
    task.valid_step(sample, model, criterion)
    seen.append(criterion.net_input)
    task.inference_step(generator, [model], sample)
    return [*seen, generator.net_input]


def test_without_options_a_batch_is_that_of_the_paraphrase_task(data, monkeypatch):
    task = make_task(data)
    model = build(task, "plain", monkeypatch)
    for net_input in three_ways(task, model, batch_of(task)):
        assert set(net_input) == {"src_tokens", "src_lengths", "prev_output_tokens"}
        assert int(net_input["src_tokens"].max()) < len(DICTIONARY)
    assert not task.extra_inputs


def test_features_come_with_every_batch(data, bert, monkeypatch):
    """The task turns the ids of each row into words, and asks BERT for features of these words.

    The binary data does not have the spelling of one word.
    """
    task = make_task(data, bert=str(bert))
    model = build(task, "reads", monkeypatch)
    sample = batch_of(task)
    raw = str(task.cfg.dataset_impl) == "raw"
    before = sample["net_input"]["src_tokens"].clone()
    for net_input in three_ways(task, model, sample):
        features, src_tokens = net_input["bert_features"], net_input["src_tokens"]
        assert features.shape == (*src_tokens.shape, LAYERS, WIDTH)
        assert "essay_lengths" not in net_input
        for row, tokens, number in zip(features, src_tokens, sample["id"].tolist(), strict=True):
            words = TOPICS[number].split()
            read = tuple("<unk>" if word == "novel" and not raw else word for word in words)
            assert tokens.tolist()[-1 - len(words) :] == [*(DICTIONARY.index(word) for word in words), EOS]
            expected = torch.from_numpy(dict(FrozenBert(str(bert)).features([read]))[0]).float()
            torch.testing.assert_close(row[-1 - len(words) : -1], expected, rtol=1e-3, atol=1e-3)
            assert not row[: -1 - len(words)].any() and not row[-1].any()
    assert torch.equal(sample["net_input"]["src_tokens"], before)
    assert "bert_features" not in sample["net_input"]  # the original batch, which may be printed, is unchanged


def test_the_task_offers_bert_to_models(data, bert):
    """PC-SAN stores the digest of BERT in its checkpoints."""
    found = make_task(data, bert=str(bert)).bert
    assert (found.num_layers, found.dim, found.path, len(found.digest)) == (LAYERS, WIDTH, str(bert), 64)


def test_features_are_kept_beside_the_data_or_where_asked(data, bert, tmp_path):
    make_task(data, bert=str(bert)).load_dataset("train")
    assert len([path for path in (data / "bert-features").iterdir() if path.is_dir()]) == 1
    make_task(data, bert=str(bert), bert_cache=str(tmp_path / "elsewhere")).load_dataset("train")
    assert (tmp_path / "elsewhere").is_dir()


def test_typed_topics_get_features_too(data, bert, monkeypatch):
    """fairseq-interactive builds its own batches, which contain only ids."""
    task = make_task(data, bert=str(bert))
    model = build(task, "reads", monkeypatch)
    line = task.source_dictionary.encode_line("novel w6").long()
    dataset = task.build_dataset_for_inference([line], np.array([3]))
    net_input = dataset.collater([dataset[0]])["net_input"]
    typed = {"net_input": {name: net_input[name] for name in ("src_tokens", "src_lengths")}}
    generator = Generator()
    task.inference_step(generator, [model], typed)
    expected = torch.from_numpy(dict(FrozenBert(str(bert)).features([("novel", "w6")]))[0]).float()
    torch.testing.assert_close(generator.net_input["bert_features"][0, :2], expected, rtol=1e-3, atol=1e-3)
    assert generator.net_input["src_tokens"].tolist() == [[UNK, DICTIONARY.index("w6"), EOS]]


def test_lengths_are_those_of_the_essays_until_one_is_asked_for(data, monkeypatch):
    task = make_task(data, essay_length=40)
    model = build(task, "plans", monkeypatch)
    sample = batch_of(task)
    trained, validated, searched = three_ways(task, model, sample)
    words = [len(ESSAYS[number].split()) + 1 for number in sample["id"].tolist()]
    assert trained["essay_lengths"].tolist() == validated["essay_lengths"].tolist() == words
    assert searched["essay_lengths"].tolist() == [40] * 4
    assert trained["essay_lengths"].dtype == torch.long


def test_a_length_that_is_needed_and_not_given_is_asked_for(data, monkeypatch):
    task = make_task(data)
    model = build(task, "plans", monkeypatch)
    with pytest.raises(UserError, match="say with --essay-length N"):
        task.inference_step(Generator(), [model], batch_of(task, "test"))
    # The error must come before the training starts, and not at the first validation.
    with pytest.raises(UserError, match="say with --essay-length N"):
        build(make_task(data, eval_bleu=True), "plans", monkeypatch)


def test_a_model_that_reads_no_features_is_refused_with_bert(data, bert, monkeypatch):
    with pytest.raises(UserError, match="--bert is for archs that read its features, and plain does not"):
        build(make_task(data, bert=str(bert)), "plain", monkeypatch)


def test_an_ensemble_of_models_that_want_different_batches_is_refused(data, monkeypatch):
    task = make_task(data)
    build(task, "plans", monkeypatch)
    build(task, "plans", monkeypatch)
    with pytest.raises(UserError, match="an ensemble is of archs that plan by length"):
        build(task, "plain", monkeypatch)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_topics": 0}, "--max-topics must be 1 or more, but is 0"),
        ({"essay_length": -1}, "--essay-length must be 0"),
        ({"bert_cache": "somewhere"}, "--bert-cache is for --bert DIR"),
        ({"bert": "nowhere"}, "there is no BERT directory 'nowhere'"),
    ],
)
def test_options_that_make_no_sense_are_refused(data, options, message):
    with pytest.raises(UserError, match=message):
        make_task(data, **options)


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "binary"])
@pytest.mark.parametrize(
    ("topics", "essays", "message"),
    [
        (["w1", "w1 w2 w3 w4 w5 w6"], ["w1", "w2"], r"train has 1 line\(s\) with more than 5 topics \(line 2 has 6\)"),
        (["w1", "new newer"], ["w1", "w2"], None),
        (["newest", "new newer"], ["w1", "w2"], "none of the 3 topic words of train is in the dictionary"),
        (["w1", ""], ["w1", "w2"], r"has 1 empty line\(s\) \(line 2\)"),
    ],
)
def test_lines_that_are_no_topics_are_refused(tmp_path, raw, topics, essays, message, caplog):
    write_data(tmp_path / "data", "train", topics, essays, raw)
    task = make_task(tmp_path / "data")
    if message is None:
        task.load_dataset("train")
        assert "train: 2 of 3 topic words (66.7%) are not in the dictionary" in caplog.text
        return
    with pytest.raises(UserError, match=message):
        task.load_dataset("train")


def test_an_empty_topic_line_is_refused_even_where_empty_lines_are_kept(tmp_path):
    write_data(tmp_path / "data", "train", ["w1", ""], ["w1", "w2"], raw=False)
    with pytest.raises(UserError, match=r"train has 1 line\(s\) without a topic \(line 2\)"):
        make_task(tmp_path / "data", keep_empty_lines=True).load_dataset("train")


@pytest.mark.parametrize("in_dictionary", [True, False])
@pytest.mark.parametrize(("topics", "essay"), [("w1 </d> w2", "w1"), ("w1", "w2 w3 </d> w1")])
def test_the_released_format_is_recognised(tmp_path, in_dictionary, topics, essay):
    """The format is recognised in the text, whether the separator is in the dictionary or not."""
    with_mark = make_dictionary(9)
    if in_dictionary:
        with_mark.add_symbol("</d>")
    write_data(tmp_path / "data", "train", ["w1", topics], ["w1", essay], True, with_mark)
    with pytest.raises(UserError, match=r"train has 1 .* with </d> \(line 2\), .* preprocess/essay.py"):
        make_task(tmp_path / "data").load_dataset("train")


def test_the_released_format_is_recognised_in_binary_data(tmp_path):
    with_mark = make_dictionary(9)
    with_mark.add_symbol("</d>")
    write_data(tmp_path / "data", "train", ["w1"], ["w1 </d> w2"], False, with_mark)
    with pytest.raises(UserError, match=r"train has 1 essay\(s\) with </d>"):
        make_task(tmp_path / "data").load_dataset("train")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("w1 w2 w3 w4 w5 w6", r"the input has 1 line\(s\) with more than 5 topics"),
        ("w1 </d> w2", r"the input has 1 topic line\(s\) with </d>"),
        ("", r"the input has 1 line\(s\) without a topic"),
    ],
)
def test_typed_lines_that_are_no_topics_are_refused(data, line, message):
    task = make_task(data)
    ids = task.source_dictionary.encode_line(line).long()
    with pytest.raises(UserError, match=message):
        task.build_dataset_for_inference([ids], np.array([len(ids)]))


def test_lost_spellings_are_told_once_a_split(data, bert, caplog):
    task = make_task(data, bert=str(bert))
    task.load_dataset("train")
    said = [record.getMessage() for record in caplog.records if "topic words" in record.getMessage()]
    raw = str(task.cfg.dataset_impl) == "raw"
    assert len(said) == 1
    assert said[0].startswith("train: 1 of 7 topic words (14.3%) are not in the dictionary")
    assert ("BERT reads [UNK]" in said[0]) == (not raw)


def test_padding_on_the_right_is_followed(data, bert, monkeypatch):
    task = make_task(data, bert=str(bert), left_pad_source=False)
    model = build(task, "reads", monkeypatch)
    for net_input in three_ways(task, model, batch_of(task)):
        has_features = net_input["bert_features"].flatten(2).abs().sum(-1) > 0
        src_tokens = net_input["src_tokens"]
        assert torch.equal(has_features, src_tokens.ne(PAD) & src_tokens.ne(EOS))
        assert bool((src_tokens[:, -1] == PAD).any())
