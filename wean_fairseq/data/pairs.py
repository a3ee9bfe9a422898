"""Sentence pairs: checks that a user understands, and the two length limits of the WEAN releases."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from fairseq.data import (
    AppendTokenDataset,
    Dictionary,
    IndexedRawTextDataset,
    LanguagePairDataset,
    StripTokenDataset,
    TruncateDataset,
    data_utils,
)
from fairseq.data.base_wrapper_dataset import BaseWrapperDataset
from fairseq.utils import split_paths

from ..errors import UserError
from ..storage.data_files import check_text

LENGTH_POLICIES = ("drop", "truncate")


class _CutDataset(AppendTokenDataset):
    """The first words of each sentence and its end symbol; the original text stays at hand for ``--replace-unk``."""

    def __init__(self, sentences: BaseWrapperDataset, length: int, end: int) -> None:
        super().__init__(TruncateDataset(StripTokenDataset(sentences, end), length), end)
        self.sentences = sentences

    def get_original_text(self, index: int) -> str:
        """Raw text of a sentence, uncut: the cut is at the end, so positions in it stay right."""
        return str(self.sentences.get_original_text(index))


class PairLimits(NamedTuple):
    """At most ``length`` tokens a side, end symbol apart; 0 = no limit.

    ``drop`` (the authors' first release) leaves longer pairs out of training and touches nothing else; ``truncate``
    (their second) cuts both sides of training pairs, and sources everywhere, but never a reference.
    """

    length: int
    policy: str

    @property
    def drops(self) -> bool:
        """Whether long training pairs are left out."""
        return self.length > 0 and self.policy == "drop"

    @property
    def truncates(self) -> bool:
        """Whether long sentences are cut."""
        return self.length > 0 and self.policy == "truncate"


def limit_pairs(dataset: LanguagePairDataset, limits: PairLimits, training: bool) -> LanguagePairDataset:
    """Cut the sentences of ``dataset`` as ``limits`` says; the end symbol stays."""
    if not limits.truncates:
        return dataset

    source = _CutDataset(dataset.src, limits.length, dataset.eos)
    target = dataset.tgt
    if training and target is not None:
        target = _CutDataset(target, limits.length, dataset.eos)
    return LanguagePairDataset(
        source,
        source.sizes,
        dataset.src_dict,
        target,
        None if target is None else target.sizes,
        dataset.tgt_dict,
        left_pad_source=dataset.left_pad_source,
        left_pad_target=dataset.left_pad_target,
        align_dataset=dataset.align_dataset,
        eos=dataset.eos,
        shuffle=dataset.shuffle,
        pad_to_multiple=dataset.pad_to_multiple,
    )


def check_data_dir(data: str | None, source_lang: str | None, target_lang: str | None) -> None:
    """Refuse a data directory that is missing or was not made by fairseq-preprocess.

    Args:
        data: what the user gave, one directory or several joined by colons; the first holds the dictionaries.
        source_lang: source suffix; ``None`` = as the file names say.
        target_lang: target suffix; likewise.

    Raises:
        UserError: naming what is missing.
    """
    if not data:
        raise UserError("no data directory was given: name the one that fairseq-preprocess wrote (--destdir).")
    first = Path(split_paths(data)[0])
    if not first.is_dir():
        raise UserError(
            f"there is no data directory {str(first)!r}: give the directory that fairseq-preprocess wrote (--destdir)."
        )
    if source_lang is None or target_lang is None:
        source_lang, target_lang = data_utils.infer_language_pair(str(first))
        if source_lang is None or target_lang is None:
            raise UserError(
                f"the file names in {first} do not tell the two sides of the data: it is not a directory that "
                "fairseq-preprocess wrote, or give --source-lang and --target-lang."
            )
    for language in (source_lang, target_lang):
        if not dictionary_file(first / f"dict.{language}.txt").is_file():
            raise UserError(
                f"{first} has no dict.{language}.txt: give a directory that fairseq-preprocess wrote for this task, or "
                "copy the dictionary of the training to it."
            )


def dictionary_file(path: Path) -> Path:
    """Return the file of a dictionary, which is the source's if ``fairseq-preprocess --only-source`` wrote the folder.

    A model with two dictionaries is refused afterwards: checkpoints record the words of both.
    """
    language = path.name.split(".")[1]
    dictionaries = list(path.parent.glob("dict.*.txt"))
    if path.is_file() or len(dictionaries) != 1 or any(path.parent.glob(f"*-*.{language}*")):
        return path
    return dictionaries[0]


def is_raw_text(data: str) -> bool:
    """Whether the first directory of ``data`` was written by ``fairseq-preprocess --dataset-impl raw``: no index."""
    first = Path(split_paths(data)[0])
    return not any(first.glob("*.idx")) and any(IndexedRawTextDataset.exists(str(path)) for path in first.glob("*-*.*"))


def check_pairs(prefix: str, sides: dict[str, Dictionary], dataset_impl: str | None, keep_empty: bool) -> None:
    """Refuse sides of different length, and empty lines unless ``keep_empty``.

    Args:
        prefix: path of a split up to and including the languages, as ``data-bin/train.src-tgt``.
        sides: dictionary of each side by its suffix; a side may be missing (generation without references).
        dataset_impl: fairseq's storage format; ``None`` = look at the file.
        keep_empty: accept empty lines.

    Raises:
        UserError: naming the files, the counts and the first empty lines, or the line of a text that fairseq misreads.
    """
    lengths = {}
    for language, dictionary in sides.items():
        if dataset_impl == "raw":
            check_text(Path(f"{prefix}.{language}"))
        sentences = data_utils.load_indexed_dataset(f"{prefix}.{language}", dictionary, dataset_impl)
        if sentences is not None:
            # A copy: the sizes of a memory-mapped data set die with it.
            lengths[f"{prefix}.{language}"] = np.array(sentences.sizes)
    if not lengths:
        advice = "leave --dataset-impl out" if dataset_impl == "raw" else "add --dataset-impl raw"
        kind = "text" if dataset_impl == "raw" else "binary"
        raise UserError(f"{prefix}.* are not {kind} data files: {advice}, or run fairseq-preprocess again.")
    if len({len(sizes) for sizes in lengths.values()}) > 1:
        found = " and ".join(f"{name} has {len(sizes)} lines" for name, sizes in lengths.items())
        raise UserError(f"the sides of this data do not pair up: {found}; align the text files and preprocess again.")
    if not all(map(len, lengths.values())):
        raise UserError(f"{prefix}.* have no sentences: give fairseq-preprocess a text that has some.")
    for name, sizes in lengths.items():
        empty = np.flatnonzero(sizes <= 1) + 1  # an empty line holds only the end symbol
        if empty.size and not keep_empty:
            shown = ", ".join(str(line) for line in empty[:5]) + (", ..." if empty.size > 5 else "")
            raise UserError(
                f"{name} has {empty.size} empty line(s) (line {shown}): remove these pairs from both sides and "
                "preprocess again, or pass --keep-empty-lines."
            )
