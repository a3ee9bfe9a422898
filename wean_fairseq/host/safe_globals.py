"""The types that torch's safe loader accepts when it reads fairseq checkpoints.

Checkpoints are never read without the safe loader.

NumPy's own types are not accepted. In a pickle, the state of NumPy's types may declare that numbers of an array are
addresses of Python objects. Reading such an array would run code. ``Counts`` replaces NumPy's arrays, and can only
contain int64 values.
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
    """Make the safe loader accept ``safe_globals`` in any environment, and limit torch's own list.

    With torch's own list, a few bytes of a file can create gigabytes: by a ``bytearray`` of any size, or by codecs such
    as ``hex``, which doubles its text.
    """
    if torch.__version__ < "2.10":  # torch's version type compares this text as a version
        raise ImportError(
            f"wean_fairseq needs torch 2.10 or newer, but this is {torch.__version__}: older versions can be attacked "
            "through a checkpoint even with the safe loader (CVE-2026-24747)."
        )
    os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)
    torch.serialization.add_safe_globals(safe_globals())
    # torch searches its own list first, so entries of safe_globals could not replace these two entries.
    allowed = torch._weights_only_unpickler._get_allowed_globals()
    allowed["_codecs.encode"] = _latin1
    allowed.pop("builtins.bytearray", None)


def safe_globals() -> list[typing.Any]:
    """Return the types that fairseq checkpoints contain in addition to tensors and plain containers.

    Every type in the list is needed. Checkpoints of archs without a dataclass contain argparse.Namespace.
    ``--eval-bleu`` needs the NumPy types, because its counts are arrays. The other types are needed to resume with
    several processes, where rank 0 sends its state.
    """
    arrays: list[typing.Any] = [(Counts, "numpy.ndarray"), (_int64, "numpy.dtype"), np.dtypes.Int64DType]
    # NumPy 2 and NumPy 1 use different module names for this function.
    arrays += [(_empty_counts, f"numpy.{core}.multiarray._reconstruct") for core in ("_core", "core")]
    options = [omegaconf.DictConfig, omegaconf.ListConfig, omegaconf.base.ContainerMetadata, omegaconf.base.Metadata]
    values = [omegaconf.nodes.AnyNode, (typing.Any, "typing.Any"), collections.defaultdict, dict, list, int]
    return [argparse.Namespace, *arrays, *options, *values, distributed_utils._TensorPlaceholder]


class Counts(np.ndarray):
    """An int64 array from a checkpoint. It is saved as an array of NumPy."""

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
    """Replace NumPy's function for empty arrays, which could create an array of any type."""
    return Counts()


def _int64(code: str, *_: typing.Any) -> np.dtype[np.int64]:
    """Replace NumPy's dtype, to which a file can add fields of Python objects.

    The state of the returned dtype cannot be changed by a file.

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
