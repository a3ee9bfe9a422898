"""A translation task that verifies data checksums and stops on divergence."""

import logging
import random
import re
import time
from dataclasses import dataclass
from functools import partial
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
from ..data.extended_vocabulary import num_base_words
from ..data.integrity import check_binary, check_data, checksum_of, record_once
from ..data.pairs import dictionary_file
from ..errors import UserError
from ..fields import option
from ..host import precision, stopping
from ..host.divergence import check_loss
from ..modules.output_matmul import exact_products
from .epoch_batches import EpochBatches

logger = logging.getLogger(__name__)
NO_TARGETS = "{} has no target sentences, which a loss needs: restore the files of that side, or preprocess again."
_DICTIONARY = re.compile(r"dict\..*\.txt")
WRITTEN = ("copy_provenance", "granularity_dump")  # options that name files to write


@dataclass
class GuardedConfig(TranslationConfig):
    """Options of the translation task, of the check for divergence, and of the precision."""

    loss_limit: float = option(
        1000.0, "stop when the loss of a batch is NaN or above this value in nats per token; 0 = no limit", least=0
    )
    tf32: bool = option(
        False, "round the factors of float32 products and recurrent networks to TF32 on a GPU: faster, but not exact"
    )


class GuardedTask(TranslationTask):
    """A task that stores checksums of dictionaries in checkpoints, and checksums of data next to the data."""

    cfg: GuardedConfig

    def __init__(self, cfg: GuardedConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        precision.set_tf32(getattr(cfg, "tf32", False))  # older checkpoints do not have this option
        self.epoch = 1  # epoch of the training, for losses with a schedule
        self._update: int | None = None  # last update of the training that was attempted
        self._recorded = False  # whether this process has recorded the checksums of its data
        self._data: str | None = None  # checksum of the training pairs
        self._trained_on: str | None = None  # the same checksum in the checkpoint from which the training was resumed

    @classmethod
    def setup_task(cls, cfg: GuardedConfig, **kwargs: Any) -> "GuardedTask":
        """Load the dictionaries. Raise ``UserError`` if a file has changed since its checksum was recorded."""
        if kwargs.get("from_checkpoint"):
            for name in WRITTEN:  # a checkpoint must not determine which files this process writes
                if getattr(cfg, name, None) is not None:
                    setattr(cfg, name, None)
        first, *others = split_paths(cfg.data)
        check_data(Path(first), _DICTIONARY.fullmatch)
        task: GuardedTask = super().setup_task(cfg, **kwargs)
        for folder in () if kwargs.get("from_checkpoint") else others:
            task.check_folder(Path(folder), first)
        return task

    def check_folder(self, folder: Path, first: str) -> None:
        """Reject a further folder of training data whose dictionaries number the words differently.

        fairseq reads only the dictionaries of the first folder.

        Raises:
            UserError: if a dictionary differs. The message names it.
        """
        check_data(folder, _DICTIONARY.fullmatch)
        for side, dictionary in self.sides.items():
            path = folder / f"dict.{side}.txt"
            words = dictionaries.fingerprint(dictionaries.load_dictionary(str(path))) if path.exists() else {}
            if words and words != dictionaries.fingerprint(dictionary):
                raise UserError(
                    f"{path} numbers the words differently from the one in {first}, and a training has one dictionary: "
                    f"preprocess the data again with --srcdict and --tgtdict from {first}."
                )

    @classmethod
    def load_dictionary(cls, filename: str) -> Dictionary:
        """Read a dictionary.

        If the data was created with ``--only-source``, read the dictionary of the source. Raise ``UserError`` if it is
        not valid.
        """
        return dictionaries.load_dictionary(str(dictionary_file(Path(filename))))

    def check_files(self, split: str, epoch: int, combine: bool) -> None:
        """Reject files of a split that have changed, or that do not match each other or the dictionaries.

        Raises:
            UserError: if a file is rejected. The message names it.
        """
        for path in check_data(self.folder_of(split, epoch), partial(_is_of_split, split=split, combine=combine)):
            dictionary = self.sides.get(path.stem.rsplit(".", 1)[-1])
            if path.suffix == ".bin" and dictionary is not None:
                check_binary(path.with_suffix(""), num_base_words(dictionary))

    @property
    def sides(self) -> dict[str, Dictionary]:
        """The dictionaries, by the suffixes of their files."""
        return {self.cfg.source_lang: self.src_dict, self.cfg.target_lang: self.tgt_dict}

    def folder_of(self, split: str, epoch: int) -> Path:
        """Return the folder of a split in an epoch (counted from 1). Training epochs use the folders in turn."""
        shards = split_paths(self.cfg.data)
        return Path(shards[(epoch - 1) % len(shards)] if split == self.cfg.train_subset else shards[0])

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """Record the data checksums that resumed runs must match."""
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
        """Return fairseq's batches. Their checkpoints also identify the batches of the epoch."""
        return EpochBatches(super().get_batch_iterator(dataset, *args, **kwargs))

    def train_step(self, sample: dict[str, Any], *args: Any, **kwargs: Any) -> tuple[Any, Any, dict[str, Any]]:
        """Run a training step with the random numbers that belong to its update. Check its loss before the update.

        The CPU seconds and the number of threads of this process are logged, for the records of trainings.

        Raises:
            Diverged: if the loss is too high or not finite. The message names the batch. The parameters are not
                updated.
        """
        update = kwargs.get("update_num", 0) + 1
        if update != self._update:  # do this only once for an update that consists of several batches
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
        """Run a validation step.

        During training, its loss is checked, so that a diverged model is not saved as the best.

        Raises:
            UserError: if the data has no target sentences.
            Diverged: in training, if the loss is too high or not finite. The message names the batch.
        """
        if sample.get("target", ...) is None:
            raise UserError(NO_TARGETS.format("the data to validate on"))
        with exact_products():
            result: tuple[Any, Any, dict[str, Any]] = super().valid_step(sample, *args, **kwargs)
        if self._update is not None:
            check_loss(result[0], sample, self.cfg.loss_limit, f"the validation after update {self._update}")
        return result

    def get_checkpoint_dict(self) -> dict[str, Any]:
        """Return the state that a resumed training needs."""
        return {type(self).__name__: {"patience": stopping.patience()}}

    def set_checkpoint_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that ``get_checkpoint_dict`` returned, in all processes."""
        stopping.restore_patience(state.get("patience", {}))

    def state_dict(self) -> dict[str, Any]:
        """Return the task's part of a checkpoint: checksums of the dictionaries' words and of the training data."""
        described = {side: dictionaries.fingerprint(dictionary) for side, dictionary in self.sides.items()}
        return {**super().state_dict(), "dictionaries": described, "trained_on": self._data}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state from a checkpoint.

        Raise ``UserError`` if the checkpoint was trained with other dictionaries.
        """
        task_state = dict(state_dict)
        checkpoint = task_state.pop("checkpoint", "the checkpoint")
        self.check_dictionaries(task_state, checkpoint)
        task_state.pop("dictionaries", None)
        task_state.pop("trained_on", None)
        super().load_state_dict(task_state)

    def check_dictionaries(self, task_state: dict[str, Any], checkpoint: str) -> None:
        """Reject a model that was trained with other dictionaries. Old checkpoints do not record dictionaries.

        Args:
            task_state: the state that ``state_dict`` returned during training.
            checkpoint: path of the checkpoint, for error messages.

        Raises:
            UserError: if a dictionary differs. The message names it.
        """
        folder = split_paths(self.cfg.data)[0]
        dictionaries.check(task_state.get("dictionaries") or {}, self.sides, checkpoint, folder)

    def resume_from(self, task_state: dict[str, Any]) -> None:
        """Remember the data checksum of the checkpoint, to warn later if the data has changed."""
        self._trained_on = task_state.get("trained_on")


def _seed_like_torch() -> None:
    """Seed Python and NumPy with torch's seed, which fairseq derives from --seed and the update number."""
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the generator that fairseq uses, and that a user's criterion may use


def _is_of_split(name: str, split: str, combine: bool) -> bool:
    """Return True for a file of the split. If parts are combined, this includes its parts (train1, train2, ...)."""
    part = name.partition(".")[0]
    return part == split or (combine and part.startswith(split) and part.removeprefix(split).isdecimal())
