"""Range checks for fairseq options whose invalid values crash late or silently do nothing."""

import json
from typing import Any

from fairseq.dataclass.configs import GenerationConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..errors import UserError
from ..optim.fused_adam import read_betas
from ..ranges import ANY, check_positive, check_range, check_share, values_of

_LARGEST_FLOAT = 1e30  # numbers that PyTorch converts to float32
_OF_TRAINING = {  # section of the configuration and option: minimum and maximum
    ("optimization", "update_freq"): (1, ANY),
    ("optimization", "max_epoch"): (0, ANY),
    ("optimization", "max_update"): (0, ANY),
    ("optimization", "stop_time_hours"): (0, ANY),
    ("optimization", "stop_min_lr"): (-1, ANY),
    ("optimization", "clip_norm"): (0, ANY),
    ("optimizer", "weight_decay"): (0, _LARGEST_FLOAT),
    ("optimizer", "adam_eps"): (0, ANY),
    ("optimizer", "momentum"): (0, 1),
    ("optimizer", "adadelta_rho"): (0, 1),
    ("lr_scheduler", "warmup_updates"): (0, ANY),
    ("lr_scheduler", "warmup_init_lr"): (-1, ANY),
    ("lr_scheduler", "total_num_update"): (1, ANY),
    ("lr_scheduler", "end_learning_rate"): (0, ANY),
    ("lr_scheduler", "power"): (0, ANY),
    ("lr_scheduler", "lr_shrink"): (0, 1),
    ("lr_scheduler", "min_lr"): (0, ANY),
    ("ema", "ema_decay"): (0, 1),
    ("common", "log_interval"): (1, ANY),
    ("checkpoint", "save_interval"): (1, ANY),
    ("checkpoint", "save_interval_updates"): (0, ANY),
    ("dataset", "validate_interval"): (1, ANY),
    ("dataset", "validate_interval_updates"): (0, ANY),
}
_SIZES = ("_dim", "_size", "_layers", "_heads")  # suffixes of the names of an arch's sizes
_MOST_LAYERS = 1000
_MOST_PROCESSES = 1024
_SHARES = ("dropout", "layerdrop")  # suffixes of the names of an arch's shares
_OF_BATCHES: dict[str, tuple[str, float, float]] = {
    "max_sentences": ("batch-size", 1, ANY),
    "max_tokens": ("max-tokens", 1, ANY),
    "num_shards": ("num-shards", 1, ANY),
    "num_workers": ("num-workers", 0, _MOST_PROCESSES),
    "shard_id": ("shard-id", 0, ANY),
    "data_buffer_size": ("data-buffer-size", 0, ANY),
}


def check_training(cfg: Any) -> None:
    """Check the options of a training. Raise ``UserError`` with the name of an invalid option."""
    for (section, name), (least, most) in _OF_TRAINING.items():
        check_range(name, values_of(getattr(cfg.get(section), name, None)), least, most)
    schedule = cfg.get("lr_scheduler")
    if getattr(schedule, "_name", None) == "inverse_sqrt":
        check_range("warmup_updates", [schedule.warmup_updates], 1)
    if getattr(schedule, "_name", None) == "triangular":
        check_range("lr_period_updates", [schedule.lr_period_updates], 1)
    if getattr(schedule, "_name", None) == "reduce_lr_on_plateau":
        check_share("lr_shrink", schedule.lr_shrink)
    check_share("label_smoothing", getattr(cfg.get("criterion"), "label_smoothing", None))
    check_positive("lr", values_of(getattr(cfg.get("optimization"), "lr", None)))
    if getattr(cfg.get("dataset"), "num_shards", 1) != 1 or getattr(cfg.get("dataset"), "shard_id", 0) != 0:
        raise UserError("--num-shards and --shard-id are for fairseq-generate: a training divides its data by itself.")
    read_betas(str(getattr(cfg.get("optimizer"), "adam_betas", "(0.9, 0.999)")))


def check_model(cfg: Any) -> None:
    """Raise ``UserError`` for a negative size or a dropout of 1 or more, naming the option."""
    options = cfg if isinstance(cfg, DictConfig) else vars(cfg)
    for name in options:
        value = options[name]
        if str(name).endswith(_SIZES) and isinstance(value, int):
            check_range(str(name), [value], 0, _MOST_LAYERS if str(name).endswith("_layers") else ANY)
        if str(name).endswith(_SHARES):
            check_share(str(name), value)


def check_task(cfg: Any) -> None:
    """Check length limits and ``--eval-bleu-args``. Raise ``UserError`` for invalid values."""
    for name in ("max_source_positions", "max_target_positions", "required_seq_len_multiple"):
        check_range(name, values_of(getattr(cfg, name, None)), 1)
    if getattr(cfg, "num_batch_buckets", 0):
        raise UserError("--num-batch-buckets is for TPUs, and fails with NumPy 2.4: leave it out.")
    try:
        OmegaConf.merge(OmegaConf.structured(GenerationConfig), json.loads(cfg.eval_bleu_args or "{}"))
    except (ValueError, TypeError, RecursionError, OmegaConfBaseException) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f'--eval-bleu-args must be a JSON object of generation options, such as {{"beam": 4}} ({reason}).'
        ) from error


def check_batches(arguments: dict[str, Any]) -> None:
    """Check the arguments of ``get_batch_iterator``. Raise ``UserError`` with the name of an invalid option."""
    for name, (option, least, most) in _OF_BATCHES.items():
        check_range(option, values_of(arguments.get(name)), least, most)
    shards, number = arguments.get("num_shards", 1), arguments.get("shard_id", 0)
    if number >= shards:
        raise UserError(f"--shard-id counts from 0 and must be below --num-shards {shards}, but is {number}.")
