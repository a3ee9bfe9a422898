"""Test ``--embedding-file`` in every family that has it: vectors of the file, and all other weights from the seed."""

import gzip

import pytest
import torch

from tests.copy_contract import BASE, copy_task
from tests.model_contract import build_model
from wean_fairseq.errors import UserError

TRANSFORMER = {"embed_dim": 6, "ffn_dim": 8, "attention_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
RECURRENT = {"embed_dim": 6, "hidden_size": 6}
ARCHS = {
    "wean_lstm": RECURRENT,
    "seq2seq_lstm": RECURRENT,
    "copynet": RECURRENT,
    "rnnsearch": RECURRENT,
    "pointer_generator": RECURRENT,
    "pointer_generator_see2017": RECURRENT,
    "paraphrase_transformer": TRANSFORMER,
    "copy_transformer": TRANSFORMER | {"share_embeddings": True},
    "granularity_transformer": TRANSFORMER | {"ga_start_layer": 1},
}


@pytest.fixture(params=["vectors.txt", "vectors.vec.gz"])
def file(request, tmp_path):
    """Write the vectors of two dictionary words (ids 7 and 9) and of a word outside the dictionary."""
    path = tmp_path / request.param
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8") as file:
        file.write("3 6\nw3 1 2 3 4 5 6 \nelsewhere 9 9 9 9 9 9\nw5 6 5 4 3 2 1\n")
    return str(path)


@pytest.mark.parametrize("arch", ARCHS)
def test_known_words_start_from_their_vectors_and_the_rest_as_without(arch, file):
    task, sizes = copy_task(), ARCHS[arch]
    started = dict(build_model(arch, task, **sizes, embedding_file=file).named_parameters())
    plain = dict(build_model(arch, task, **sizes).named_parameters())
    changed = [name for name, weight in started.items() if not torch.equal(weight, plain[name])]
    assert len(changed) == (2 if sizes is not RECURRENT and not sizes.get("share_embeddings") else 1)
    others = [index for index in range(BASE) if index not in (7, 9)]
    for name in changed:
        assert started[name].shape == (BASE, 6)
        assert started[name][7].tolist() == [1, 2, 3, 4, 5, 6]
        assert started[name][9].tolist() == [6, 5, 4, 3, 2, 1]
        assert torch.equal(started[name][others], plain[name][others])


@pytest.mark.parametrize("arch", ["wean_lstm", "paraphrase_transformer"])
def test_another_width_is_refused(arch, file):
    sizes = ARCHS[arch] | {"embed_dim": 4} | ({"hidden_size": 4} if arch == "wean_lstm" else {})
    with pytest.raises(UserError, match="has vectors of width 6, but the model's embeddings are 4 wide"):
        build_model(arch, copy_task(), **sizes, embedding_file=file)


@pytest.mark.parametrize("content", [b"no archive", gzip.compress(b"w3 1 2 3 4 5 6\n" * 99)[:30]], ids=["text", "cut"])
def test_a_broken_archive_is_named(content, tmp_path):
    path = tmp_path / "vectors.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"vectors\.gz' cannot be read"):
        build_model("wean_lstm", copy_task(), **RECURRENT, embedding_file=str(path))
