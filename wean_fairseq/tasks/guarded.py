"""The translation task, guarded: data and dictionaries are what they were, and a training that diverges stops."""

import logging
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import metrics
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.utils import split_paths

from ..checkpoints import dictionaries
from ..data.integrity import check_binary, check_data, checksum_of, record_once
from ..data.pairs import dictionary_file
from ..fields import option
from ..host import precision, stopping
from ..host.divergence import check_loss
from ..modules.output_matmul import exact_products
from .epoch_batches import EpochBatches

logger = logging.getLogger(__name__)
_WRITTEN = ("copy_provenance", "granularity_dump")  # options that name files to write


@dataclass
class GuardedConfig(TranslationConfig):
    """The translation task's options, when to stop, and how exactly to compute."""

    loss_limit: float = option(
        1000.0, "stop when the loss of a batch is not a number or above this, in nats a token; 0 = any number"
    )
    tf32: bool = option(
        False, "let a GPU round the factors of float32 products and recurrent networks to TF32: faster, not exact"
    )


class GuardedTask(TranslationTask):
    """Keeps what its checks need: in the checkpoints, the words of the dictionaries; beside the data, its checksums."""

    cfg: GuardedConfig

    def __init__(self, cfg: GuardedConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        precision.set_tf32(getattr(cfg, "tf32", False))  # which older checkpoints do not have
        self.epoch = 1  # of the training, for losses that have a schedule
        self._update: int | None = None  # the last one that was tried, in training
        self._recorded = False  # whether this training has looked for checksums of its data
        self._data: str | None = None  # checksum of the pairs that are trained on
        self._trained_on: str | None = None  # the same, as the checkpoint says that is gone on from

    @classmethod
    def setup_task(cls, cfg: GuardedConfig, **kwargs: Any) -> "GuardedTask":
        """Load the dictionaries; raises ``UserError`` if one has changed since its checksum was written."""
        if kwargs.get("from_checkpoint"):
            for name in _WRITTEN:  # a checkpoint does not choose where this computer writes
                if getattr(cfg, name, None) is not None:
                    setattr(cfg, name, None)
        check_data(sorted(Path(split_paths(cfg.data)[0]).glob("dict.*.txt")))
        task: GuardedTask = super().setup_task(cfg, **kwargs)
        return task

    @classmethod
    def load_dictionary(cls, filename: str) -> Dictionary:
        """Read a dictionary, of ``--only-source`` data the source's; raises ``UserError`` if it is not valid."""
        return dictionaries.load(str(dictionary_file(Path(filename))))

    def check_files(self, split: str, epoch: int, combine: bool) -> None:
        """Refuse files of a split that have changed, or do not fit each other or the dictionaries.

        Raises:
            UserError: naming the file.
        """
        found = self.folder_of(split, epoch).glob(f"{split}*.*")
        for path in sorted(path for path in found if _is_of_split(path, split, combine)):
            check_data([path])
            dictionary = self.sides.get(path.stem.rsplit(".", 1)[-1])
            if path.suffix == ".bin" and dictionary is not None:
                check_binary(path.with_suffix(""), getattr(dictionary, "first_slot", len(dictionary)))

    @property
    def sides(self) -> dict[str, Dictionary]:
        """The dictionaries by the suffixes of their files."""
        return {self.cfg.source_lang: self.src_dict, self.cfg.target_lang: self.tgt_dict}

    def folder_of(self, split: str, epoch: int) -> Path:
        """The folder of a split in an epoch, counted from 1: training goes through all of them."""
        shards = split_paths(self.cfg.data)
        return Path(shards[(epoch - 1) % len(shards)] if split == self.cfg.train_subset else shards[0])

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """A training begins: what its data is now is what it has to be from now on."""
        super().begin_epoch(epoch, model)
        self.epoch = epoch
        if distributed_utils.get_global_rank() == 0 and not self._recorded:
            self._recorded = True
            folders = [Path(folder) for folder in split_paths(self.cfg.data)]
            for folder in folders:
                record_once(folder)
            self._data = checksum_of(folders, self.cfg.train_subset)
            if self._trained_on and self._data and self._trained_on != self._data:
                logger.warning(
                    f"OTHER DATA: the pairs in {self.cfg.data} are not those that the checkpoint was trained on, "
                    "though their dictionary is the same; training continues with them"
                )

    def get_batch_iterator(self, dataset: FairseqDataset, *args: Any, **kwargs: Any) -> Any:
        """The batches of fairseq; their checkpoints tell which batches they are in the middle of."""
        return EpochBatches(super().get_batch_iterator(dataset, *args, **kwargs))

    def train_step(self, sample: dict[str, Any], *args: Any, **kwargs: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Take a training step with random numbers of the update; its loss is checked before an update is made.

        The CPU seconds of this process and its number of threads are logged, for the records of trainings.

        Raises:
            Diverged: naming the batch, before an update is made with it.
        """
        update = kwargs.get("update_num", 0) + 1
        if update != self._update:  # not for every batch of an update of several
            _seed_like_torch()
        self._update = update
        with exact_products():
            result: tuple[Any, Any, dict[str, Any]] = super().train_step(sample, *args, **kwargs)
        metrics.log_scalar("cpu", time.process_time(), weight=0, priority=900, round=1)
        metrics.log_scalar("threads", torch.get_num_threads(), weight=0, priority=901, round=0)
        if not kwargs.get("ignore_grad"):
            check_loss(result[0], sample, self.cfg.loss_limit, f"update {self._update}")
        return result

    def valid_step(self, sample: dict[str, Any], *args: Any, **kwargs: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Take a validation step; in training its loss is checked before the model is kept as the best.

        Raises:
            Diverged: in training, naming the batch, before the model is kept as the best.
        """
        with exact_products():
            result: tuple[Any, Any, dict[str, Any]] = super().valid_step(sample, *args, **kwargs)
        if self._update is not None:
            check_loss(result[0], sample, self.cfg.loss_limit, f"the validation after update {self._update}")
        return result

    def get_checkpoint_dict(self) -> dict[str, Any]:
        """The state that a resumed training needs."""
        return {type(self).__name__: {"patience": stopping.patience()}}

    def set_checkpoint_dict(self, state: dict[str, Any]) -> None:
        """Take what ``get_checkpoint_dict`` gave, in all processes."""
        stopping.restore_patience(state.get("patience", {}))

    def state_dict(self) -> dict[str, Any]:
        """The task's part of a checkpoint: checksums of the words of the dictionaries, and of the training data."""
        described = {side: dictionaries.describe(dictionary) for side, dictionary in self.sides.items()}
        return {**super().state_dict(), "dictionaries": described, "trained_on": self._data}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state that a checkpoint holds; raises ``UserError`` if its training had other dictionaries."""
        kept = dict(state_dict)
        checkpoint = kept.pop("checkpoint", "the checkpoint")
        self.check_dictionaries(kept, checkpoint)
        kept.pop("dictionaries", None)
        kept.pop("trained_on", None)
        super().load_state_dict(kept)

    def check_dictionaries(self, task_state: dict[str, Any], checkpoint: str) -> None:
        """Refuse a model that was trained with other dictionaries; old checkpoints do not tell.

        Args:
            task_state: what ``state_dict`` gave in training.
            checkpoint: the file, for the user.

        Raises:
            UserError: naming the dictionary.
        """
        folder = split_paths(self.cfg.data)[0]
        dictionaries.check(task_state.get("dictionaries") or {}, self.sides, checkpoint, folder)

    def resume_from(self, task_state: dict[str, Any]) -> None:
        """Remember what a training was made with that is gone on with, to say so if it is something else now."""
        self._trained_on = task_state.get("trained_on")


def _seed_like_torch() -> None:
    """Make Python's and NumPy's random numbers, as fairseq makes torch's, those of the update, whatever came before."""
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the one that fairseq uses, and a criterion of the user may use


def _is_of_split(path: Path, split: str, combine: bool) -> bool:
    """Whether a file is of the split, or of one of its parts (train1, train2, ...) where they are combined."""
    part = path.name.split(".")[0].removeprefix(split)
    return part == "" or (combine and part.isdecimal())
