"""Create checkpoints of tiny models with random weights inside this process."""

from pathlib import Path

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

import wean_fairseq
from tests.model_contract import make_dictionary

wean_fairseq.register()


def data_folder(folder: Path) -> Path:
    """Create the folder with two identical dictionaries."""
    for side in ("src", "tgt"):
        make_dictionary(9).save(str(folder / f"dict.{side}.txt"))
    return folder


def save_random_model(data: Path, name: str, given: list[str]) -> Path:
    """Save a model with the options ``given`` as fairseq-train would save it, next to its dictionaries."""
    parser = options.get_training_parser()
    line = [
        str(data),
        "-s",
        "src",
        "-t",
        "tgt",
        "--cpu",
        "--optimizer",
        "adam",
        "--lr",
        "1",
        "--criterion",
        "model_loss",
    ]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, input_args=[*line, *given]))
    torch.manual_seed(1)
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model)
    state = {"args": None, "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)}
    state |= {"model": model.state_dict(), "extra_state": {"epoch": 1}}
    state["optimizer_history"] = [{"num_updates": 1, "optimizer_name": "FairseqAdam", "lr_scheduler_state": {}}]
    torch.save({**state, "task_state": task.state_dict()}, data / f"{name}.pt")
    return data / f"{name}.pt"
