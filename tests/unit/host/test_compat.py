"""The promises of ``compat``: safe checkpoints load, hostile ones do not, the host is mended, errors are short."""

import argparse
import copyreg
import importlib.util
import pickle
import subprocess
import sys
import typing
import warnings
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import utils
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import progress_bar

from wean_fairseq.host import compat
from wean_fairseq.optional import hide_broken_torchaudio

ROOT = Path(__file__).resolve().parents[3]


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
def test_what_fairseq_itself_writes_loads_with_the_safe_loader(harmless, tmp_path):
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
    """Whoever adds to it must show here that loading the thing does nothing but make data."""
    entries = [entry[0] if isinstance(entry, tuple) else entry for entry in compat.safe_globals()]
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
        "wean_fairseq.host.compat.Counts",
        "wean_fairseq.host.compat._empty_counts",
        "wean_fairseq.host.compat._int64",
    }


class Dtype:
    """Pickled, it is a dtype of NumPy with the state that a file gives it; NumPy's own pickles have none of others."""

    def __init__(self, code, *state):
        self.code = code
        self.state = state

    def __reduce__(self):
        return np.dtype, (self.code, False, True), *self.state


# Integers with a field of Python objects in their place.
ADDRESSES = (3, "<", None, ("a",), {"a": (Dtype("O8"), 0)}, 8, 8, 0)


class Array:
    """Pickled, it is an array of a dtype and the bytes of its numbers."""

    def __init__(self, dtype):
        self.dtype = dtype

    def __reduce__(self):
        reconstruct, given = np.zeros(0).__reduce__()[:2]
        return reconstruct, given, (1, (4,), self.dtype, False, b"AAAAAAAA" * 4)


def test_no_array_says_that_its_numbers_are_addresses(tmp_path):
    """To print one, or to compare it, would end the interpreter, or run what is at an address that the file chose."""
    path = tmp_path / "checkpoint.pt"
    torch.save({"counts": Array(Dtype("i8", ADDRESSES))}, path)
    assert torch.load(path, weights_only=False)["counts"].dtype.fields["a"][0] == np.dtype("O")  # NumPy believes it
    with pytest.raises(ValueError, match="counts are int64, not 'O8'"):
        torch.load(path, weights_only=True)


@pytest.mark.parametrize(
    "state",
    [
        (3, "<", None, ("a",), {"a": (Dtype("i8"), 0)}, 8, 8, 0),
        (3, ">", None, None, None, 4, 1, 0),
        (3, "<", None, None, None, -1, -1, 63),  # as if it held objects
    ],
)
def test_nothing_changes_the_dtype_of_counts(tmp_path, state):
    torch.save({"counts": Array(Dtype("i8", state))}, tmp_path / "checkpoint.pt")
    found = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["counts"].dtype
    assert (found.fields, found.hasobject, found.itemsize, found.flags, found.str) == (None, False, 8, 0, "<i8")
    assert found is np.dtype(np.int64)


class Call:
    """Pickled, it is a call of something that the allow-list has."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class NewArray(Call):
    """The same for what makes an instance: pickle asks an object for its class."""

    __class__ = property(lambda self: np.ndarray)


@pytest.mark.parametrize("dtype", ["O", "U1", "V8", "O,i8", "i4", "f8"])
@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: Call(np.ndarray, (1,), dtype, b"A" * 8),  # numbers that the file chose, read as addresses
        lambda dtype: NewArray(copyreg.__newobj__, np.ndarray, (1,), dtype, b"A" * 8),
        lambda dtype: Call(np.zeros(0).__reduce__()[0], np.ndarray, (1,), dtype),
    ],
    ids=["array", "new array", "reconstruct"],
)
def test_no_way_makes_an_array_of_something_else(tmp_path, make, dtype):
    torch.save({"counts": make(dtype)}, tmp_path / "checkpoint.pt")
    counts = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["counts"]
    assert (counts.dtype, counts.size) == (np.int64, 0)


@pytest.mark.parametrize(
    "counts",
    [np.array([3, 2**40, 0, -1]), np.array(7), np.arange(6).reshape(2, 3), np.asfortranarray(np.eye(3, dtype=int))],
)
def test_counts_are_read_and_saved_as_they_were(tmp_path, counts):
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
        compat.Counts().__setstate__(
            (version, shape, np.dtype(int), False, b"A" * 32 if numbers == "numbers" else numbers)
        )


def test_torchrun_without_a_gpu_sets_the_process_up(monkeypatch):
    """fairseq's own version divides by the number of GPUs."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    cfg = Namespace()
    distributed_utils._infer_torch_distributed_launch_init(cfg)
    assert vars(cfg) == {
        "distributed_init_method": "env://",
        "distributed_world_size": 2,
        "distributed_rank": 1,
        "device_id": 0,
        "distributed_no_spawn": True,
    }


LAUNCHERS = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "SLURM_NTASKS", "SLURM_NNODES")
TORCHRUN = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "WORLD_SIZE": "4", "RANK": "3"}


@pytest.mark.parametrize(
    ("environment", "port", "expected"),
    [
        ({}, -1, 1),
        (TORCHRUN, -1, 4),
        ({"SLURM_NTASKS": "32", "SLURM_NNODES": "4"}, 29500, 32),
        ({"SLURM_NTASKS": "32", "SLURM_NNODES": "4"}, -1, 1),  # nobody asked for more than this process
        ({"SLURM_NTASKS": "4", "SLURM_NNODES": "4"}, 29500, 4),  # of nodes with one task fairseq counts the GPUs
    ],
)
def test_the_launcher_says_how_many_processes_there_are(monkeypatch, environment, port, expected):
    """fairseq's own version lets each process train alone where it sees a single GPU or none."""
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    seen = []
    monkeypatch.setattr(compat, "_infer_init_method", lambda cfg, force: seen.append(cfg.distributed_world_size))
    distributed_utils.infer_init_method(Namespace(distributed_world_size=1, distributed_port=port))
    assert seen == [expected]


@pytest.mark.parametrize(("gpus", "expected"), [(0, 0), (1, 0), (8, 3)], ids=["none", "its own", "all of the node"])
def test_a_task_of_slurm_uses_a_gpu_that_it_sees(monkeypatch, gpus, expected):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setenv("SLURM_NTASKS", "4")
    monkeypatch.setenv("SLURM_PROCID", "3")
    cfg = Namespace(device_id=3)
    monkeypatch.setattr(compat, "_infer_slurm_init", lambda cfg, pipelines: True)
    assert distributed_utils._infer_slurm_init(cfg, None)
    assert cfg.device_id == expected


@pytest.mark.parametrize("tasks", [2, 4])
def test_tasks_of_slurm_without_a_gpu_are_the_processes(monkeypatch, tasks):
    """Of two machines; fairseq's own version lets those that are alone on theirs train alone, or starts none."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(subprocess, "check_output", lambda line: b"one\ntwo\n")
    monkeypatch.delenv("SLURM_NTASKS_PER_NODE", raising=False)
    rank = tasks - 1
    variables = {"STEP_NODELIST": "one,two", "NNODES": 2, "NTASKS": tasks, "PROCID": rank, "NODEID": 1}
    for name, value in {**variables, "LOCALID": tasks // 2 - 1}.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    cfg = Namespace(distributed_world_size=1, distributed_port=29500, distributed_no_spawn=False, device_id=0)
    cfg.distributed_init_method, cfg.tpu, cfg.pipeline_model_parallel = None, False, False
    distributed_utils.infer_init_method(cfg)
    assert (cfg.distributed_world_size, cfg.distributed_rank, cfg.device_id) == (tasks, rank, 0)
    assert cfg.distributed_init_method == "tcp://one:29500" and cfg.distributed_no_spawn


def test_replace_unk_without_a_file_means_the_word_itself(tmp_path):
    assert utils.load_align_dict("@@ ") == {}  # what fairseq makes of the bare flag
    assert utils.load_align_dict("") == {}
    assert utils.load_align_dict(None) is None
    (tmp_path / "words.txt").write_text("cat dog\n")
    assert utils.load_align_dict(str(tmp_path / "words.txt")) == {"cat": "dog"}


@pytest.mark.parametrize(
    "message",
    [
        "\n'config' is validated against ConfigStore schema with the same name.",
        "\nThe strict flag in the compose API is deprecated.",
        "'pin_memory' argument is set as true but no accelerator is found",
        "`torch.cuda.amp.autocast(args...)` is deprecated.",
    ],
)
def test_noise_of_the_host_is_not_shown_but_other_warnings_are(message):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compat.install()
        warnings.warn(message, UserWarning, stacklevel=1)
        warnings.warn("something of the user's", UserWarning, stacklevel=1)
    assert [str(entry.message) for entry in caught] == ["something of the user's"]


@pytest.mark.parametrize("traceback_wanted", [False, True])
def test_a_user_error_is_one_sentence_unless_a_traceback_is_wanted(monkeypatch, traceback_wanted):
    monkeypatch.setenv("WEAN_TRACEBACK", "1" if traceback_wanted else "")
    code = "import wean_fairseq; from wean_fairseq.errors import UserError; raise UserError('too long')"
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, cwd=ROOT)
    shown = result.stderr.splitlines()
    assert result.returncode == 1
    assert "too long" in shown[-1]
    assert (len(shown) == 1) is not traceback_wanted
    assert ("Traceback" in result.stderr) is traceback_wanted


WRAPPED = """
import wean_fairseq
from wean_fairseq.errors import UserError
try:
    raise UserError("another BERT")
except UserError:
    raise {}("please ensure that the architectures match")
"""


def test_a_user_error_that_the_trainer_wraps_is_one_sentence(monkeypatch):
    monkeypatch.delenv("WEAN_TRACEBACK", raising=False)
    line = [sys.executable, "-W", "ignore", "-c", WRAPPED.format("Exception")]
    result = subprocess.run(line, capture_output=True, text=True, cwd=ROOT)
    assert result.stderr == "wean_fairseq: error: another BERT\n"


@pytest.mark.parametrize("code", ["import wean_fairseq; raise ValueError('a bug')", WRAPPED.format("KeyError")])
def test_other_errors_keep_their_traceback(code):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "Traceback" in result.stderr


def test_an_epoch_writes_every_line_of_the_log_once(tmp_path, caplog):
    """fairseq opens the log again for every epoch; validation, which names none, writes to that of training."""
    caplog.set_level("INFO", logger=progress_bar.__name__)
    log = tmp_path / "train.log"
    for epoch in (1, 2, 3):
        training = progress_bar.progress_bar([], log_format="simple", log_file=str(log), epoch=epoch)
        progress_bar.progress_bar([], log_format="simple", epoch=epoch, prefix="valid").print({"loss": 1}, tag="valid")
        training.print({"loss": 2}, tag="train")
    assert log.read_text(encoding="utf-8").splitlines() == [
        line for epoch in (1, 2, 3) for line in (f"epoch {epoch:03d} | valid | loss 1", f"epoch {epoch:03d} | loss 2")
    ]


def test_torchaudio_that_cannot_be_loaded_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`find_spec`, which transformers asks, says afterwards that there is none; a good one stays."""
    monkeypatch.setitem(sys.modules, "torchaudio", None)  # whatever is there comes back after the test
    for folder, code in (("good", ""), ("broken", "raise OSError('undefined symbol')")):
        del sys.modules["torchaudio"]
        (tmp_path / folder / "torchaudio").mkdir(parents=True)
        (tmp_path / folder / "torchaudio" / "__init__.py").write_text(code, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path / folder)
        hide_broken_torchaudio()
        assert (importlib.util.find_spec("torchaudio") is None) == (folder == "broken")
