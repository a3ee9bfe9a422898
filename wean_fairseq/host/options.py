"""Range checks for fairseq options whose invalid values crash late or silently do nothing."""

import math
from collections.abc import Iterable
from typing import Any

from omegaconf import DictConfig

from ..errors import UserError
from ..optim.fused_adam import read_betas

# Least values of options, by the section of the configuration.
_TRAINING = {
    "optimization": {"update_freq": 1, "max_epoch": 0, "max_update": 0, "stop_time_hours": 0, "clip_norm": 0},
    "optimizer": {"weight_decay": 0},
    "lr_scheduler": {"warmup_updates": 0, "total_num_update": 1},
    "common": {"log_interval": 1},
    "checkpoint": {"save_interval": 1, "save_interval_updates": 0},
    "dataset": {"validate_interval": 1, "validate_interval_updates": 0},
}
_SIZES = ("_dim", "_size", "_layers", "_heads")  # ends of the names of an arch's sizes
_MOST_LAYERS = 1000
_LARGEST_LENPEN = 100  # a length to this power is finite
_SHARES = ("dropout", "layerdrop")  # ends of the names of an arch's shares
# Arguments of ``get_batch_iterator``: the option, and its least value.
_BATCHES = {"max_sentences": ("batch-size", 1), "max_tokens": ("max-tokens", 1), "num_shards": ("num-shards", 1)}
_BATCHES |= {"num_workers": ("num-workers", 0), "shard_id": ("shard-id", 0), "data_buffer_size": ("buffer-size", 0)}
_GENERATION = dict.fromkeys(("max_len_a", "max_len_b", "min_len", "no_repeat_ngram_size", "prefix_size"), 0.0)
_GENERATION |= {"beam": 1, "nbest": 1, "lenpen": -math.inf, "unkpen": -math.inf}


def check_training(cfg: Any) -> None:
    """Check the options of a training. Raises ``UserError``, naming the option."""
    for section, options in _TRAINING.items():
        for name, least in options.items():
            _check(name.replace("_", "-"), _values(getattr(cfg.get(section), name, None)), least)
    _check_share("label_smoothing", getattr(cfg.get("criterion"), "label_smoothing", None))
    for rate in _values(getattr(cfg.get("optimization"), "lr", None)):
        if not 0 < rate < math.inf:
            raise UserError(f"--lr must be a finite number above 0, but is {rate}.")
    if getattr(cfg.get("dataset"), "num_shards", 1) != 1 or getattr(cfg.get("dataset"), "shard_id", 0) != 0:
        raise UserError("--num-shards and --shard-id are for fairseq-generate: a training divides its data by itself.")
    read_betas(str(getattr(cfg.get("optimizer"), "adam_betas", "(0.9, 0.999)")))


def check_model(cfg: Any) -> None:
    """Refuse negative sizes and a dropout of 1 or more. Raises ``UserError``, naming the option."""
    options = cfg if isinstance(cfg, DictConfig) else vars(cfg)
    for name in options:
        value = options[name]
        if str(name).endswith(_SIZES) and isinstance(value, int):
            _check(str(name).replace("_", "-"), [value], 0)
        if str(name).endswith("_layers") and isinstance(value, int) and value > _MOST_LAYERS:
            raise UserError(f"--{str(name).replace('_', '-')} must be at most {_MOST_LAYERS}, but is {value}.")
        if str(name).endswith(_SHARES):
            _check_share(str(name), value)


def check_batches(arguments: dict[str, Any]) -> None:
    """Check the arguments of ``get_batch_iterator``. Raises ``UserError``, naming the option."""
    for name, (option, least) in _BATCHES.items():
        _check(option, _values(arguments.get(name)), least)
    shards, number = arguments.get("num_shards", 1), arguments.get("shard_id", 0)
    if number >= shards:
        raise UserError(f"--shard-id counts from 0 and must be below --num-shards {shards}, but is {number}.")


def check_generation(args: Any) -> None:
    """Check the options of a search. Raises ``UserError``, naming the option."""
    for name, least in _GENERATION.items():
        _check(name.replace("_", "-"), _values(getattr(args, name, None)), least, finite=name != "unkpen")
    if not -_LARGEST_LENPEN <= getattr(args, "lenpen", 1) <= _LARGEST_LENPEN:
        raise UserError(f"--lenpen must be from -{_LARGEST_LENPEN} to {_LARGEST_LENPEN}, but is {args.lenpen}.")
    if getattr(args, "min_len", 1) > getattr(args, "max_len_b", 200) and not getattr(args, "max_len_a", 0):
        raise UserError(f"--min-len {args.min_len} is longer than --max-len-b {args.max_len_b} allows.")
    if getattr(args, "print_step", False):
        raise UserError("--print-step is for models that refine their outputs step by step: leave it out.")
    temperature = getattr(args, "temperature", 1.0)
    if not 0 < temperature < math.inf:
        raise UserError(f"--temperature must be a finite number above 0, but is {temperature}.")
    _check_sampling(bool(getattr(args, "sampling", False)), args)
    groups = getattr(args, "diverse_beam_groups", -1)
    if groups > 0 and args.beam % groups:
        raise UserError(f"--beam {args.beam} cannot be shared among --diverse-beam-groups {groups}: give a multiple.")


def _check_sampling(sampling: bool, args: Any) -> None:
    """Refuse numbers that nothing can be drawn by; -1 stands for no limit, as fairseq has it."""
    topk, topp = getattr(args, "sampling_topk", -1), getattr(args, "sampling_topp", -1.0)
    if topk != -1 and topk < 1:
        raise UserError(f"--sampling-topk must be 1 or more, but is {topk}.")
    if topp != -1 and not 0 < topp <= 1:
        raise UserError(f"--sampling-topp must be above 0 and at most 1, but is {topp}.")
    if not sampling and (topk != -1 or topp != -1):
        raise UserError(
            f"--sampling-top{'k' if topk != -1 else 'p'} is for --sampling: give that, too, or leave it out."
        )


def _values(value: Any) -> Iterable[Any]:
    """Return the values of an option, which may be given several times or not at all."""
    if value is None:
        return ()
    return (value,) if isinstance(value, int | float) else value


def _check_share(name: str, value: Any) -> None:
    if isinstance(value, int | float) and not 0 <= value < 1:
        raise UserError(f"--{name.replace('_', '-')} must be at least 0 and below 1, but is {value}.")


def _check(option: str, values: Iterable[Any], least: float, finite: bool = True) -> None:
    for value in values:
        if math.isnan(value) or value < least or (finite and math.isinf(value)):
            bound = "a finite number" if least == -math.inf else f"{least} or more"
            raise UserError(f"--{option} must be {bound}, but is {value}.")
