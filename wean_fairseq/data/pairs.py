"""Load sentence pairs, check them with clear error messages, and apply the two length limits of the WEAN releases."""

import glob
import re
from collections.abc import Iterable
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
from torch import Tensor

from ..console import counted
from ..errors import UserError
from ..storage.data_files import check_text

LENGTH_POLICIES = ("drop", "truncate")


def word_positions(src_tokens: Tensor, dictionary: Dictionary) -> Tensor:
    """Return a mask with the shape of ``src_tokens`` that is True at words.

    The mask is False at end symbols and padding.
    """
    return src_tokens.ne(dictionary.pad()) & src_tokens.ne(dictionary.eos())


def word_ids(sources: Iterable[Tensor], dictionary: Dictionary) -> list[tuple[int, ...]]:
    """Return the ids of the words of every line, without the end symbol."""
    return [tuple(line[word_positions(line, dictionary)].tolist()) for line in sources]


class _CutDataset(AppendTokenDataset):
    """Data set with the first words of each sentence, followed by the end symbol.

    The original text is available for ``--replace-unk``.
    """

    def __init__(self, sentences: BaseWrapperDataset, length: int, end: int) -> None:
        super().__init__(TruncateDataset(StripTokenDataset(sentences, end), length), end)
        self.sentences = sentences

    def get_original_text(self, index: int) -> str:
        """Return the full text of a sentence, without truncation.

        Only the end of a sentence is removed, so the positions of the other words in the full text stay the same.
        """
        return str(self.sentences.get_original_text(index))


class PairLimits(NamedTuple):
    """Limit of the sentence length: at most ``length`` tokens per side, not counting the end symbol. 0 = no limit.

    The policy ``drop`` (as in the authors' first release) removes longer pairs from training, and changes nothing else.
    The policy ``truncate`` (as in their second release) truncates both sides of training pairs and the sources of other
    splits. It never truncates a reference.
    """

    length: int
    policy: str

    @property
    def drops(self) -> bool:
        """Return True if long training pairs are removed."""
        return self.length > 0 and self.policy == "drop"

    @property
    def truncates(self) -> bool:
        """Return True if long sentences are truncated."""
        return self.length > 0 and self.policy == "truncate"


def limit_pairs(dataset: LanguagePairDataset, limits: PairLimits, training: bool) -> LanguagePairDataset:
    """Truncate the sentences of ``dataset`` as ``limits`` requires. The end symbol is kept."""
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
    """Reject a data directory that does not exist or was not written by fairseq-preprocess.

    Args:
        data: one directory or several joined by colons. The first directory contains the dictionaries.
        source_lang: source suffix. ``None`` = inferred from the file names.
        target_lang: target suffix. ``None`` = inferred from the file names.

    Raises:
        UserError: if a directory or file is missing (the message names it), or if the only given suffix is not the
            inferred one.
    """
    if not data:
        raise UserError("no data directory was given: name the one that fairseq-preprocess wrote (--destdir).")
    first = Path(split_paths(data)[0])
    if not first.is_dir():
        raise UserError(
            f"there is no data directory {str(first)!r}: give the directory that fairseq-preprocess wrote (--destdir)."
        )
    if source_lang is None or target_lang is None:
        given = {"--source-lang": source_lang, "--target-lang": target_lang}
        source_lang, target_lang = data_utils.infer_language_pair(str(first))
        if source_lang is None or target_lang is None:
            raise UserError(
                f"the file names in {first} do not identify the two sides of the data: it is not a directory that "
                "fairseq-preprocess wrote, or give --source-lang and --target-lang."
            )
        for (option, name), found in zip(given.items(), (source_lang, target_lang), strict=True):
            if name not in (None, found):  # fairseq would use neither of the given names
                raise UserError(
                    f"{option} {name} alone does not choose the data: {first} has the sides {source_lang} and "
                    f"{target_lang}. Give both --source-lang and --target-lang, or neither."
                )
    for language in (source_lang, target_lang):
        if not dictionary_file(first / f"dict.{language}.txt").is_file():
            raise UserError(
                f"{first} has no dict.{language}.txt: give a directory that fairseq-preprocess wrote for this task, or "
                "copy the dictionary of the training to it."
            )


def dictionary_file(path: Path) -> Path:
    """Return the file of a dictionary. With ``fairseq-preprocess --only-source``, return the source's file.

    A path with another form than ``dict.LANGUAGE.txt`` was named by the user and is returned.

    If the model has two dictionaries, it is rejected later, because its checkpoint records the words of both.
    """
    named = re.fullmatch(r"dict\.(.+)\.txt", path.name)
    dictionaries = list(path.parent.glob("dict.*.txt"))
    if named is None or path.is_file() or len(dictionaries) != 1:
        return path
    if any(path.parent.glob(f"*-*.{glob.escape(named[1])}*")):
        return path
    return dictionaries[0]


def is_raw_text(data: str) -> bool:
    """Return True if the first directory of ``data`` contains raw text without an index (``--dataset-impl raw``)."""
    first = Path(split_paths(data)[0])
    return not any(first.glob("*.idx")) and any(IndexedRawTextDataset.exists(str(path)) for path in first.glob("*-*.*"))


def check_pairs(prefix: str, sides: dict[str, Dictionary], dataset_impl: str | None, keep_empty: bool) -> None:
    """Reject sides with different numbers of lines. Unless ``keep_empty`` is set, also reject empty lines.

    Args:
        prefix: path of a split up to and including the languages, such as ``data-bin/train.src-tgt``.
        sides: dictionary of each side, by its language suffix. A side may be missing when a model generates without
            references.
        dataset_impl: fairseq's storage format. ``None`` = detect the format.
        keep_empty: accept empty lines.

    Raises:
        UserError: if a side is rejected. The message names the files with their numbers of lines, the first empty
            lines, or the line that fairseq misreads.
    """
    lengths = {}
    for language, dictionary in sides.items():
        if dataset_impl == "raw":
            check_text(Path(f"{prefix}.{language}"))
        sentences = data_utils.load_indexed_dataset(f"{prefix}.{language}", dictionary, dataset_impl)
        if sentences is not None:
            # The sizes are copied, because a memory-mapped data set frees its sizes when it is deleted.
            lengths[f"{prefix}.{language}"] = np.array(sentences.sizes)
    # fairseq returns None if a file is missing or has another format.
    if not lengths:
        advice = "leave --dataset-impl out" if dataset_impl == "raw" else "add --dataset-impl raw"
        kind = "text" if dataset_impl == "raw" else "binary"
        raise UserError(f"{prefix}.* are not {kind} data files: {advice}, or run fairseq-preprocess again.")
    # fairseq pairs the sides by position, so a missing line shifts all later pairs. fairseq itself only asserts equal
    # lengths, and its message names neither the files nor the lengths.
    if len({len(sizes) for sizes in lengths.values()}) > 1:
        line_counts = " and ".join(f"{name} has {counted(len(sizes), 'line')}" for name, sizes in lengths.items())
        raise UserError(
            f"the sides of this data do not pair up: {line_counts}; align the text files and preprocess again."
        )
    for name, sizes in lengths.items():
        empty = np.flatnonzero(sizes <= 1) + 1  # an empty line contains only the end symbol
        if empty.size and not keep_empty:
            first_lines = ", ".join(str(line) for line in empty[:5]) + (", ..." if empty.size > 5 else "")
            raise UserError(
                f"{name} has {empty.size} empty line(s) (line {first_lines}): remove these pairs from both sides and "
                "preprocess again, or pass --keep-empty-lines."
            )
