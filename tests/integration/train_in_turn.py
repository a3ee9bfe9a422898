"""Run trainings one after the other for ``test_distributed.py``. ``warm.py`` runs this module as one of its commands.

In ``train-in-turn FILE SHARE``, the file has the arguments of fairseq-train for each name. The share "one" is a single
process, which gets all batches of an update as one batch.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from fairseq.models import distributed_fairseq_model as host
from fairseq.trainer import Trainer
from fairseq_cli import train

_wrapper, _step = host.DistributedDataParallel, Trainer.train_step


def step_with_one_batch(trainer: Trainer, samples: list[dict[str, Any]]) -> Any:
    """Run fairseq's training step after all batches have been joined into one."""
    pairs = trainer.task.dataset("train")
    return _step(trainer, [pairs.collater([pairs[number] for sample in samples for number in sample["id"].tolist()])])


def cli_main() -> None:
    """Run all trainings.

    PyTorch's own wrapper, which is fairseq's default, gets no devices, because a CPU has none. DNPG's labels and DRGD's
    latent variables are trained without noise. Noise, like dropout, would differ between batches.
    """
    from wean_fairseq.modules import dnpg_levels

    labels = dnpg_levels.soft_labels
    host.DistributedDataParallel = lambda device_ids, output_device, **kwargs: _wrapper(**kwargs)
    dnpg_levels.soft_labels = lambda logits, temperature, noisy: labels(logits, temperature, noisy=False)
    torch.randn_like = torch.zeros_like
    _, commands, share = sys.argv
    if share == "one":
        Trainer.train_step = step_with_one_batch
    for name, arguments in json.loads(Path(commands).read_text()).items():
        print(f"=== {name}", flush=True)
        sys.argv = ["fairseq-train", *arguments]
        train.cli_main()
