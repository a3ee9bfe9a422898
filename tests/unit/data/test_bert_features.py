"""Test BERT's features against transformers called on one sentence at a time, and every directory that is refused."""

import json
import os
import shutil
import struct
import sys
import zipfile

import numpy as np
import pytest
import torch

from tests.bert_directory import LAYERS, WIDTH, write_bert
from wean_fairseq.data import bert_features
from wean_fairseq.data.bert_features import FrozenBert
from wean_fairseq.errors import UserError
from wean_fairseq.evaluation.metrics import embeddings
from wean_fairseq.storage import archive

transformers = pytest.importorskip("transformers")

PIECES = ["tea", "red", "##s", "##ish", "blue", "北", "京", "[unused1]"]
TOPICS = [("tea",), ("reds", "北京", "blue"), ("blue", "tea"), ("redish", "<unk>"), ("tea", "tea", "tea", "reds")]
# The pieces of each word, written by hand from PIECES.
PIECES_OF = {"tea": ["tea"], "reds": ["red", "##s"], "redish": ["red", "##ish"], "blue": ["blue"]}
PIECES_OF |= {"北京": ["北", "京"], "<unk>": ["[UNK]"], "[SEP]": ["[UNK]"] * 3}
# Words for sentences in which marks such as @@ do not belong to a word.
PIECES_OF |= {"red": ["red"], "北": ["北"], "京": ["京"], "￭": ["[UNK]"], "@@": ["[UNK]"]}
HALF = {"rtol": 1e-3, "atol": 1e-3}  # tolerances for the precision of float16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("bert"), PIECES)


@pytest.fixture
def copy(folder, tmp_path):
    """Return a copy of a BERT that the test can damage."""
    return shutil.copytree(folder, tmp_path / "copy")


def features(bert, topics):
    found = dict(bert.features(topics))
    return [found[number] for number in range(len(topics))]


@torch.no_grad()
def one_by_one(folder, words, separator="[PAD]", masked=()):
    """Return the features of one sentence, of shape (k, L, H), from a loop over its words and without padding."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokens, places = ["[CLS]"], []
    for number, word in enumerate(words):
        tokens += [separator] if number and separator else []
        places.append([len(tokens) + offset for offset in range(len(PIECES_OF[word]))])
        tokens += PIECES_OF[word]
    tokens.append("[SEP]")
    ids = torch.tensor([tokenizer.convert_tokens_to_ids(tokens)])
    mask = torch.tensor([[int(token not in masked) for token in tokens]])
    states = model(ids, attention_mask=mask, output_hidden_states=True).hidden_states
    assert len(states) == LAYERS + 1  # the first states are the embeddings
    return torch.stack([torch.stack([layer[0, place].mean(0) for layer in states[1:]]) for place in places]).numpy()


@pytest.mark.parametrize("separator", ["[PAD]", "[SEP]", "[unused1]", ""])
def test_features_are_the_layers_outputs_of_the_joint_sequence(folder, separator):
    """Test that sentences have the same features in a batch as alone, because padding is not attended."""
    for words, rows in zip(TOPICS, features(FrozenBert(str(folder), separator), TOPICS), strict=True):
        assert rows.shape == (len(words), LAYERS, WIDTH)
        np.testing.assert_allclose(rows, one_by_one(folder, words, separator), **HALF)


@pytest.mark.parametrize(
    ("units", "words"),
    [
        (("tea", "reds", "blue"), {"tea": 1, "reds": 1, "blue": 1}),
        (("re@@", "ds", "blue"), {"reds": 2, "blue": 1}),
        (("r@@", "e@@", "d@@", "s"), {"reds": 4}),
        (("re@@", "ds", "te@@", "a"), {"reds": 2, "tea": 2}),
        (("tea", "re@@", "dish@@"), {"tea": 1, "redish": 2}),  # this source was truncated within a word
        (("red@@", "<unk>", "tea"), {"red": 1, "<unk>": 1, "tea": 1}),
        (("￭tea", "￭re@@", "ds￭", "blue"), {"tea": 1, "reds": 2, "blue": 1}),
        (("北", "京", "tea"), {"北": 1, "京": 1, "tea": 1}),
        (("[SEP]", "￭", "@@"), {"[SEP]": 1, "￭": 1, "@@": 1}),
    ],
)
def test_each_unit_of_a_sentence_has_the_features_of_its_word(folder, units, words):
    """BERT reads the sentence without marks.

    ``words`` has the words, written by hand, and the number of units of each.
    """
    rows = features(FrozenBert(str(folder), None), [units])[0]
    expected = one_by_one(folder, words, separator="").repeat(list(words.values()), axis=0)
    np.testing.assert_allclose(rows, expected, **HALF)


def test_separators_are_attended(folder):
    """Compare with masked separators, as the paper may also be read, which would give different features."""
    rows = features(FrozenBert(str(folder)), TOPICS)[1]
    assert np.abs(rows - one_by_one(folder, TOPICS[1], masked=["[PAD]"])).max() > 0.05


def test_a_word_that_is_spelt_like_a_special_token_is_a_word(folder):
    rows = features(FrozenBert(str(folder)), [("tea", "[SEP]")])[0]
    np.testing.assert_allclose(rows, one_by_one(folder, ("tea", "[SEP]")), **HALF)


def test_more_sentences_than_a_batch_come_out_in_their_places(folder):
    many = [TOPICS[number * 7 % 5] for number in range(150)]
    alone = {words: features(FrozenBert(str(folder)), [words])[0] for words in TOPICS}
    for words, rows in zip(many, features(FrozenBert(str(folder)), many), strict=True):
        np.testing.assert_allclose(rows, alone[words], **HALF)


def test_bert_is_frozen(folder):
    """Test that no weight requires a gradient.

    Repeated calls give the same features, so dropout is off and BERT is not in training mode.
    """
    bert = FrozenBert(str(folder))
    first, second = features(bert, TOPICS), features(bert, TOPICS)
    assert not any(weight.requires_grad for weight in bert._model.parameters())
    assert all(np.array_equal(*pair) for pair in zip(first, second, strict=True))
    bert.release()
    assert np.array_equal(features(bert, TOPICS)[1], first[1])


def test_the_digest_is_of_config_weights_and_tokenizer(folder, copy):
    digest = FrozenBert(str(folder)).digest
    (copy / "README.md").write_text("another file")
    assert FrozenBert(str(copy)).digest == digest
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        content = (copy / name).read_bytes()
        (copy / name).write_bytes(content + b" ")
        assert FrozenBert(str(copy)).digest != digest
        (copy / name).write_bytes(content)
    assert FrozenBert(str(copy)).digest == digest
    assert len(digest) == 64


def test_sizes_are_those_of_the_config(folder):
    bert = FrozenBert(str(folder))
    assert (bert.num_layers, bert.dim, bert.path) == (LAYERS, WIDTH, str(folder))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "has no config.json"),
        ("model.safetensors", "has no weights"),
        ("tokenizer.json", "has no vocab.txt or tokenizer.json"),
    ],
)
def test_a_directory_without_all_files_is_refused(copy, name, message):
    (copy / name).unlink()
    with pytest.raises(UserError, match=message):
        FrozenBert(str(copy))


def test_a_missing_directory_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"there is no BERT directory '.*nowhere'"):
        FrozenBert(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("text", ["not json", "[]", '{"hidden_size": 10, "vocab_size": 9}', '{"hidden_size": "x"}'])
def test_a_config_of_something_else_is_refused(copy, text):
    (copy / "config.json").write_text(text)
    with pytest.raises(UserError, match=r"config.json does not describe a BERT"):
        FrozenBert(str(copy))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 10**7}, r"Expected `int` <= 1000 - at `\$.num_hidden_layers`"),
        ({"hidden_size": 1 << 16, "num_hidden_layers": 1000}, "describes a model of about 4,.* parameters"),
        ({"vocab_size": True}, r"Expected `int`, got `bool` - at `\$.vocab_size`"),
        ({"intermediate_size": 10**9}, r"Expected `int` <= 262144 - at `\$.intermediate_size`"),
        ({"max_position_embeddings": 10**10}, r"Expected `int` <= 1048576 - at `\$.max_position_embeddings`"),
        ({"type_vocab_size": 10**10}, r"Expected `int` <= 1024 - at `\$.type_vocab_size`"),
        ({"num_labels": 10**8}, r"Expected `int` <= 1000 - at `\$.num_labels`"),
        ({"id2label": {str(number): "x" for number in range(10**5)}}, "does not describe a BERT"),
        ({"hidden_size": "10"}, r"Expected `int`, got `str` - at `\$.hidden_size`"),
        # The check does not cover these sizes: 10^9 words around each word, and 100,000 languages.
        ({"model_type": "longformer", "attention_window": [10**9] * LAYERS}, "Invalid enum value 'longformer'"),
        ({"model_type": "xmod", "languages": ["a"] * 10**5}, "Invalid enum value 'xmod'"),
        ({"hidden_size": 0}, r"Expected `int` >= 1 - at `\$.hidden_size`"),
        ({"vocab_size": [9]}, r"Expected `int`, got `array` - at `\$.vocab_size`"),
    ],
)
def test_a_config_that_does_not_fit_its_weights_is_refused_before_anything_is_built(copy, changes, message):
    change_config(copy, **changes)
    with pytest.raises(UserError, match=message):
        FrozenBert(str(copy))


@pytest.mark.parametrize("name", ["num_attention_heads", "intermediate_size", "hidden_act", "layer_norm_eps"])
@pytest.mark.parametrize("value", [{}, [1], "x", None, -1])
def test_members_of_a_config_of_other_types_are_one_sentence(copy, name, value):
    change_config(copy, **{name: value})
    assert_refused(copy, "")


def test_a_vocabulary_that_is_not_utf8_is_one_sentence(copy):
    (copy / "tokenizer.json").unlink()
    (copy / "vocab.txt").write_bytes(b"[PAD]\n\xff\xfe\n")
    assert_refused(copy, "")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.safetensors", "but its files have 107,37.* bytes"),
        ("config.json", r"cannot be read \(File too large\)"),
        ("tokenizer.json", r"cannot be read \(File too large\)"),
        ("tokenizer_config.json", r"cannot be read \(File too large\)"),
    ],
)
def test_a_sparse_file_is_not_read(copy, name, message):
    """The file has 100 GB but uses no disk space. Hashing it alone would take minutes."""
    with (copy / name).open("r+b") as file:
        file.truncate(100 << 30)
    with pytest.raises(UserError, match=message):
        FrozenBert(str(copy))


def test_weights_with_a_header_of_many_tensors_are_refused(copy):
    """transformers takes half a minute to read the names of 400,000 empty tensors."""
    names = {f"x{number}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for number in range(70_000)}
    header = json.dumps(names).encode()
    assert len(header) > archive.LARGEST_HEADER
    (copy / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    assert_refused(copy, "model.safetensors has a header of more than 4 MiB: give --bert the original files")


def test_a_config_that_asks_for_outputs_without_names_is_one_sentence(copy):
    change_config(copy, return_dict=False)
    assert_refused(copy, "cannot be loaded: its config.json asks for outputs without names")


class Caller:
    """An object whose pickle calls ``open``."""

    def __reduce__(self):
        return open, ("written", "w")


@pytest.mark.parametrize(("value", "name"), [(os.getcwd, "posix.getcwd"), (Caller(), "io.open")])
def test_weights_that_call_functions_are_refused_without_advice_to_load_them(copy, value, name):
    """Test that torch's recommendation of weights_only=False is not shown."""
    (copy / "model.safetensors").unlink()
    torch.save({"weight": torch.ones(2), "a": value}, copy / "pytorch_model.bin")
    assert_refused(copy, f"cannot be loaded: its weights would call {name}, which no file of weights needs")


def test_a_longest_text_that_is_no_number_is_one_sentence(copy):
    config = json.loads((copy / "tokenizer_config.json").read_text())
    (copy / "tokenizer_config.json").write_text(json.dumps({**config, "model_max_length": "x"}))
    assert_refused(copy, "has no number as its model_max_length")


def test_control_characters_of_a_config_are_not_printed(copy, capfd):
    change_config(copy, use_return_dict="\x1b[31m")  # transformers logs this value as an error
    with pytest.raises(UserError, match="cannot be loaded"):
        bert_features.load_transformer(str(copy))
    change_config(copy, model_type="\x1b[31m")
    assert_refused(copy, "does not describe a BERT")
    with pytest.raises(UserError, match="cannot be loaded"):
        bert_features.load_transformer(str(copy))
    assert "\x1b" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(copy, name):
    (copy / name).unlink()
    os.mkfifo(copy / name)
    with pytest.raises(UserError, match=f"has no|{name} cannot be read"):
        FrozenBert(str(copy))


def test_weights_in_a_compressed_archive_are_refused(copy):
    (copy / "model.safetensors").unlink()
    with zipfile.ZipFile(copy / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("archive/data.pkl", bytes(1 << 20))
    with pytest.raises(UserError, match=r"pytorch_model\.bin has compressed members"):
        FrozenBert(str(copy))


def assert_refused(path, message, topics=(("tea",),), separator="[PAD]"):
    with pytest.raises(UserError, match=message) as caught:
        features(FrozenBert(str(path), separator), list(topics))
    assert "\n" not in str(caught.value)


def change_config(path, **changes):
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | changes))


@pytest.mark.parametrize(("layers", "message"), [(2, "is too many"), (4, "is missing")])
def test_weights_of_another_depth_are_refused(copy, layers, message):
    change_config(copy, num_hidden_layers=layers)
    assert_refused(copy, rf"do not fit its config.json \(.*layer.*{message}\)")


@pytest.mark.parametrize(
    ("size", "name"),
    [("intermediate_size", "encoder.layer.0.intermediate.dense.bias"), ("vocab_size", "embeddings.word_embeddings")],
)
def test_weights_of_another_size_are_refused(copy, size, name):
    change_config(copy, **{size: 16})
    assert_refused(copy, rf"do not fit its config.json \({name}.* has another size\)")


def test_broken_weights_are_refused(copy):
    (copy / "model.safetensors").write_bytes(b"broken")
    assert_refused(copy, "cannot be loaded: ")


@pytest.mark.parametrize(
    ("own", "foreign", "message"),
    [
        (8, 40, "its tokenizer has a piece 44, but the vocab_size is 13"),
        (30, 2, "its tokenizer knows 7 pieces, but the vocab_size is 35"),
    ],
)
def test_a_tokenizer_of_another_model_is_refused(tmp_path, own, foreign, message):
    """Test a tokenizer that is too small, as transformers creates an empty one if its files are missing."""
    copy = write_bert(tmp_path / "copy", [f"w{number}" for number in range(own)])
    other = write_bert(tmp_path / "other", [f"w{number}" for number in range(foreign)])
    shutil.copy(other / "tokenizer.json", copy)
    assert_refused(copy, message)


def test_a_model_may_have_rows_for_a_round_size(copy, caplog):
    """Test a model with embedding rows beyond the vocabulary, as models for fast hardware have them.

    A vocabulary that has lost a line looks the same.
    """
    model = transformers.BertForMaskedLM.from_pretrained(copy)
    model.resize_token_embeddings(16)
    model.save_pretrained(copy)
    assert "pieces" not in caplog.text
    assert len(features(FrozenBert(str(copy)), TOPICS)) == len(TOPICS)
    assert "knows 13 pieces, but the vocab_size is 16: if the model" in caplog.text


def test_a_separator_outside_the_vocabulary_is_refused(folder):
    assert_refused(folder, r"--topic-separator \[NONE\] is not a token", separator="[NONE]")


def test_topics_longer_than_bert_reads_are_refused(folder):
    assert_refused(folder, "are 27 pieces long, but .* reads 24: shorten this line.$", topics=[("tea",) * 13])
    advice = "reads 24: shorten this line, or give --length-policy truncate --max-pair-length N"
    assert_refused(folder, f"are 25 pieces long, but .* {advice}", topics=[("tea",) * 23], separator=None)


def test_outputs_that_are_no_numbers_are_refused(copy):
    model = transformers.BertForMaskedLM.from_pretrained(copy)
    model.bert.encoder.layer[1].output.dense.bias.data.fill_(float("nan"))
    model.save_pretrained(copy)
    assert_refused(copy, "are not finite numbers")


@pytest.mark.parametrize("load", [bert_features.load_transformer, embeddings.load_model])
def test_code_in_a_directory_is_not_run_whatever_the_standard_input_says(copy, tmp_path, monkeypatch, load):
    """transformers would ask for permission and read a line of the input text as the answer."""
    mark = tmp_path / "ran"
    code = f"open({str(mark)!r}, 'w')\nfrom transformers import BertConfig\nclass Config(BertConfig):\n    pass\n"
    (copy / "evil.py").write_text(code)
    config = json.loads((copy / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config"}}
    (copy / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(ValueError, match="contains custom code"):
        load(str(copy))
    assert not mark.exists()


@pytest.mark.parametrize("load", [bert_features.load_transformer, embeddings.load_model.__wrapped__])
@pytest.mark.parametrize(
    "entry",
    [
        {"_attn_implementation": "kernels-community/flash-attn2"},
        {"attn_implementation": {"": "flash_attention_2"}},
        {"text_config": {"_experts_implementation": "evil/evil"}},
        {"quantization_config": {"quant_method": "fbgemm_fp8"}},
    ],
)
def test_other_software_than_torch_is_refused(copy, entry, load):
    """With the library kernels, transformers would download the implementation of the attention, and run it."""
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"_attn_implementation": "sdpa"}))
    load(str(copy))
    (copy / "config.json").write_text(json.dumps(config | entry))
    with pytest.raises(UserError, match=r"config\.json asks for other software than torch by its entry "):
        load(str(copy))


def test_a_missing_library_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert_refused(folder, r"this needs transformers, which is not installed: pip install 'wean-fairseq\[bert\]'")
