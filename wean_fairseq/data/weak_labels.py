"""Weak labels of words (for DNPG), which are read from the files of preprocess/weak_labels.py and added to batches.

Legend: ``B`` batch, ``S`` source length, ``T`` target length.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from fairseq.data import LanguagePairDataset
from fairseq.data.base_wrapper_dataset import BaseWrapperDataset
from fairseq.dataclass import FairseqDataclass
from numpy.typing import NDArray
from torch import Tensor

from ..console import counted
from ..errors import UserError
from ..fields import option
from ..storage.data_files import check_prepared
from ..storage.files import read_regular
from .extra_inputs import ExtraInputs

SENTENCE_LEVEL = 1  # label of the end symbol. The files contain no label for it
NO_LABEL = -1  # label at padding. Losses ignore it


class _SideLabels(NamedTuple):
    """The labels of all words of one side in one array, and the start of each sentence in it."""

    labels: NDArray[np.int8]
    starts: NDArray[np.int64]

    def scatter(self, ids: list[int], tokens: Tensor, padding_idx: int) -> Tensor:
        """Return the labels (B, S) of the sentences ``ids`` at the positions of their words in ``tokens`` (B, S)."""
        words = tokens.ne(padding_idx)
        values: list[int] = []
        for sentence, length in zip(ids, words.sum(dim=1).tolist(), strict=True):
            start = int(self.starts[sentence])
            values += [*self.labels[start : start + length - 1].tolist(), SENTENCE_LEVEL]
        labels = torch.full_like(tokens, NO_LABEL)
        labels[words] = torch.tensor(values)
        return labels


class LabelledPairs(BaseWrapperDataset):
    """Sentence pairs whose batches have ``source_labels`` (B, S) and ``target_labels`` (B, T) in ``net_input``.

    A label is 0 or 1 at a word and ``NO_LABEL`` at padding. The sentences may be shorter than the labelled sentences,
    because they may be truncated.
    """

    def __init__(self, dataset: LanguagePairDataset, source: _SideLabels, target: _SideLabels) -> None:
        super().__init__(dataset)
        self.source = source
        self.target = target

    def collater(self, samples: list[dict[str, Any]], **layout: Any) -> dict[str, Any]:
        """Return the batch of the wrapped ``dataset`` with labels added."""
        batch: dict[str, Any] = self.dataset.collater(samples, **layout)
        if batch:
            ids, net_input = batch["id"].tolist(), batch["net_input"]
            source_pad, target_pad = self.dataset.src_dict.pad(), self.dataset.tgt_dict.pad()
            net_input["source_labels"] = self.source.scatter(ids, net_input["src_tokens"], source_pad)
            net_input["target_labels"] = self.target.scatter(ids, batch["target"], target_pad)
        return batch


@dataclass
class WeakLabelsConfig(FairseqDataclass):
    """The option that requests weak labels in a task."""

    granularity_labels: Optional[str] = option(  # Optional, because fairseq cannot read `str | None`
        None, "directory with the weak labels of words for training dnpg (from preprocess/weak_labels.py)"
    )


class WeakLabels(ExtraInputs):
    """The extra inputs from the label files ``<split>.<language>.z`` in the folder of ``--granularity-labels``.

    A file has one line per sentence, with 0 or 1 for each word.
    """

    option = "granularity_labels"
    names = ("source_labels", "target_labels")

    @classmethod
    def check(cls, cfg: Any) -> None:
        """Raise ``UserError`` if labels are requested but the sources have no end symbol."""
        if cfg.no_source_end and cfg.granularity_labels:
            raise UserError("--granularity-labels counts the end symbol: leave it out, or --no-source-end.")

    def extend(self, split: str, pairs: LanguagePairDataset, uncut: LanguagePairDataset, training: bool) -> Any:
        """Add the labels of a split to its pairs. In training, the labels of both sides are required.

        Raises:
            UserError: if the labels of a side are missing, or the labels do not match this text.
        """
        folder = Path(self.cfg.granularity_labels)
        if not folder.is_dir():
            raise UserError(f"--granularity-labels {folder} is not a directory; preprocess/weak_labels.py writes one.")
        paths = [folder / f"{split}.{language}.z" for language in (self.cfg.source_lang, self.cfg.target_lang)]
        if not training and not any(path.exists() for path in paths):
            return pairs
        sides = []
        for path, sizes in zip(paths, (uncut.src_sizes, uncut.tgt_sizes), strict=True):
            if not path.is_file():
                raise UserError(
                    f"there is no {path}, which --granularity-labels asks for: preprocess/weak_labels.py makes both "
                    "sides."
                )
            if sizes is None:
                raise UserError(
                    f"{path} has labels of a side that the data does not have: leave --granularity-labels out."
                )
            sides.append(_read(path, np.asarray(sizes) - 1))
        return LabelledPairs(pairs, *sides)

    def fill(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the batch with ``NO_LABEL`` where labels are missing, because validation data may have no labels."""
        net_input = batch["net_input"]
        no_labels = {
            "source_labels": torch.full_like(net_input["src_tokens"], NO_LABEL),
            "target_labels": torch.full_like(batch["target"], NO_LABEL),
        }
        return {**batch, "net_input": {**no_labels, **net_input}}


def _read(path: Path, words: NDArray[np.int64]) -> _SideLabels:
    """Read a file with labels. ``words`` contains the number of labels that each line must have."""
    check_prepared(path.parent, [path.name])
    lines = read_regular(path, 1 << 32).splitlines()
    if len(lines) != len(words):
        raise UserError(
            f"{path} has labels of {counted(len(lines), 'sentence')}, but the data has {len(words)}: make them again "
            "with preprocess/weak_labels.py from the text that fairseq-preprocess was given."
        )
    labels = []
    for number, (line, expected) in enumerate(zip(lines, words.tolist(), strict=True), start=1):
        row = line.split()
        if len(row) != expected or not {b"0", b"1"}.issuperset(row):
            problem = f"{len(row)} labels for {expected} words" if len(row) != expected else "labels other than 0 and 1"
            raise UserError(
                f"line {number} of {path} has {problem}: make the labels again with preprocess/weak_labels.py from the "
                "text that fairseq-preprocess was given."
            )
        labels.append(np.array(row, dtype=np.int8))
    starts = np.concatenate([[0], np.cumsum(words)])
    return _SideLabels(np.concatenate(labels) if labels else np.empty(0, dtype=np.int8), starts)
