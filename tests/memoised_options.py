"""fairseq's options for the benchmarks at toy size, which are converted only once for all tests of a process."""

import copy
import importlib
from argparse import Namespace

import pytest
from omegaconf import DictConfig

_KNOWN: dict[str, DictConfig] = {}


def memoise_options(patch: pytest.MonkeyPatch) -> None:
    """Cache the conversion of options in ``benchmarks/workload.py``.

    This conversion takes most of the time to build a toy model.
    """
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
