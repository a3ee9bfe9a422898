"""Processes of a training that torchrun or Slurm has started, also on machines without a GPU."""

import os

import torch
from fairseq.dataclass.configs import DistributedTrainingConfig

from ..errors import UserError
from .patches import Original


def infer_init_method(original: Original, cfg: DistributedTrainingConfig, force_distributed: bool = False) -> None:
    """Use the number of processes that the launcher has started."""
    env = os.environ
    if cfg.distributed_world_size < 1:
        raise UserError(f"--distributed-world-size must be 1 or more, but is {cfg.distributed_world_size}.")
    if all(name in env for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")):
        cfg.distributed_world_size = int(env["WORLD_SIZE"])
    elif cfg.distributed_port > 0 and int(env.get("SLURM_NTASKS", 0)) > 1:
        cfg.distributed_world_size = int(env["SLURM_NTASKS"])  # fairseq counts GPUs if each machine has one task
    original(cfg, force_distributed)


def init_from_torchrun(_original: Original, cfg: DistributedTrainingConfig) -> None:
    """Set up a process from torchrun's environment, with or without GPUs."""
    cfg.distributed_init_method = "env://"
    cfg.distributed_world_size = int(os.environ["WORLD_SIZE"])
    cfg.distributed_rank = int(os.environ["RANK"])
    cfg.device_id = cfg.distributed_rank % max(1, torch.cuda.device_count())
    cfg.distributed_no_spawn = True  # torchrun has started the processes


def init_from_slurm(original: Original, cfg: DistributedTrainingConfig, pipelines: int | None) -> bool:
    """Set up a task of Slurm that sees no GPU, only its own, or all GPUs of the machine."""
    is_slurm = bool(original(cfg, pipelines))
    gpus = torch.cuda.device_count()
    if is_slurm and gpus == 0:  # fairseq starts one process per GPU if the machine has one task
        cfg.distributed_world_size = int(os.environ["SLURM_NTASKS"])
        cfg.distributed_rank = int(os.environ["SLURM_PROCID"])
        cfg.distributed_no_spawn = True
    if is_slurm:
        cfg.device_id %= max(1, gpus)
    return is_slurm
