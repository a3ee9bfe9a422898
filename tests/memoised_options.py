"""fairseq's options of the benchmarks at toy size, converted once for all tests of a process."""

import copy
import importlib
from argparse import Namespace

import pytest
from omegaconf import DictConfig

_KNOWN: dict[str, DictConfig] = {}


def memoise_options(patch: pytest.MonkeyPatch) -> None:
    """Convert the same options once in ``benchmarks/workload.py``: most of the time of building a toy model."""
    workload = importlib.import_module("workload")
    convert = workload.convert_namespace_to_omegaconf

    def converted(args: Namespace) -> DictConfig:
        key = repr(sorted((name, value) for name, value in vars(args).items() if name != "data"))
        if key not in _KNOWN:
            _KNOWN[key] = convert(args)
        cfg = copy.deepcopy(_KNOWN[key])
        cfg.task.data = args.data
        return cfg

    patch.setattr(workload, "convert_namespace_to_omegaconf", converted)
