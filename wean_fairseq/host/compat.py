"""The only file that knows about host versions (fairseq-fixed 0.12.3.1, torch >= 2.10).

It prepares the host when the plugin is imported: the safe checkpoint loader learns the exact harmless types that
fairseq's own checkpoints contain, torchrun and Slurm work on machines without a GPU and tell how many processes there
are, ``--replace-unk`` works without a value, and known noise is not shown. The safe loader always stays on, whatever
TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD says.

fairseq evaluates options, also those of a checkpoint. ``eval`` is ``literals.read_literal`` in all of its modules,
those that are imported later too; nothing in fairseq needs more. FASTA files are refused: it gives their names to a
shell.

fairseq has no place for a task or a model to take part where checkpoints are read and written, so six functions of
``checkpoint_utils`` and its file functions are replaced by those of ``checkpoints/host.py``:

* ``torch_persistent_save``, ``PathManager.copy``: fairseq's are not synchronised to the disk, copy ``checkpoint_best``
  and ``checkpoint_last`` piece by piece under their final names, and keep no checksums;
* ``verify_checkpoint_directory``: fairseq's says by a traceback that a folder cannot be written, and lets two trainings
  write into one;
* ``load_checkpoint``: fairseq's begins anew where ``checkpoint_last.pt`` is gone, and fails where it is damaged;
* ``load_checkpoint_to_cpu``, ``load_model_ensemble_and_task``: fairseq's say what is wrong with a file by a traceback,
  and take a configuration as it is.

``Trainer.train_step`` is wrapped because only there it is known which batch had gradients that are no numbers;
``call_main``, with which every training starts, because fairseq takes ``--bf16`` for a TPU's and Ctrl-C for a crash;
``parse_args_and_arch``, because fairseq does not say which name is wrong on a command line; and ``progress_bar``, with
which fairseq opens ``--log-file`` once more for every epoch and then writes every line so many times.
"""

import argparse
import collections
import functools
import io
import logging
import math
import os
import sys
import typing
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace

# Importing fairseq's tasks says on every start that tensorboardX, which nothing here uses, is not installed.
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)

import numpy as np
import omegaconf
import torch
from fairseq import checkpoint_utils, options, utils
from fairseq.data import iterators
from fairseq.data.fasta_dataset import FastaDataset
from fairseq.dataclass.configs import DistributedTrainingConfig
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import progress_bar
from fairseq.trainer import Trainer

from ..checkpoints.literals import read_literal
from ..errors import UserError
from . import checkpoints as host
from . import command_line, interruption, precision
from .divergence import Diverged, describe

# Warnings of the host, by message, which come with every run and about which a user can do nothing.
_NOISE = (
    r"hydra\.experimental",
    r"version_base",
    r"@package _group_",
    r"'config' is validated against ConfigStore schema",
    r"strict flag",
    r"pin_memory",
    r"torch\.cuda\.amp\.",
)

_EVALUATING = ("fairseq", "fairseq_cli")  # packages

_call_main = distributed_utils.call_main
_infer_init_method = distributed_utils.infer_init_method
_infer_slurm_init = distributed_utils._infer_slurm_init
_load_align_dict = utils.load_align_dict
_progress_bar = progress_bar.progress_bar
_train_step = Trainer.train_step


def install() -> None:
    """Do everything of the module docstring; called once, by ``registration``."""
    _require_safe_loader()
    os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)
    torch.serialization.add_safe_globals(safe_globals())
    distributed_utils.call_main = _prepared_main
    options.parse_args_and_arch = command_line.parse_args_and_arch
    distributed_utils.infer_init_method = _init_method
    distributed_utils._infer_torch_distributed_launch_init = _init_from_torchrun
    distributed_utils._infer_slurm_init = _init_from_slurm
    utils.load_align_dict = _alignment_words
    progress_bar.progress_bar = _progress_bar_with_one_log
    _install_literals()
    FastaDataset._build_index = _refuse_fasta
    checkpoint_utils.torch_persistent_save = host.torch_persistent_save
    checkpoint_utils.PathManager = host.WholeFiles
    checkpoint_utils.verify_checkpoint_directory = host.verify_checkpoint_directory
    checkpoint_utils.load_checkpoint = host.load_checkpoint
    checkpoint_utils.load_checkpoint_to_cpu = host.load_checkpoint_to_cpu
    checkpoint_utils.load_model_ensemble_and_task = host.load_model_ensemble_and_task
    Trainer.train_step = _train_step_that_names_batches
    iterators.GroupedIterator = WholeGroups
    if not hasattr(np, "compat"):  # gone from newer NumPy; fairseq's sentences for language models ask it
        vars(np)["compat"] = SimpleNamespace(long=int)
    for message in _NOISE:
        warnings.filterwarnings("ignore", message=f"(?s).*{message}")
    make_output_printable()


@functools.wraps(_progress_bar)
def _progress_bar_with_one_log(*args: typing.Any, **options: typing.Any) -> typing.Any:
    if (log_file := options.get("log_file")) is not None:
        for handler in list(progress_bar.logger.handlers):
            if isinstance(handler, logging.FileHandler) and Path(handler.baseFilename) == Path(log_file).absolute():
                progress_bar.logger.removeHandler(handler)
                handler.close()
    return _progress_bar(*args, **options)


def _require_safe_loader() -> None:
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < (2, 10):
        raise ImportError(
            f"wean_fairseq needs torch 2.10 or newer, but this is {torch.__version__}: older ones can be attacked "
            "through a checkpoint even with the safe loader (CVE-2026-24747)."
        )


class _LiteralLoader(SourceFileLoader):
    """Loads a module in which ``eval`` reads literals."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["eval"] = read_literal
        super().exec_module(module)


class _LiteralFinder(MetaPathFinder):
    """Finds modules of fairseq that are imported later."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in _EVALUATING:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _LiteralLoader(spec.loader.name, spec.loader.path)
        return spec


def _install_literals() -> None:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _EVALUATING:
            vars(module)["eval"] = read_literal
    if not any(isinstance(finder, _LiteralFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _LiteralFinder())


def _refuse_fasta(dataset: FastaDataset, path: str) -> typing.NoReturn:
    raise UserError(f"{path}.fasta cannot be read: fairseq would give its name to a shell; prepare it as text.")


@functools.wraps(_train_step)
def _train_step_that_names_batches(
    trainer: Trainer, samples: list[dict[str, typing.Any]], *args: typing.Any
) -> typing.Any:
    """fairseq's step, whose "gradients are Nan/Inf" becomes a sentence that says where."""
    try:
        return _train_step(trainer, samples, *args)
    except FloatingPointError as error:
        raise Diverged(describe(samples, f"update {trainer.get_num_updates() + 1}", str(error))) from error


class WholeGroups(iterators.GroupedIterator):
    """fairseq's groups of batches for one update, with none lost where a training goes on between two of them.

    fairseq counts how many groups an epoch has as if it had been made of them from its beginning, so that with another
    --update-freq the last batches were never trained.
    """

    def __init__(self, iterable: typing.Any, chunk_size: int, skip_remainder_batch: bool = False) -> None:
        left = len(iterable) - getattr(iterable, "n", 0)
        super().__init__(iterable, chunk_size, skip_remainder_batch)
        if not skip_remainder_batch:
            self.total = self.n + math.ceil(left / chunk_size)


def safe_globals() -> list[typing.Any]:
    """The types, besides tensors and plain containers, that checkpoints of fairseq hold.

    Each was found necessary: argparse.Namespace by the checkpoints of archs without a dataclass; the numpy group by
    ``--eval-bleu``, whose counts are arrays; the rest by resuming with several processes, where rank 0 sends its state.
    """
    return [
        argparse.Namespace,
        (_empty_counts, "numpy._core.multiarray._reconstruct"),
        (_empty_counts, "numpy.core.multiarray._reconstruct"),  # its name in files written under numpy 1
        (Counts, "numpy.ndarray"),
        (_int64, "numpy.dtype"),
        np.dtypes.Int64DType,
        omegaconf.DictConfig,
        omegaconf.ListConfig,
        omegaconf.base.ContainerMetadata,
        omegaconf.base.Metadata,
        omegaconf.nodes.AnyNode,
        (typing.Any, "typing.Any"),
        collections.defaultdict,
        dict,
        list,
        int,
        distributed_utils._TensorPlaceholder,
    ]


class Counts(np.ndarray):
    """An array of a checkpoint: whole numbers, whatever the file says of it.

    NumPy's own array believes a file: that its numbers are the addresses of Python objects, say, and whoever looked at
    one would run what is there. It is saved as NumPy's.
    """

    def __new__(cls, *_: typing.Any) -> "Counts":
        return super().__new__(cls, (0,), np.int64)

    def __setstate__(self, state: typing.Any) -> None:
        _, shape, dtype, in_columns, numbers = state
        if dtype is not np.dtype(np.int64) or not isinstance(numbers, bytes):
            raise ValueError(f"counts are int64, not {dtype!r}")
        counts = np.frombuffer(numbers, np.int64).reshape(shape, order="F" if in_columns else "C")
        self.resize(counts.shape, refcheck=False)
        self[...] = counts

    def __reduce_ex__(self, protocol: typing.Any) -> typing.Any:
        return self.view(np.ndarray).__reduce_ex__(protocol)


def _empty_counts(*_: typing.Any) -> Counts:
    """Stand in for NumPy's function, which makes an array of any kind."""
    return Counts()


def _int64(code: str, *_: typing.Any) -> np.dtype[np.int64]:
    """Stand in for NumPy's dtype, which a file can give fields of objects; nothing can change the one returned.

    Raises ``ValueError`` if it is another dtype.
    """
    if code != "i8":
        raise ValueError(f"counts are int64, not {code!r}")
    return np.dtype(np.int64)


def _prepared_main(cfg: omegaconf.DictConfig, main: typing.Callable[..., typing.Any], **kwargs: typing.Any) -> None:
    """fairseq's, once the options of half precision are those of the machine; Ctrl-C ends it well."""
    precision.prepare(cfg)
    with interruption.ends_well(cfg, main):
        _call_main(cfg, main, **kwargs)


def _init_method(cfg: DistributedTrainingConfig, force_distributed: bool = False) -> None:
    """fairseq's, with the number of processes that the launcher has started.

    Without --distributed-world-size fairseq takes the GPUs that it sees: where that is one or none, each of the
    processes would train by itself and write over the checkpoints of the others.
    """
    env = os.environ
    if cfg.distributed_world_size < 1:
        raise UserError(f"--distributed-world-size must be 1 or more, but is {cfg.distributed_world_size}.")
    if all(name in env for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")):
        cfg.distributed_world_size = int(env["WORLD_SIZE"])
    elif cfg.distributed_port > 0 and int(env.get("SLURM_NTASKS", 0)) > 1:
        cfg.distributed_world_size = int(env["SLURM_NTASKS"])  # of machines with one task fairseq counts the GPUs
    _infer_init_method(cfg, force_distributed)


def _init_from_torchrun(cfg: DistributedTrainingConfig) -> None:
    """fairseq's set-up from torchrun's environment, which divides by the number of GPUs, made right for none."""
    cfg.distributed_init_method = "env://"
    cfg.distributed_world_size = int(os.environ["WORLD_SIZE"])
    cfg.distributed_rank = int(os.environ["RANK"])
    cfg.device_id = cfg.distributed_rank % max(1, torch.cuda.device_count())
    cfg.distributed_no_spawn = True  # torchrun has made the processes


def _init_from_slurm(cfg: DistributedTrainingConfig, num_pipelines_per_node: int | None) -> bool:
    """fairseq's, made right for tasks that see no GPU, or only their own."""
    found = bool(_infer_slurm_init(cfg, num_pipelines_per_node))
    gpus = torch.cuda.device_count()
    if found and gpus == 0:  # of a machine with one task fairseq starts as many processes as it has GPUs
        cfg.distributed_world_size = int(os.environ["SLURM_NTASKS"])
        cfg.distributed_rank = int(os.environ["SLURM_PROCID"])
        cfg.distributed_no_spawn = True
    if found:
        cfg.device_id %= max(1, gpus)
    return found


def _alignment_words(path: str | None) -> dict[str, str] | None:
    """fairseq's reading of ``--replace-unk [FILE]``, whose default value for the bare flag is no file but "@@ "."""
    words: dict[str, str] | None = _load_align_dict("" if path == "@@ " else path)
    return words


def make_output_printable() -> None:
    """Let every word be printed, whatever the locale's encoding: escaped on a terminal, else as UTF-8."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and out.errors == "strict":
        plain = not out.encoding.lower().startswith("utf") and not out.isatty()
        out.reconfigure(encoding="utf-8" if plain else None, errors="backslashreplace")
