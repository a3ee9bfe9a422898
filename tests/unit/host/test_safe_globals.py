"""Test that torch's safe loader loads checkpoints written by fairseq, and rejects hostile ones."""

import argparse
import codecs
import copyreg
import pickle
import typing
from pathlib import Path

import numpy as np
import pytest
import torch

from wean_fairseq.host import safe_globals


class RunsACommand:
    """The content of a hostile checkpoint: unpickling it writes a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


@pytest.mark.parametrize(
    "harmless",
    [argparse.Namespace(arch="lstm"), np.array([1, 2, 3]), {"counts": np.arange(4, dtype=np.int64)}],
    ids=["legacy arch", "array", "eval-bleu counts"],
)
def test_checkpoints_of_fairseq_load_with_the_safe_loader(harmless, tmp_path):
    torch.save({"cfg": harmless}, tmp_path / "checkpoint.pt")
    loaded = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["cfg"]
    assert str(loaded).replace("Counts(", "array(") == str(harmless)


def test_a_hostile_checkpoint_is_refused_and_nothing_runs(tmp_path):
    marker = tmp_path / "ran"
    torch.save({"model": RunsACommand(marker)}, tmp_path / "checkpoint.pt")
    with pytest.raises(Exception, match="Unsupported global"):
        torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert not marker.exists()


def test_the_allow_list_is_exactly_this():
    """Each new entry needs a test here which shows that loading it only creates data."""
    entries = [entry[0] if isinstance(entry, tuple) else entry for entry in safe_globals.safe_globals()]
    assert {f"{entry.__module__}.{entry.__qualname__}" for entry in entries if entry is not typing.Any} == {
        "argparse.Namespace",
        "builtins.dict",
        "builtins.int",
        "builtins.list",
        "collections.defaultdict",
        "fairseq.distributed.utils._TensorPlaceholder",
        "numpy.dtypes.Int64DType",
        "omegaconf.base.ContainerMetadata",
        "omegaconf.base.Metadata",
        "omegaconf.dictconfig.DictConfig",
        "omegaconf.listconfig.ListConfig",
        "omegaconf.nodes.AnyNode",
        "wean_fairseq.host.safe_globals.Counts",
        "wean_fairseq.host.safe_globals._empty_counts",
        "wean_fairseq.host.safe_globals._int64",
    }


class Dtype:
    """Object that is pickled as a NumPy dtype, with a state that NumPy itself never writes."""

    def __init__(self, code, *state):
        self.code = code
        self.state = state

    def __reduce__(self):
        return np.dtype, (self.code, False, True), *self.state


# The state describes integers with a field of Python objects in the same bytes.
ADDRESSES = (3, "<", None, ("a",), {"a": (Dtype("O8"), 0)}, 8, 8, 0)


class Array:
    """Object that is pickled as an array with this dtype and with the bytes of its numbers."""

    def __init__(self, dtype):
        self.dtype = dtype

    def __reduce__(self):
        reconstruct, given = np.zeros(0).__reduce__()[:2]
        return reconstruct, given, (1, (4,), self.dtype, False, b"AAAAAAAA" * 4)


def test_no_array_makes_its_numbers_addresses(tmp_path):
    """If such an array were printed or compared, the interpreter would crash, or run code at an address in the file."""
    path = tmp_path / "checkpoint.pt"
    torch.save({"counts": Array(Dtype("i8", ADDRESSES))}, path)
    # without the safe loader, NumPy accepts it
    assert torch.load(path, weights_only=False)["counts"].dtype.fields["a"][0] == np.dtype("O")
    with pytest.raises(ValueError, match="counts are int64, not 'O8'"):
        torch.load(path, weights_only=True)


@pytest.mark.parametrize(
    "state",
    [
        (3, "<", None, ("a",), {"a": (Dtype("i8"), 0)}, 8, 8, 0),
        (3, ">", None, None, None, 4, 1, 0),
        (3, "<", None, None, None, -1, -1, 63),  # flags of an array that contains Python objects
    ],
)
def test_nothing_changes_the_dtype_of_counts(tmp_path, state):
    torch.save({"counts": Array(Dtype("i8", state))}, tmp_path / "checkpoint.pt")
    found = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["counts"].dtype
    assert (found.fields, found.hasobject, found.itemsize, found.flags, found.str) == (None, False, 8, 0, "<i8")
    assert found is np.dtype(np.int64)


class Call:
    """Object that is pickled as a call of a function in the allow-list."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class NewArray(Call):
    """Object that is pickled as a call which creates an array: pickle asks the object for its class."""

    __class__ = property(lambda self: np.ndarray)


@pytest.mark.parametrize("dtype", ["O", "U1", "V8", "O,i8", "i4", "f8"])
@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: Call(np.ndarray, (1,), dtype, b"A" * 8),  # bytes of the file that NumPy would use as addresses
        lambda dtype: NewArray(copyreg.__newobj__, np.ndarray, (1,), dtype, b"A" * 8),
        lambda dtype: Call(np.zeros(0).__reduce__()[0], np.ndarray, (1,), dtype),
    ],
    ids=["array", "new array", "reconstruct"],
)
def test_no_call_makes_an_array_of_another_type(tmp_path, make, dtype):
    torch.save({"counts": make(dtype)}, tmp_path / "checkpoint.pt")
    counts = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["counts"]
    assert (counts.dtype, counts.size) == (np.int64, 0)


@pytest.mark.parametrize(
    "counts",
    [np.array([3, 2**40, 0, -1]), np.array(7), np.arange(6).reshape(2, 3), np.asfortranarray(np.eye(3, dtype=int))],
)
def test_counts_are_read_and_saved_unchanged(tmp_path, counts):
    for protocol in (2, 5):
        torch.save({"counts": counts}, tmp_path / "checkpoint.pt", pickle_protocol=2)
        read = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["counts"]
        np.testing.assert_array_equal(read, counts, strict=False)
        again = pickle.loads(pickle.dumps(read + 0, protocol))
        assert type(again) is np.ndarray and np.array_equal(again, counts)


@pytest.mark.parametrize("state", [(1, (-1, -4), "numbers"), (1, (5,), "numbers"), (1, (4,), [None] * 4)])
def test_counts_of_another_size_or_kind_are_refused(state):
    version, shape, numbers = state
    with pytest.raises(ValueError, match=r"reshape|unknown dimension|counts are int64"):
        safe_globals.Counts().__setstate__(
            (version, shape, np.dtype(int), False, b"A" * 32 if numbers == "numbers" else numbers)
        )


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (Call(codecs.encode, b"\0\0", "hex"), "bytes are written in latin1, not 'hex'"),
        (Call(codecs.encode, "w" * 9, "punycode"), "bytes are written in latin1, not 'punycode'"),
        # pickle writes latin1 without a hyphen
        (Call(codecs.encode, "w", "latin-1"), "bytes are written in latin1, not 'latin-1'"),
        (Call(bytearray, 10**4), "GLOBAL bytearray was not an allowed global"),
    ],
)
def test_no_call_multiplies_the_bytes_of_a_file(tmp_path, call, why):
    """Without this check, 25 nested calls of hex on 64 bytes took 37 s and 3.4 GB."""
    torch.save({"state": call}, tmp_path / "checkpoint.pt")
    with pytest.raises((ValueError, pickle.UnpicklingError), match=why):
        torch.load(tmp_path / "checkpoint.pt", weights_only=True)


def test_bytes_are_read(tmp_path):
    torch.save({"state": bytes(range(256))}, tmp_path / "checkpoint.pt", pickle_protocol=2)
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True) == {"state": bytes(range(256))}
