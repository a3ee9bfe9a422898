"""The types that torch's safe loader accepts from fairseq checkpoints. The loader is always used.

NumPy's own types are not accepted. Their pickled state may declare the numbers of an array to be addresses of Python
objects, and code would run when such an array is read. ``Counts`` replaces them and only contains int64 values.
"""

import argparse
import collections
import os
import typing

import numpy as np
import omegaconf
import torch
from fairseq.distributed import utils as distributed_utils


def use_safe_loader() -> None:
    """Accept ``safe_globals`` in the safe loader, which the environment cannot turn off, and bound torch's own list.

    In torch, a few bytes of a file can create gigabytes, through a ``bytearray`` of any size or through codecs such as
    ``hex``, which doubles its text.
    """
    if torch.__version__ < "2.10":  # compared as versions
        raise ImportError(
            f"wean_fairseq needs torch 2.10 or newer, but this is {torch.__version__}: older versions can be attacked "
            "through a checkpoint even with the safe loader (CVE-2026-24747)."
        )
    os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)
    torch.serialization.add_safe_globals(safe_globals())
    # torch looks a name up in its own list first, so that an entry of safe_globals cannot replace these two.
    allowed = torch._weights_only_unpickler._get_allowed_globals()
    allowed["_codecs.encode"] = _latin1
    allowed.pop("builtins.bytearray", None)


def safe_globals() -> list[typing.Any]:
    """Return the types, besides tensors and plain containers, that fairseq checkpoints contain.

    Each type is needed. Checkpoints of archs without a dataclass contain argparse.Namespace. ``--eval-bleu`` needs the
    NumPy types, because its counts are arrays. The other types are needed to resume with several processes, where rank
    0 sends its state.
    """
    arrays: list[typing.Any] = [(Counts, "numpy.ndarray"), (_int64, "numpy.dtype"), np.dtypes.Int64DType]
    # NumPy 2 and NumPy 1 write this function under different names.
    arrays += [(_empty_counts, f"numpy.{core}.multiarray._reconstruct") for core in ("_core", "core")]
    options = [omegaconf.DictConfig, omegaconf.ListConfig, omegaconf.base.ContainerMetadata, omegaconf.base.Metadata]
    values = [omegaconf.nodes.AnyNode, (typing.Any, "typing.Any"), collections.defaultdict, dict, list, int]
    return [argparse.Namespace, *arrays, *options, *values, distributed_utils._TensorPlaceholder]


class Counts(np.ndarray):
    """An int64 array of a checkpoint. It is saved as an array of NumPy."""

    def __new__(cls, *_: typing.Any) -> "Counts":
        return super().__new__(cls, (0,), np.int64)

    def __setstate__(self, state: typing.Any) -> None:
        _, shape, dtype, in_columns, numbers = state
        if dtype is not np.dtype(np.int64) or not isinstance(numbers, bytes):
            raise ValueError(f"counts are int64, not {dtype!r}")
        counts = np.frombuffer(numbers, np.int64).reshape(shape, order="F" if in_columns else "C")
        self.resize(counts.shape, refcheck=False)
        self[...] = counts

    def __reduce_ex__(self, protocol: typing.Any) -> typing.Any:
        return self.view(np.ndarray).__reduce_ex__(protocol)


def _empty_counts(*_: typing.Any) -> Counts:
    """Replace NumPy's function, which creates an array of any type."""
    return Counts()


def _int64(code: str, *_: typing.Any) -> np.dtype[np.int64]:
    """Replace NumPy's dtype, to which a file can add fields of objects. The state of the result cannot change.

    Raises ``ValueError`` for another dtype.
    """
    if code != "i8":
        raise ValueError(f"counts are int64, not {code!r}")
    return np.dtype(np.int64)


def _latin1(text: str, codec: str) -> bytes:
    """Replace ``_codecs.encode``, which pickles use for bytes. Raise ``ValueError`` for codecs other than latin1."""
    if codec != "latin1":
        raise ValueError(f"bytes are written in latin1, not {codec!r:.40}")
    return text.encode("latin1")
