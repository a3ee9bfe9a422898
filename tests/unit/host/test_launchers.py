"""Test processes of torchrun and Slurm, with and without GPUs."""

import subprocess
from argparse import Namespace

import pytest
import torch
from fairseq.dataclass.configs import DistributedTrainingConfig
from fairseq.distributed import utils as distributed_utils
from omegaconf import OmegaConf

from wean_fairseq.errors import UserError
from wean_fairseq.host import launchers


def test_torchrun_without_a_gpu_sets_up_the_process(monkeypatch):
    """The original function of fairseq divides by the number of GPUs."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    cfg = Namespace()
    distributed_utils._infer_torch_distributed_launch_init(cfg)
    assert vars(cfg) == {
        "distributed_init_method": "env://",
        "distributed_world_size": 2,
        "distributed_rank": 1,
        "device_id": 0,
        "distributed_no_spawn": True,
    }


LAUNCHERS = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "SLURM_NTASKS", "SLURM_NNODES")
TORCHRUN = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "WORLD_SIZE": "4", "RANK": "3"}


@pytest.mark.parametrize(
    ("environment", "port", "expected"),
    [
        ({}, -1, 1),
        (TORCHRUN, -1, 4),
        ({"SLURM_NTASKS": "32", "SLURM_NNODES": "4"}, 29500, 32),
        ({"SLURM_NTASKS": "32", "SLURM_NNODES": "4"}, -1, 1),  # no port, so only this process is used
        ({"SLURM_NTASKS": "4", "SLURM_NNODES": "4"}, 29500, 4),  # fairseq counts the GPUs if nodes have one task each
    ],
)
def test_the_launcher_sets_the_number_of_processes(monkeypatch, environment, port, expected):
    """With the original function of fairseq, each process trains alone if it sees at most one GPU."""
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    seen = []
    cfg = Namespace(distributed_world_size=1, distributed_port=port)
    launchers.infer_init_method(lambda cfg, force: seen.append(cfg.distributed_world_size), cfg)
    assert seen == [expected]


def training(cpu=True, size=1, no_spawn=False):
    """Return the part of fairseq's configuration that depends on the processes, with the defaults for GPUs."""
    distributed = DistributedTrainingConfig(distributed_world_size=size, distributed_no_spawn=no_spawn)
    return OmegaConf.create({"common": {"cpu": cpu}, "distributed_training": OmegaConf.structured(distributed)})


@pytest.mark.parametrize(
    ("environment", "cpu", "expected"),
    [
        (TORCHRUN, True, ("gloo", "legacy_ddp")),
        ({"SLURM_NTASKS": "2"}, True, ("gloo", "legacy_ddp")),
        ({}, True, ("nccl", "pytorch_ddp")),  # a single process keeps its recorded options
        (TORCHRUN, False, ("nccl", "pytorch_ddp")),
    ],
)
def test_processes_on_cpus_exchange_through_gloo(monkeypatch, environment, cpu, expected):
    """Test that NCCL is used for GPUs and gloo for CPUs, as the documentation of PyTorch recommends."""
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    cfg = training(cpu)
    launchers.use_gloo(cfg)
    distributed = cfg.distributed_training
    assert (distributed.distributed_backend, str(distributed.ddp_backend)) == expected


def test_processes_that_fairseq_would_not_start_are_refused(monkeypatch):
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="start the command by torchrun --standalone --nproc-per-node 2"):
        launchers.use_gloo(training(size=2))
    launchers.use_gloo(training(size=2, no_spawn=True))


@pytest.mark.parametrize(("gpus", "expected"), [(0, 0), (1, 0), (8, 3)], ids=["none", "its own", "all of the node"])
def test_a_task_of_slurm_uses_a_gpu_that_it_sees(monkeypatch, gpus, expected):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setenv("SLURM_NTASKS", "4")
    monkeypatch.setenv("SLURM_PROCID", "3")
    cfg = Namespace(device_id=3)
    assert launchers.init_from_slurm(lambda cfg, pipelines: True, cfg, None)
    assert cfg.device_id == expected


@pytest.mark.parametrize("tasks", [2, 4])
def test_tasks_of_slurm_without_a_gpu_are_the_processes(monkeypatch, tasks):
    """Test two or four tasks on two machines.

    With the original function of fairseq, one task per machine trains alone, and with more tasks no process starts.
    """
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(subprocess, "check_output", lambda line: b"one\ntwo\n")
    monkeypatch.delenv("SLURM_NTASKS_PER_NODE", raising=False)
    rank = tasks - 1
    variables = {"STEP_NODELIST": "one,two", "NNODES": 2, "NTASKS": tasks, "PROCID": rank, "NODEID": 1}
    for name, value in {**variables, "LOCALID": tasks // 2 - 1}.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    cfg = Namespace(distributed_world_size=1, distributed_port=29500, distributed_no_spawn=False, device_id=0)
    cfg.distributed_init_method, cfg.tpu, cfg.pipeline_model_parallel = None, False, False
    distributed_utils.infer_init_method(cfg)
    assert (cfg.distributed_world_size, cfg.distributed_rank, cfg.device_id) == (tasks, rank, 0)
    assert cfg.distributed_init_method == "tcp://one:29500" and cfg.distributed_no_spawn


@pytest.mark.parametrize("value", ["", "abc", "-1", "1e3", "9" * 5000, "\u0663"])
def test_numbers_of_the_environment_are_checked(monkeypatch, value):
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", value)
    with pytest.raises(UserError, match=r"WORLD_SIZE in the environment is .*, not a whole number"):
        launchers.use_gloo(training())
