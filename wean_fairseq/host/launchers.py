"""Set up training processes that were started by torchrun or Slurm, also on machines without a GPU."""

import os
import re

import torch
from fairseq.dataclass.configs import DistributedTrainingConfig
from omegaconf import DictConfig, open_dict

from ..console import end_with_parent
from ..errors import UserError
from .patches import Original

_LAUNCHED = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")  # environment variables that torchrun sets


def use_gloo(cfg: DictConfig) -> None:
    """Let processes on CPUs exchange their gradients through gloo, because fairseq's defaults are for GPUs.

    Args:
        cfg: the configuration of a command; its section ``distributed_training`` is changed in place.

    Raises:
        UserError: if fairseq would start no process.
    """
    distributed, env = cfg.distributed_training, os.environ
    if torch.cuda.is_available() and not cfg.common.cpu:
        return
    launched = all(name in env for name in _LAUNCHED) or "SLURM_NTASKS" in env
    if not (launched or distributed.distributed_no_spawn) and distributed.distributed_world_size > 1:
        number = distributed.distributed_world_size
        raise UserError(
            f"--distributed-world-size {number} starts a process per GPU, but there is none or --cpu is given: leave "
            f"it out, and start the command by torchrun --standalone --nproc-per-node {number} --no-python."
        )
    if max(_number("WORLD_SIZE"), _number("SLURM_NTASKS"), distributed.distributed_world_size) > 1:
        with open_dict(distributed):
            if distributed.distributed_backend == "nccl":
                distributed.distributed_backend = "gloo"
            if distributed.ddp_backend == "pytorch_ddp":  # the backend pytorch_ddp needs the number of a GPU
                distributed.ddp_backend = "legacy_ddp"


def infer_init_method(original: Original, cfg: DistributedTrainingConfig, force_distributed: bool = False) -> None:
    """Set the number of processes to the number that the launcher has started."""
    env = os.environ
    if cfg.distributed_world_size < 1:
        raise UserError(f"--distributed-world-size must be 1 or more, but is {cfg.distributed_world_size}.")
    if all(name in env for name in _LAUNCHED):
        cfg.distributed_world_size = _number("WORLD_SIZE")
    elif cfg.distributed_port > 0 and _number("SLURM_NTASKS") > 1:
        cfg.distributed_world_size = _number("SLURM_NTASKS")  # fairseq counts GPUs if each machine has one task
    original(cfg, force_distributed)


def init_from_torchrun(_original: Original, cfg: DistributedTrainingConfig) -> None:
    """Set up a process from torchrun's environment, with or without GPUs."""
    cfg.distributed_init_method = "env://"
    cfg.distributed_world_size = _number("WORLD_SIZE")
    cfg.distributed_rank = _number("RANK")
    cfg.device_id = cfg.distributed_rank % max(1, torch.cuda.device_count())
    cfg.distributed_no_spawn = True  # fairseq must not start processes, because torchrun has started them
    end_with_parent()


def init_from_slurm(original: Original, cfg: DistributedTrainingConfig, pipelines: int | None) -> bool:
    """Set up a process that Slurm started, which may see no GPU, only its own GPU, or all GPUs of the machine."""
    is_slurm = bool(original(cfg, pipelines))
    gpus = torch.cuda.device_count()
    if is_slurm and gpus == 0:  # fairseq starts one process per GPU if the machine has one task
        cfg.distributed_world_size = _number("SLURM_NTASKS")
        cfg.distributed_rank = _number("SLURM_PROCID")
        cfg.distributed_no_spawn = True
    if is_slurm:
        cfg.device_id %= max(1, gpus)
    return is_slurm


def _number(variable: str) -> int:
    """Return a number that the launcher has put into an environment variable, or 1 if the variable is not set.

    Raise ``UserError`` if it is not a whole number.
    """
    text = os.environ.get(variable, "1")
    if not re.fullmatch("[0-9]{1,9}", text):
        raise UserError(f"{variable} in the environment is {text!r:.40}, not a whole number: unset it.")
    return int(text)
