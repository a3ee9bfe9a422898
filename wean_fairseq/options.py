"""Range checks for fairseq options whose invalid values crash late or silently do nothing."""

import json
import math
from collections.abc import Iterable
from typing import Any

from fairseq.dataclass.configs import GenerationConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from .errors import UserError

_ANY = math.inf
_OF_TRAINING = {  # section of the configuration, option: the least and the largest value
    ("optimization", "update_freq"): (1, _ANY),
    ("optimization", "max_epoch"): (0, _ANY),
    ("optimization", "max_update"): (0, _ANY),
    ("optimization", "stop_time_hours"): (0, _ANY),
    ("optimization", "stop_min_lr"): (-1, _ANY),
    ("optimization", "clip_norm"): (0, _ANY),
    ("optimizer", "weight_decay"): (0, _ANY),
    ("optimizer", "adam_eps"): (0, _ANY),
    ("optimizer", "momentum"): (0, 1),
    ("lr_scheduler", "warmup_updates"): (0, _ANY),
    ("lr_scheduler", "warmup_init_lr"): (-1, _ANY),
    ("lr_scheduler", "total_num_update"): (1, _ANY),
    ("lr_scheduler", "end_learning_rate"): (0, _ANY),
    ("lr_scheduler", "power"): (0, _ANY),
    ("lr_scheduler", "lr_shrink"): (0, 1),
    ("lr_scheduler", "min_lr"): (0, _ANY),
    ("ema", "ema_decay"): (0, 1),
    ("common", "log_interval"): (1, _ANY),
    ("checkpoint", "save_interval"): (1, _ANY),
    ("checkpoint", "save_interval_updates"): (0, _ANY),
    ("dataset", "validate_interval"): (1, _ANY),
    ("dataset", "validate_interval_updates"): (0, _ANY),
}
_SHARES_OF_TRAINING = {("criterion", "label_smoothing")}
_SIZES = ("_dim", "_size", "_layers", "_heads")  # ends of the names of an arch's sizes
_MOST_LAYERS = 1000
_MOST_PROCESSES = 1024
_SHARES = ("dropout", "layerdrop")  # ends of the names of an arch's shares
_OF_BATCHES: dict[str, tuple[str, float, float]] = {
    "max_sentences": ("batch-size", 1, _ANY),
    "max_tokens": ("max-tokens", 1, _ANY),
    "num_shards": ("num-shards", 1, _ANY),
    "num_workers": ("num-workers", 0, _MOST_PROCESSES),
    "shard_id": ("shard-id", 0, _ANY),
    "data_buffer_size": ("buffer-size", 0, _ANY),
}
_OF_GENERATION = {
    "beam": (1, _ANY),
    "nbest": (1, _ANY),
    "max_len_a": (0, 100),  # a search of millions of words would take days
    "max_len_b": (0, 10_000),
    "min_len": (0, _ANY),
    "no_repeat_ngram_size": (0, _ANY),
    "prefix_size": (0, _ANY),
    "lenpen": (-100, 100),  # a length to this power is finite
    "sampling_topp": (-1, 1),
}


def check_training(cfg: Any) -> None:
    """Refuse what no training can be done with; raises ``UserError``, naming the option."""
    for (section, name), (least, most) in _OF_TRAINING.items():
        _check(name, _values(getattr(cfg.get(section), name, None)), least, most)
    schedule = cfg.get("lr_scheduler")
    if getattr(schedule, "_name", None) == "inverse_sqrt":
        _check("warmup_updates", [schedule.warmup_updates], 1)
    if getattr(schedule, "_name", None) == "reduce_lr_on_plateau":
        _check_share("lr_shrink", schedule.lr_shrink)
    for section, name in _SHARES_OF_TRAINING:
        _check_share(name, getattr(cfg.get(section), name, None))
    for rate in _values(getattr(cfg.get("optimization"), "lr", None)):
        if not 0 < rate < math.inf:
            raise UserError(f"--lr must be a finite number above 0, but is {rate}.")
    if getattr(cfg.get("dataset"), "num_shards", 1) != 1 or getattr(cfg.get("dataset"), "shard_id", 0) != 0:
        raise UserError("--num-shards and --shard-id are for fairseq-generate: a training divides its data by itself.")
    betas = str(getattr(cfg.get("optimizer"), "adam_betas", "(0.9, 0.999)")).strip("([])").split(",")
    try:
        fine = len(betas) == 2 and all(0 <= float(beta) < 1 for beta in betas)
    except ValueError:
        fine = False
    if not fine:
        raise UserError(f"--adam-betas must be two numbers from 0 to below 1, but is {cfg.optimizer.adam_betas}.")


def check_model(cfg: Any) -> None:
    """Refuse negative sizes, and dropout of 1 or more; raises ``UserError``, naming the option."""
    options = cfg if isinstance(cfg, DictConfig) else vars(cfg)
    for name in options:
        value = options[name]
        if str(name).endswith(_SIZES) and isinstance(value, int):
            _check(str(name), [value], 0, _MOST_LAYERS if str(name).endswith("_layers") else _ANY)
        if str(name).endswith(_SHARES):
            _check_share(str(name), value)


def check_task(cfg: Any) -> None:
    """Refuse limits of length below 1, and --eval-bleu-args that are not options; raises ``UserError``."""
    for name in ("max_source_positions", "max_target_positions"):
        _check(name, _values(getattr(cfg, name, None)), 1)
    try:
        OmegaConf.merge(OmegaConf.structured(GenerationConfig), json.loads(cfg.eval_bleu_args or "{}"))
    except (ValueError, TypeError, RecursionError, OmegaConfBaseException) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f'--eval-bleu-args must be a JSON object of generation options, such as {{"beam": 4}} ({reason}).'
        ) from error


def check_batches(given: dict[str, Any]) -> None:
    """Refuse arguments of ``get_batch_iterator`` that make no batches; raises ``UserError``, naming the option."""
    for name, (option, least, most) in _OF_BATCHES.items():
        _check(option, _values(given.get(name)), least, most)
    shards, number = given.get("num_shards", 1), given.get("shard_id", 0)
    if number >= shards:
        raise UserError(f"--shard-id counts from 0 and must be below --num-shards {shards}, but is {number}.")


def check_generation(args: Any, words: int) -> None:
    """Refuse what nothing can be searched with; raises ``UserError``, naming the option.

    Args:
        args: generation options.
        words: size of the target dictionary.
    """
    for name, (least, most) in _OF_GENERATION.items():
        _check(name, _values(getattr(args, name, None)), least, most)
    if math.isnan(getattr(args, "unkpen", 0)):
        raise UserError("--unkpen must be a number, but is nan.")
    if getattr(args, "sampling", False) and getattr(args, "sampling_topk", -1) > words:
        raise UserError(f"--sampling-topk {args.sampling_topk} is more than the {words} words of the dictionary.")
    if getattr(args, "min_len", 1) > getattr(args, "max_len_b", 200) and not getattr(args, "max_len_a", 0):
        raise UserError(f"--min-len {args.min_len} is longer than --max-len-b {args.max_len_b} allows.")
    if getattr(args, "print_step", False):
        raise UserError("--print-step is for models that refine their outputs step by step: leave it out.")
    groups = getattr(args, "diverse_beam_groups", -1)
    if groups > 0 and args.beam % groups:
        raise UserError(f"--beam {args.beam} cannot be shared among --diverse-beam-groups {groups}: give a multiple.")


def _values(value: Any) -> Iterable[Any]:
    """The values of an option, which may be given several times or not at all."""
    if value is None:
        return ()
    return (value,) if isinstance(value, int | float) else value


def _check_share(name: str, value: Any) -> None:
    if isinstance(value, int | float) and not 0 <= value < 1:
        raise UserError(f"--{name.replace('_', '-')} must be at least 0 and below 1, but is {value}.")


def _check(name: str, values: Iterable[Any], least: float, most: float = _ANY) -> None:
    """Refuse values that are not finite numbers from ``least`` to ``most``."""
    for value in values:
        if not isinstance(value, int | float) or not least <= value <= most or math.isinf(value):
            bound = f"{least} or more" if most == _ANY else f"from {least} to {most}"
            raise UserError(f"--{name.replace('_', '-')} must be {bound}, but is {value}.")
