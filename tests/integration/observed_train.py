"""Run fairseq-train and record, in each process, the random states with which every update begins.

``warm.py`` runs this module as one of its commands. It accepts the arguments of fairseq-train. It writes
``random.RANK.jsonl`` next to the checkpoints. A resumed training appends to this file. Random states after an update
cannot be compared, because validation draws a number for each data worker, and a process without a batch uses any other
batch.
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
    """Record the random states, and then call fairseq's function. Every process calls this function for every batch."""
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
    """Run fairseq's ``cli_main`` and record the states."""
    TranslationTask.train_step = train_step
    train.cli_main()
