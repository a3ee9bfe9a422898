"""Range checks for fairseq options whose invalid values crash late or silently do nothing."""

import ast
import json
import math
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from fairseq.dataclass.configs import GenerationConfig
from fairseq.registry import REGISTRIES
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..errors import UserError, shown
from ..optim.fused_adam import read_betas
from ..ranges import ANY, MOST_PROCESSES, check_no_reference, check_positive, check_range, check_share, flag, values_of
from ..storage.search import check_generation

_LARGEST_FLOAT = 1e30  # largest number that options may have, because PyTorch converts these numbers to float32
_OF_TRAINING: dict[tuple[str, str], tuple[float, float]] = {  # section and option: minimum and maximum
    ("optimizer", "weight_decay"): (0, _LARGEST_FLOAT),
    ("optimizer", "momentum"): (0, 1),
    ("optimizer", "adadelta_rho"): (0, 1),
    ("lr_scheduler", "lr_shrink"): (0, 1),
    ("ema", "ema_decay"): (0, 1),
}
_AT_LEAST = {  # minimum of the options that have no maximum, as section.name
    -1: "checkpoint.keep_best_checkpoints checkpoint.keep_interval_updates checkpoint.keep_interval_updates_pattern "
    "checkpoint.keep_last_epochs checkpoint.patience distributed_training.distributed_port "
    "distributed_training.heartbeat_timeout lr_scheduler.warmup_init_lr optimization.stop_min_lr",
    0: "checkpoint.save_interval_updates common.amp_batch_retries common.empty_cache_freq "
    "common.fp16_scale_tolerance common.min_loss_scale common.threshold_loss_scale dataset.curriculum "
    "dataset.fixed_validation_seed dataset.max_valid_steps dataset.validate_after_updates "
    "dataset.validate_interval_updates distributed_training.device_id distributed_training.distributed_num_procs "
    "distributed_training.distributed_rank distributed_training.slowmo_momentum ema.ema_start_update "
    "interactive.buffer_size lr_scheduler.end_learning_rate lr_scheduler.min_lr lr_scheduler.power "
    "lr_scheduler.warmup_updates optimization.clip_norm optimization.max_epoch optimization.max_update "
    "optimization.stop_time_hours optimizer.adam_eps",
    1: "checkpoint.checkpoint_shard_count checkpoint.save_interval common.all_gather_list_size common.amp_init_scale "
    "common.amp_scale_window common.fp16_init_scale common.fp16_scale_window common.log_interval "
    "common.model_parallel_size dataset.required_batch_size_multiple dataset.required_seq_len_multiple "
    "dataset.validate_interval distributed_training.bucket_cap_mb distributed_training.localsgd_frequency "
    "distributed_training.nprocs_per_node ema.ema_update_freq lr_scheduler.total_num_update "
    "optimization.update_freq",
}
for _least, _names in _AT_LEAST.items():
    _OF_TRAINING |= {(section, name): (_least, ANY) for section, _, name in (n.partition(".") for n in _names.split())}
MODEL_OVERRIDES = ("--model-overrides", "{'num_candidates': 5000}")  # the option, and an example for messages
# Options that cannot be empty, but that fairseq takes as the current folder or as a name, or fails on.
_FILLED = {"lr", "update_freq", "path", "save_dir", "results_path", "log_file", "restore_file", "source_lang"}
_FILLED |= {"target_lang", "train_subset", "valid_subset", "gen_subset", "adam_betas", "input", "destdir"}
_FILLED |= {"best_checkpoint_metric", "finetune_from_model"}
_SIZES = ("_dim", "_size", "_layers", "_heads")  # suffixes of the options of an arch that are sizes
_MOST_LAYERS = 1000
_SHARES = ("dropout", "layerdrop")  # suffixes of the options of an arch that are shares between 0 and 1
_OF_BATCHES: dict[str, tuple[str, float, float]] = {
    "max_sentences": ("batch-size", 1, ANY),
    "max_tokens": ("max-tokens", 1, ANY),
    "num_shards": ("num-shards", 1, ANY),
    "num_workers": ("num-workers", 0, MOST_PROCESSES),
    "shard_id": ("shard-id", 0, ANY),
    "data_buffer_size": ("data-buffer-size", 0, ANY),
}
# Options that fairseq-interactive ignores or fails on after the model is loaded, and their defaults.
_OF_GENERATE = {"score_reference": False, "prefix_size": 0, "lm_path": None, "sacrebleu": False, "scoring": "bleu"}
_OF_GENERATE |= {"results_path": None, "num_shards": 1, "shard_id": 0}
_NEEDED = {  # options of fairseq-train, and the options that have no effect without them
    "eval_bleu": "eval_bleu_args eval_bleu_detok eval_bleu_detok_args eval_bleu_print_samples eval_bleu_remove_bpe "
    "eval_tokenized_bleu",
    "save_interval_updates": "keep_interval_updates keep_interval_updates_pattern",
    "store_ema": "ema_decay ema_fp32 ema_seed_model ema_start_update ema_update_freq",
}
# Options of fairseq's byte pair encodings that name files. fairseq would download the default files of some.
_FILES_OF_BPE = {"bpe_codes", "bpe_merges", "bpe_vocab", "bpe_vocab_file", "gpt2_encoder_json", "gpt2_vocab_bpe"}
_FILES_OF_BPE |= {"sentencepiece_model", "sentencepiece_model_path"}


def check_decoding(args: Namespace) -> None:
    """Check options of fairseq-generate and fairseq-interactive before a model is loaded.

    Raises:
        UserError: if an option is invalid, or its BPE or score cannot be used. The message names it.
    """
    check_generation(args, sys.maxsize, str(args.search_preset))
    if hasattr(args, "buffer_size"):
        given = [name for name, default in _OF_GENERATE.items() if getattr(args, name, default) != default]
        given += ["print_alignment soft"] * (args.print_alignment == "soft")
        if given:
            raise UserError(f"{flag(given[0])} is for fairseq-generate: leave it out.")
    check_batches({name: getattr(args, option.replace("-", "_")) for name, (option, *_) in _OF_BATCHES.items()})
    if args.scoring == "meteor":
        raise UserError("--scoring meteor fails in fairseq with this NLTK: use wean-evaluate --metric meteor.")
    kinds = REGISTRIES["bpe"]["dataclass_registry"]
    if args.bpe is not None and args.bpe not in kinds:
        raise UserError(f"--bpe {args.bpe} cannot be used by commands of fairseq: choose from {', '.join(kinds)}.")
    options = [] if args.bpe is None else [item.name for item in fields(kinds[args.bpe])]
    for name in filter(_FILES_OF_BPE.__contains__, options):
        value = getattr(args, name)
        if not Path(value or "").is_file():
            raise UserError(f"--bpe {args.bpe} needs a local file as {flag(name)}, which is {value}.")


def read_overrides(value: Any, option: str, example: str) -> dict[str, Any]:
    """Return the value of an option that is a dictionary from option names to values, as text or as a ``dict``.

    Raises:
        UserError: if it is not such a dictionary. The message has the ``example``.
    """
    overrides = value
    if isinstance(value, str):
        with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            overrides = ast.literal_eval(value)
    if not isinstance(overrides, dict) or not all(isinstance(name, str) for name in overrides):
        raise UserError(f"{option} must be a dictionary, such as {example}, but is {shown(overrides)}.")
    return overrides


def check_subsets(args: Namespace) -> None:
    """Raise ``UserError`` if a subset is in another folder, whose checksums would not be compared."""
    for name in ("train_subset", "valid_subset", "gen_subset"):
        value = getattr(args, name, "")
        if "/" in str(value):
            raise UserError(f"{flag(name)} {value} has a slash: give the name of a split, such as test.")


def check_command_line(args: Namespace, parser: ArgumentParser) -> None:
    """Check numbers and text on any command line of fairseq. Raise ``UserError`` with the name of an invalid option.

    Numbers that fairseq's parser keeps as text are checked in the configuration.
    """
    read_overrides(getattr(args, "model_overrides", {}), *MODEL_OVERRIDES)
    ranges = {name: bounds for (_, name), bounds in _OF_TRAINING.items()}
    largest = (-_LARGEST_FLOAT, _LARGEST_FLOAT)
    for name, value in vars(args).items():
        if value in ("", []) and name in _FILLED:
            raise UserError(f"{flag(name)} is empty: give a value, or leave it out.")
        if name == "checkpoint_suffix" and "/" in value:
            raise UserError(f"{flag(name)} {value} has a slash: it is a part of a file name, such as _1.")
        if isinstance(value, str) and value != parser.get_default(name):
            check_no_reference("the folder" if name == "data" else flag(name), value)
        given = isinstance(value, int | float | list) and value != parser.get_default(name)
        if given and name not in ("unkpen", "seed"):
            numbers = [number for number in values_of(value) if isinstance(number, int | float)]
            for least, most in (ranges.get(name, largest), largest):
                check_range(name, numbers, least, most)


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
    data = cfg.get("dataset")
    if not getattr(data, "disable_validation", True) and data.train_subset in data.valid_subset.split(","):
        raise UserError(
            f"--valid-subset {data.valid_subset} has the training set, whose batches fairseq would take from the "
            "training: give fairseq-preprocess the same text as --validpref."
        )
    read_betas(str(getattr(cfg.get("optimizer"), "adam_betas", "(0.9, 0.999)")))
    sections = [cfg.get(name) for name in ("checkpoint", "dataset", "optimization")]
    if all(section is not None for section in sections):
        _check_saving(*sections)


def _check_saving(saving: Any, data: Any, limits: Any) -> None:
    """Refuse options that make ``--patience`` useless, keep the worst checkpoint, or save no checkpoint."""
    validates = not data.disable_validation  # without a validation, no checkpoint is the best
    if saving.patience > 0 and not validates:
        raise UserError("--patience counts validations, and --disable-validation has none: leave one of them out.")
    if validates and (not saving.no_save or saving.patience > 0):
        _check_direction(saving.best_checkpoint_metric, saving.maximize_best_checkpoint_metric)
    interval, epochs = data.validate_interval, limits.max_epoch or sys.maxsize
    has_more = data.validate_interval_updates or saving.save_interval_updates or 2 * interval <= epochs
    if saving.patience > 0 and interval > 1 and not has_more:
        raise UserError(
            f"--patience counts validations, and --max-epoch {epochs} with --validate-interval {interval} has at most "
            "one: leave --patience out, lower --validate-interval, or raise --max-epoch."
        )
    every = [saving.save_interval] * (not (saving.no_last_checkpoints and saving.no_epoch_checkpoints))
    both = 1 if data.validate_interval_updates else data.validate_interval
    every += [math.lcm(saving.save_interval, both)] * validates
    can_save = saving.save_interval_updates > 0 or min(every, default=math.inf) <= (limits.max_epoch or sys.maxsize)
    if limits.max_update or limits.stop_time_hours or saving.patience > 0:  # these limits save when they are reached
        can_save |= validates or not saving.no_last_checkpoints
    if not (can_save or saving.no_save):
        raise UserError(
            "this training would save no checkpoint, because of --no-last-checkpoints, --no-epoch-checkpoints, "
            "--disable-validation, or --save-interval or --validate-interval above --max-epoch: leave one of them out, "
            "or give --no-save."
        )


def _check_direction(metric: str, highest: bool) -> None:
    """Refuse options that keep the worst checkpoint instead of the best."""
    is_lower_better = metric == "ppl" or metric.endswith("loss")
    if (metric == "bleu" or metric.startswith("reward")) and not (is_lower_better or highest):
        raise UserError(
            f"--best-checkpoint-metric {metric} would keep the checkpoint with the lowest {metric}: add "
            "--maximize-best-checkpoint-metric."
        )
    if is_lower_better and highest:
        raise UserError(
            f"--maximize-best-checkpoint-metric would keep the checkpoint with the highest {metric}: leave it out, or "
            "give another --best-checkpoint-metric."
        )


def check_model(cfg: Any) -> None:
    """Raise ``UserError`` with the name of an option that is a negative size or a dropout of 1 or more."""
    options = cfg if isinstance(cfg, DictConfig) else vars(cfg)
    for name in options:
        value = options[name]
        if str(name).endswith(_SIZES) and isinstance(value, int):
            check_range(str(name), [value], 0, _MOST_LAYERS if str(name).endswith("_layers") else ANY)
        if str(name).endswith(_SHARES):
            check_share(str(name), value)


def unused_training_options(args: Namespace, parser: ArgumentParser) -> Iterator[str]:
    """Describe the options of fairseq-train that were given without the option that they need, see ``_NEEDED``."""
    for needed, names in _NEEDED.items():
        for name in names.split() if not getattr(args, needed, True) else ():
            if getattr(args, name, None) != parser.get_default(name):
                yield f"{flag(name)} has no effect without {flag(needed)}"


def check_task(cfg: Any) -> None:
    """Check length limits and the options of BLEU at validation. Raise ``UserError`` for invalid values."""
    for name in ("max_source_positions", "max_target_positions", "required_seq_len_multiple"):
        check_range(name, values_of(getattr(cfg, name, None)), 1)
    if getattr(cfg, "num_batch_buckets", 0):
        raise UserError("--num-batch-buckets is for TPUs, and fails with NumPy 2.4: leave it out.")
    if not cfg.eval_bleu:
        return
    try:
        OmegaConf.merge(OmegaConf.structured(GenerationConfig), json.loads(cfg.eval_bleu_args))
    except (ValueError, TypeError, RecursionError, OmegaConfBaseException) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f'--eval-bleu-args must be a JSON object of generation options, such as {{"beam": 4}} ({reason}).'
        ) from error
    tokenizers = REGISTRIES["tokenizer"]["registry"]
    if cfg.eval_bleu_detok not in tokenizers:
        raise UserError(f"--eval-bleu-detok {cfg.eval_bleu_detok} is unknown: choose from {', '.join(tokenizers)}.")
    try:
        options = json.loads(cfg.eval_bleu_detok_args)
    except (ValueError, TypeError, RecursionError):
        options = None
    if not isinstance(options, dict) or "tokenizer" in options:
        raise UserError(
            '--eval-bleu-detok-args must be a JSON object of options, such as {"target_lang": "en"}, but is '
            f"{shown(cfg.eval_bleu_detok_args)}."
        )


def check_batches(arguments: dict[str, Any]) -> None:
    """Check the arguments of ``get_batch_iterator``. Raise ``UserError`` with the name of an invalid option."""
    for name, (option, least, most) in _OF_BATCHES.items():
        check_range(option, values_of(arguments.get(name)), least, most)
    shards, number = arguments.get("num_shards", 1), arguments.get("shard_id", 0)
    if number >= shards:
        raise UserError(f"--shard-id counts from 0 and must be below --num-shards {shards}, but is {number}.")
