"""Verify binarised data: compare checksums, and check that the index and the dictionary match the data."""

import hashlib
import logging
import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary
from fairseq.data.huffman import HuffmanMMapIndex
from fairseq.data.indexed_dataset import IndexedDataset, MMapIndexedDataset, _code_to_dtype

from ..errors import UserError
from ..storage.data_files import LARGEST_LOG, LOG, digests_of, is_data
from ..storage.files import check_whole, open_regular, read_regular
from ..storage.manifest import Manifest, check_file

logger = logging.getLogger(__name__)

_HEADER = 26  # number of bytes in an index before the sizes (4 bytes each) and positions (8 bytes each)
_ADVICE = (
    "it is damaged, or was replaced; restore it, or make the data again with fairseq-preprocess, or, if the change is "
    "intended, run wean-checksum on its directory"
)


def check_data(folder: Path, wanted: Callable[[str], object]) -> list[Path]:
    """Reject files that have changed since their checksums were recorded by the first training or by wean-checksum.

    Args:
        folder: data directory.
        wanted: returns a true value for the names of the files to check.

    Returns:
        The paths of these files.

    Raises:
        UserError: if a file has changed, is missing or is not in the list of checksums. The message names the file.
    """
    paths = sorted(path for path in folder.glob("*") if wanted(path.name))
    for path in paths:
        if not path.is_file():
            raise UserError(f"{path} is not a regular file: {_ADVICE}.")
    manifest = _valid_manifest(folder)
    if manifest is None:
        return paths
    lost = [name for name in sorted(manifest.digests) if wanted(name) and not (folder / name).exists()]
    if lost:
        raise UserError(f"{folder} has lost {lost[0]}, which is in its {manifest.path.name}: {_ADVICE}.")
    for path in paths:
        try:
            check_file(path, _ADVICE, manifest=manifest, alike=is_data)
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror}): look at its disk and permissions.") from error
    return paths


def check_binary(prefix: Path, size: int) -> None:
    """Reject a memory-mapped file that is shorter than its index requires or contains ids outside the dictionary.

    Args:
        prefix: path up to ``.bin``.
        size: number of words in the dictionary.

    Raises:
        UserError: if the file is rejected. The message names the file.
    """
    index_file, binary_file = prefix.with_name(f"{prefix.name}.idx"), prefix.with_name(f"{prefix.name}.bin")
    if not (index_file.is_file() and binary_file.is_file()):
        return
    index = read_regular(index_file, 1 << 32)
    if index.startswith(IndexedDataset._HDR_MAGIC):
        raise UserError(
            f"{index_file} is an index of --dataset-impl lazy or cached, which fairseq cannot read with this NumPy, or "
            "is damaged: run fairseq-preprocess again without --dataset-impl."
        )
    if index.startswith(HuffmanMMapIndex._HDR_MAGIC):  # this format is not checked
        return
    dtype, sentences, words = _read_index(index, index_file)
    actual, expected = binary_file.stat().st_size, words * dtype.itemsize
    if actual != expected:
        raise UserError(f"{binary_file} has {actual} bytes, but its index expects {expected}: {_ADVICE}.")
    if words:
        try:
            with open_regular(binary_file) as file:
                check_whole(file, binary_file)
        except OSError as error:
            raise UserError(f"{binary_file} cannot be read ({error.strerror}): {_ADVICE}.") from error
        content = np.memmap(binary_file, dtype=dtype, mode="r")
        _check_symbols(content, sentences, binary_file)
        smallest, largest = int(content.min()), int(content.max())
        if smallest < 0 or largest >= size:
            raise UserError(
                f"{binary_file} has word number {min(smallest, 0) or largest}, but the dictionary ends at {size - 1}: "
                "it was made with another dictionary, or is damaged; run fairseq-preprocess again."
            )


def _check_symbols(content: np.ndarray, sentences: int, binary_file: Path) -> None:
    """Warn if the text contained a literal ``<s>``, ``<pad>`` or ``</s>``, which fairseq-preprocess misreads."""
    dictionary = Dictionary()
    counts = {
        dictionary.bos_word: int(np.count_nonzero(content == dictionary.bos())),
        dictionary.pad_word: int(np.count_nonzero(content == dictionary.pad())),
        dictionary.eos_word: int(np.count_nonzero(content == dictionary.eos())) - sentences,
    }
    symbols = [f"{number} times {word}" for word, number in counts.items() if number > 0]
    if symbols:
        logger.warning(
            f"{binary_file} has {' and '.join(symbols)} among its words, which models take for boundaries and padding: "
            "the text has these words in it; prepare it with preprocess/parallel_text.py, or take them out"
        )


def _read_index(content: bytes, index_file: Path) -> tuple[np.dtype, int, int]:
    """Return the number type and the numbers of sentences and words from the index of a memory-mapped file."""
    is_first_version = content.startswith(MMapIndexedDataset.Index._HDR_MAGIC + (1).to_bytes(8, "little"))
    code = content[_HEADER - 9 : _HEADER - 8]
    sentences = int.from_bytes(content[_HEADER - 8 : _HEADER], "little")
    dtype = np.dtype(_code_to_dtype.get(code[0] if code else 0, np.void))
    if is_first_version and len(content) == _HEADER + sentences * 12 and dtype.kind in "iu":
        sizes = np.frombuffer(content, dtype=np.int32, count=sentences, offset=_HEADER)
        positions = np.frombuffer(content, dtype=np.int64, offset=_HEADER + sizes.nbytes)
        ends = np.cumsum(sizes, dtype=np.int64)
        if (sizes >= 0).all() and np.array_equal(positions, (ends - sizes) * dtype.itemsize):
            return dtype, sentences, int(ends[-1]) if sentences else 0
    raise UserError(f"{index_file} is cut off or damaged: {_ADVICE}.")


def record_once(folder: Path) -> None:
    """Write the checksums at the start of a training, unless they exist. Later commands check them."""
    if (manifest := _valid_manifest(folder)) and manifest.digests:
        return
    if not os.access(folder, os.W_OK):  # check this before all the data is read
        logger.info(f"no checksums of the data are kept: {folder} is read-only")
        return
    try:
        digests = digests_of(folder)
        Manifest(folder).confirm(digests)
    except OSError as error:
        logger.info(f"no checksums of the data are kept: {folder} cannot be written ({error.strerror})")
    else:
        logger.info(f"checksums of {len(digests)} data files are in {Manifest(folder).path}")


def checksum_of(folders: list[Path], split: str) -> str | None:
    """Return one checksum over all files of a split in all folders, or ``None`` if no checksums are recorded."""
    digests = [
        digest
        for folder in folders
        for name, file_digests in sorted(Manifest(folder).digests.items())
        if name.split(".")[0].rstrip("0123456789") == split
        for digest in file_digests
    ]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else None


def _valid_manifest(folder: Path) -> Manifest | None:
    """Return the checksums of a folder, or ``None`` if fairseq-preprocess has written into it since then.

    fairseq-preprocess appends to its log, so the recorded log is then the beginning of the current one.

    Raises:
        UserError: if the log is another one. Whether the data is the recorded data is then unknown.
    """
    manifest, log = Manifest(folder), folder / LOG
    digests = manifest.digests.get(LOG)
    if not digests or not log.is_file():
        return manifest
    content, prefix = read_regular(log, LARGEST_LOG), hashlib.sha256()
    if hashlib.sha256(content).hexdigest() in digests:
        return manifest
    for line in (b"", *BytesIO(content)):  # its lines end with a line feed only
        prefix.update(line)
        if prefix.hexdigest() in digests:
            return None
    raise UserError(
        f"{log} was changed, shortened or replaced since its checksum was written to {manifest.path}: run "
        f"wean-checksum on {folder} if you have made its data again, otherwise restore the log."
    )
