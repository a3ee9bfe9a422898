"""Features of source words from a frozen BERT, computed once and stored in memory-mapped files.

A file contains the features of all distinct lines of a split, in sorted order. Its name is a checksum over BERT's
digest, the separator of topics and the lines, so that any change selects another file. The file appears under this name
only when it is complete. A second process that needs the same file waits until the first process has written it.
Features have half precision: 12 layers of width 768 take 18 KiB per word.

Legend: ``B`` batch, ``S`` source length, ``N`` words of a split, ``k`` words of a line, ``L`` layers of BERT, ``H`` its
width.
"""

import fcntl
import hashlib
import json
import logging
import shutil
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass import FairseqDataclass
from fairseq.utils import split_paths
from msgspec import convert
from torch import Tensor

from ..errors import UserError
from ..fields import option
from ..storage.files import open_growing, open_regular, whole_folder
from ..storage.json_files import read_json
from .bert_features import STORED, FrozenBert, Words
from .extra_inputs import ExtraInputs
from .pairs import PairLimits, word_ids, word_positions

logger = logging.getLogger(__name__)

_FORMAT = 1
_BLOCK = 1 << 24  # number of bytes per read when a checksum is computed


class StoredFeatures:
    """BERT's features of lines, from cache files or computed by BERT.

    For prepared splits, the features are read from files. For other lines, they are computed when they are needed.
    """

    def __init__(self, bert: FrozenBert, folder: Path) -> None:
        self.bert = bert
        self.folder = folder
        self._splits: dict[str, tuple[np.ndarray, dict[Words, int]]] = {}

    def prepare(self, split: str, lines: Iterable[Words], *, training: bool = False) -> None:
        """Load the features of a split from its file. If the file is missing, it is written first.

        Args:
            training: a model will learn from the split.

        Raises:
            UserError: if the directory or BERT cannot be used, or if BERT knows no word of a training split.
        """
        distinct = sorted(set(lines))
        starts = np.cumsum([0, *map(len, distinct)])
        cache = _CacheFile(self.folder, self.bert, distinct, int(starts[-1]))
        try:
            features, is_new = cache.read(), False
            if features is None:
                with cache.locked():
                    features = cache.read(warn=True)  # another process may have written the file in the meantime
                    if features is None:
                        cache.unknown = self.bert.count_unknown(distinct)
                        self._check_words(split, *cache.unknown, training=training)
                        cache.write(split, starts)
                        is_new = True
                        self.bert.release()
                        features = cache.read()
        except OSError as error:
            raise UserError(
                f"the BERT features cannot be kept in {self.folder} ({error.strerror or error}): "
                "choose another directory with --bert-cache."
            ) from error
        if features is None:
            raise UserError(f"the features in {self.folder} differ from those written: the disk is faulty.")
        if cache.unknown and not is_new:
            self._check_words(split, *cache.unknown, training=training)
        self._splits[split] = features, dict(zip(distinct, starts[:-1].tolist(), strict=True))

    def _check_words(self, split: str, unknown: int, words: int, *, training: bool) -> None:
        """Warn if BERT knows fewer than half of the words of a split. Refuse a training split without a known word."""
        read = f"the BERT in {self.bert.path} reads {unknown} of {words} different words of {split} as [UNK]"
        if unknown == words > 0 and training:
            raise UserError(
                f"{read}: it is for another language, or the words are cased or tokenised differently: give another "
                "--bert."
            )
        if 2 * unknown > words:
            logger.warning(f"{read}: it cannot distinguish these words")

    def align(self, src_tokens: Tensor, dictionary: Dictionary) -> Tensor:
        """Return the features at the word positions of a batch. They are 0 at end symbols and padding.

        Args:
            src_tokens: (B, S), padded on either side.
            dictionary: source dictionary, which knows the spellings of unknown words.

        Returns:
            Shape (B, S, L, H), float32.
        """
        is_word = word_positions(src_tokens, dictionary)  # (B, S)
        rows = zip(src_tokens.tolist(), is_word.tolist(), strict=True)
        lines = [tuple(dictionary[index] for index, is_kept in zip(*row, strict=True) if is_kept) for row in rows]
        aligned = torch.zeros(*src_tokens.shape, self.bert.num_layers, self.bert.dim, device=src_tokens.device)
        if is_word.any():
            features = torch.from_numpy(np.concatenate(self._rows(lines)))
            aligned[is_word] = features.to(src_tokens.device).float()
        return aligned

    def _rows(self, lines: Sequence[Words]) -> list[np.ndarray]:
        """Return the features (k, L, H) of each line's words. Lines without words are left out."""
        lines = [words for words in lines if words]
        features = [self._find(words) for words in lines]
        missing = [number for number, rows in enumerate(features) if rows is None]
        if missing:
            for number, rows in self.bert.features([lines[number] for number in missing]):
                features[missing[number]] = rows
        return [rows for rows in features if rows is not None]

    def _find(self, words: Words) -> np.ndarray | None:
        for features, starts in self._splits.values():
            start = starts.get(words)
            if start is not None:
                return features[start : start + len(words)]
        return None


@dataclass
class BertConfig(FairseqDataclass):
    """Options of tasks whose models read BERT's features."""

    bert: Optional[str] = option(  # Optional, because fairseq cannot read `str | None`
        None, "local transformers directory of the BERT that reads the sources; it is never trained"
    )
    bert_cache: Optional[str] = option(None, "folder for BERT's features of the sources (default: in the data folder)")


@dataclass
class TopicBertConfig(BertConfig):
    """Options of tasks whose sources are topics and whose models read BERT's features."""

    topic_separator: str = option("[PAD]", "token that separates two topics in BERT's input; empty = none")


class BertInputs(ExtraInputs):
    """The input ``bert_features`` (B, S, L, H): features of a batch's source words from the BERT of ``--bert``."""

    option = "bert"
    names = ("bert_features",)
    are_required = True
    read_words = True

    def __init__(self, cfg: Any, dictionary: Dictionary) -> None:
        super().__init__(cfg, dictionary)
        folder = Path(cfg.bert_cache) if cfg.bert_cache else Path(split_paths(cfg.data)[0]) / "bert-features"
        bert = FrozenBert(cfg.bert, getattr(cfg, "topic_separator", None))  # without a separator, sources are sentences
        self.features = StoredFeatures(bert, folder)
        self.attributes = {"bert": bert}

    @classmethod
    def check(cls, cfg: Any) -> None:
        """Raise ``UserError`` if a cache is given without a BERT."""
        if cfg.bert is None and cfg.bert_cache:
            raise UserError("--bert-cache is for --bert DIR, which is not given: leave it out.")

    def extend(self, split: str, pairs: LanguagePairDataset, uncut: LanguagePairDataset, training: bool) -> Any:
        """Compute the features of the sources that are not stored yet. Pairs that training leaves out are skipped."""
        limits = PairLimits(self.cfg.max_pair_length, str(self.cfg.length_policy))
        longest = limits.length if training and limits.drops else sys.maxsize
        lines = set(word_ids((pairs.src[index] for index in range(len(pairs.src))), self.dictionary))
        read = {tuple(self.dictionary[index] for index in line) for line in lines if 0 < len(line) <= longest}
        if read:
            self.features.prepare(split, read, training=training)
        return pairs

    def complete(self, batch: dict[str, Any]) -> dict[str, Any]:
        """See ``ExtraInputs``."""
        net_input = batch["net_input"]
        if "bert_features" in net_input:
            return batch
        features = self.features.align(net_input["src_tokens"], self.dictionary)
        return {**batch, "net_input": {**net_input, "bert_features": features}}


class _CacheFile:
    """A directory with the features (N, L, H) of some lines, and with a manifest that identifies these lines."""

    def __init__(self, folder: Path, bert: FrozenBert, lines: list[Words], words: int) -> None:
        self.bert = bert
        self.lines = lines
        self.shape = (words, bert.num_layers, bert.dim)
        content = {"bert": bert.digest, "separator": bert.separator, "sentences": len(lines)}
        text = hashlib.sha256("".join(f"{' '.join(words)}\n" for words in lines).encode()).hexdigest()
        self.manifest: dict[str, Any] = {"format": _FORMAT, **content, "topics": text, "shape": list(self.shape)}
        key = hashlib.sha256(json.dumps(self.manifest, sort_keys=True).encode()).hexdigest()[:24]
        self.folder = folder
        self.path = folder / key
        # the numbers of different words that BERT reads as [UNK], and of all; files of older versions do not have them
        self.unknown: tuple[int, int] | None = None

    def read(self, *, warn: bool = False) -> np.ndarray | None:
        """Return the features as a memory map.

        Return ``None`` if the features are missing, belong to other data, or are damaged (which is logged with
        ``warn``).
        """
        if not self.path.exists():
            return None
        try:
            file = self.path / "features.npy"
            content = read_json(self.path / "manifest.json")
            unknown = content.pop("unknown", None) if isinstance(content, dict) else None
            if content == {**self.manifest, "crc32": _checksum(file)}:
                self.unknown = None if unknown is None else convert(unknown, tuple[int, int])
                features = np.lib.format.open_memmap(file, mode="r")
                if features.shape == self.shape and features.dtype == STORED:
                    return np.asarray(features)
        except (OSError, ValueError, EOFError):  # ValidationError is a ValueError
            pass
        if warn:
            logger.warning(f"{self.path} is damaged or was not written by this package: BERT computes it again")
        return None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock, so that no other process writes the same file at the same time.

        The operating system releases the lock when the process ends.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with open_growing(self.folder / f".{self.path.name}.lock") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                logger.info(f"another process computes {self.path}: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def write(self, split: str, starts: np.ndarray) -> None:
        """Compute the features, and write them completely or not at all.

        ``starts`` contains the index of the first row of each line.
        """
        size = int(np.prod(self.shape)) * np.dtype(STORED).itemsize
        logger.info(
            f"{split}: BERT reads {len(self.lines)} distinct lines ({self.shape[0]} words), {size / 1e6:.1f} MB "
            f"into {self.path}"
        )
        if size > shutil.disk_usage(self.folder).free:
            raise UserError(
                f"the BERT features of {split} take {size / 1e9:.1f} GB, which {self.folder} has no room for: "
                "choose another directory with --bert-cache."
            )
        shutil.rmtree(self.path, ignore_errors=True)
        with whole_folder(self.path) as partial:
            features = np.lib.format.open_memmap(partial / "features.npy", mode="w+", dtype=STORED, shape=self.shape)
            for number, rows in self.bert.features(self.lines):
                features[starts[number] : starts[number + 1]] = rows
            features.flush()
            del features
            manifest = {**self.manifest, "crc32": _checksum(partial / "features.npy"), "unknown": self.unknown}
            (partial / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _checksum(path: Path) -> int:
    total = 0
    with open_regular(path) as file:
        while block := file.read(_BLOCK):
            total = zlib.crc32(block, total)
    return total
