"""fairseq-train that writes down, in each process, with which random numbers every update begins.

A command of ``warm.py`` with the arguments of fairseq-train; beside the checkpoints there will be
``random.RANK.jsonl``, to which a training that is gone on with adds. What the numbers are after an update says nothing:
validation draws some, as many as there are data workers, and a process without a batch computes with any other.
"""

import hashlib
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.distributed.utils import get_global_rank
from fairseq.tasks.translation import TranslationTask
from fairseq_cli import train

_train_step = TranslationTask.train_step


def train_step(self: TranslationTask, *args: Any, **kwargs: Any) -> Any:
    """As fairseq's, which every process calls with every batch."""
    states = {
        "torch": torch.get_rng_state().tolist(),
        "numpy": np.random.get_state()[1].tolist(),  # noqa: NPY002
        "python": random.getstate(),
    }
    digests = {kind: hashlib.sha256(repr(state).encode()).hexdigest() for kind, state in states.items()}
    folder = Path(sys.argv[sys.argv.index("--save-dir") + 1])
    with (folder / f"random.{get_global_rank()}.jsonl").open("a") as file:
        file.write(f"{json.dumps({'update': kwargs['update_num'] + 1, **digests})}\n")
    return _train_step(self, *args, **kwargs)


def cli_main() -> None:
    """As fairseq's."""
    TranslationTask.train_step = train_step
    train.cli_main()
