"""fairseq's options of the benchmarks at toy size, converted once for all tests of a process."""

import copy
from argparse import Namespace
from collections.abc import Callable

from omegaconf import DictConfig

_KNOWN: dict[str, DictConfig] = {}


def memoised(convert: Callable[[Namespace], DictConfig]) -> Callable[[Namespace], DictConfig]:
    """fairseq's conversion of options, once for the same ones: most of the time of building a toy model."""

    def converted(args: Namespace) -> DictConfig:
        key = repr(sorted((name, value) for name, value in vars(args).items() if name != "data"))
        if key not in _KNOWN:
            _KNOWN[key] = convert(args)
        cfg = copy.deepcopy(_KNOWN[key])
        cfg.task.data = args.data
        return cfg

    return converted
