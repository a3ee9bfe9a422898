"""Compute BERT features of source words: outputs of all layers for each word of a sentence or list of topics.

A sentence is read as ``[CLS] w1 w2 ... [SEP]``. BERT reads it without subword marks. The units of byte pair encoding
are joined into words, and every unit gets the features of its whole word.

Topics are read as one joint sequence ``[CLS] t1 [PAD] t2 ... [SEP]`` (PC-SAN, KSII TIIS 14(8), 2020, section 3.2). The
paper shows this sequence, but does not define the token between two topics. Therefore this separator is an option. BERT
attends to the separator like to a word, because a masked separator would have no effect.

BERT is frozen, so its outputs for the same words never change. Therefore they are computed once, outside of the model
(``bert_inputs.py``).

Legend: ``k`` words of a line, ``L`` layers of BERT, ``H`` hidden width of BERT.
"""

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from msgspec import Meta, Struct, ValidationError, convert
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from ..errors import UserError, printable
from ..optional import LOCAL_AND_NO_CODE, hide_broken_torchaudio, import_optional
from ..storage import archive
from ..storage.data_files import check_prepared
from ..storage.files import check_size, sha256_of
from ..storage.json_files import read_json
from ..storage.pickles import look_into
from ..text.steps import MARK

Words = tuple[str, ...]  # the words of one line
# float16 needs half the disk space of float32. BERT's outputs are of order 1, so about 3 digits remain correct.
STORED = np.float16

UNKNOWN_WORD = "<unk>"  # fairseq's symbol for a word whose spelling is not known
_CONTINUES = "@@"  # in byte pair encoding, suffix of all units of a word except the last
_LIMITS = ", or give --length-policy truncate --max-pair-length N"
_BATCH = 64
_MANY = 1000  # a progress bar is shown for more sentences than this
_TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
# weight files: transformers loads the files of the first pattern that has a match
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_IMPLEMENTATIONS = ("eager", "sdpa")  # of the attention, by torch alone
_LARGEST_CONFIG, _LARGEST_TOKENIZER = 1 << 20, 1 << 26  # maximum sizes in bytes
# Maximum number of bytes in the weight files for each counted parameter. About a third of a model's parameters is not
# counted.
_LARGEST_PARAMETER = 16
_SMALL = 1 << 24  # a model with at most this number of parameters always fits into memory
logger = logging.getLogger(__name__)
_LARGEST_PADDING = 128  # the number of embedding rows without a token must be smaller than this


class _BertConfig(Struct):
    """The sizes in a model's config.json. Sizes that the file may omit have the default 0."""

    model_type: Literal["bert"]  # models of other types have additional sizes
    num_hidden_layers: Annotated[int, Meta(ge=1, le=1000)]
    hidden_size: Annotated[int, Meta(ge=1, le=1 << 16)]
    vocab_size: Annotated[int, Meta(ge=1, le=1 << 24)]
    intermediate_size: Annotated[int, Meta(ge=1, le=1 << 18)] = 0
    max_position_embeddings: Annotated[int, Meta(ge=1, le=1 << 20)] = 0
    type_vocab_size: Annotated[int, Meta(ge=1, le=1 << 10)] = 0
    num_labels: Annotated[int, Meta(ge=1, le=1000)] = 0


class FrozenBert:
    """A BERT from a local ``transformers`` directory, which is loaded when it is first used and is never trained.

    Args:
        path: directory of the model.
        separator: token between two topics. Empty = no separator. None = the lines are sentences, not topics.

    Attributes:
        num_layers: ``L``, not counting the embeddings as a layer.
        dim: ``H``.
        digest: SHA-256 over config, weights and tokenizer files.

    Raises:
        UserError: if the directory does not contain a BERT.
    """

    def __init__(self, path: str, separator: str | None = "[PAD]") -> None:
        self.path = path
        self.separator = separator
        files = model_files(Path(path), "--bert")
        config = _read_config(Path(path, "config.json"), sum(file.stat().st_size for file in files))
        self.num_layers = config.num_hidden_layers
        self.dim = config.hidden_size
        listed = "".join(f"{file.name} {sha256_of(file)}\n" for file in files)
        self.digest = hashlib.sha256(listed.encode()).hexdigest()
        self._tokenizer: Any = None
        self._model: Any = None

    def features(self, lines: Sequence[Words]) -> Iterator[tuple[int, np.ndarray]]:
        """Run BERT over ``lines`` in batches of similar length. A progress bar is shown if there are many lines.

        Yields:
            Pairs of the index of a line and the outputs of all layers for its words, with shape (k, L, H). The outputs
            are averages over the pieces of a word.

        Raises:
            UserError: if BERT cannot be loaded, or cannot read the words.
        """
        self._load()
        sequences = [self._sequence(words) for words in lines]
        order = sorted(range(len(lines)), key=lambda number: len(sequences[number][0]))
        is_hidden = None if len(order) > _MANY else True  # None = show the bar only on a terminal
        with tqdm(total=len(order), desc="BERT", unit=" lines", leave=False, disable=is_hidden) as bar:
            for start in range(0, len(order), _BATCH):
                batch = order[start : start + _BATCH]
                hidden = self._hidden_states([sequences[number][0] for number in batch])
                for number, states in zip(batch, hidden, strict=True):
                    yield number, self._pool_pieces(states, sequences[number][1])
                bar.update(len(batch))

    def release(self) -> None:
        """Free the memory of the model. The model is loaded again when it is used again."""
        self._model = None

    def _load(self) -> None:
        if self._model is not None:
            return
        self._tokenizer, self._model = load_transformer(self.path)
        _check_tokenizer(self.path, self._tokenizer, self._model.config.vocab_size)
        if self.separator and self.separator not in self._tokenizer.get_vocab():
            raise UserError(
                f"--topic-separator {self.separator} is not a token of the BERT in {self.path}: take one of its "
                "vocabulary, as [PAD], [SEP] or [unused1], or an empty one for none."
            )
        self._model.to("cuda" if torch.cuda.is_available() else "cpu")

    def count_unknown(self, lines: Iterable[Words]) -> tuple[int, int]:
        """Return the number of different words that BERT reads as [UNK], and the number of all different words.

        Words whose spelling is not known are not counted.

        Raises:
            UserError: if BERT cannot be loaded.
        """
        self._load()
        words = {word for line in lines for word, _ in self._words(line)} - {UNKNOWN_WORD}
        return sum(set(self._pieces(word)) == {self._tokenizer.unk_token_id} for word in words), len(words)

    def _words(self, line: Words) -> Iterable[tuple[str, int]]:
        """Return the words or topics of a line, and the number of units of each."""
        return _joined(line) if self.separator is None else ((topic, 1) for topic in line)

    def _pieces(self, word: str) -> list[int]:
        pieces: list[int] = []
        if word != UNKNOWN_WORD:
            # A word that is spelt like a special token is treated as an ordinary word.
            pieces = self._tokenizer(word, add_special_tokens=False, split_special_tokens=True).input_ids
        return pieces or [self._tokenizer.unk_token_id]  # BERT removes control characters

    def _sequence(self, words: Words) -> tuple[list[int], list[slice]]:
        """Return the token ids of a line, and the positions of each word's pieces among them."""
        tokenizer = self._tokenizer
        ids: list[int] = [tokenizer.cls_token_id]
        places: list[slice] = []
        for word, units in self._words(words):
            if places and self.separator:
                ids.append(tokenizer.convert_tokens_to_ids(self.separator))
            pieces = self._pieces(word)
            places += [slice(len(ids), len(ids) + len(pieces))] * units
            ids += pieces
        ids.append(tokenizer.sep_token_id)
        limit = self._model.config.max_position_embeddings
        if len(ids) > limit:
            raise UserError(
                f"the words {' '.join(words)[:60]!r} ... are {len(ids)} pieces long, but the BERT in {self.path} "
                f"reads {limit}: shorten this line{_LIMITS if self.separator is None else ''}."
            )
        return ids, places

    @torch.inference_mode()
    def _hidden_states(self, sequences: list[list[int]]) -> torch.Tensor:
        """Return the outputs of all layers without the embeddings: shape (sentences, pieces, L, H)."""
        device = self._model.device
        rows = [torch.tensor(ids) for ids in sequences]
        input_ids = pad_sequence(rows, batch_first=True, padding_value=self._tokenizer.pad_token_id)
        # The mask is 0 only at the padding of the batch. A [PAD] between two topics is attended to.
        attended = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        out = self._model(input_ids=input_ids.to(device), attention_mask=attended.to(device), output_hidden_states=True)
        return torch.stack(out.hidden_states[1:], dim=2).float()

    def _pool_pieces(self, states: torch.Tensor, places: list[slice]) -> np.ndarray:
        """Average the states over the pieces of each word: (pieces, L, H) -> (k, L, H)."""
        means = torch.stack([states[place].mean(dim=0) for place in places])
        rows = means.cpu().numpy().astype(STORED)
        if not np.isfinite(rows).all():
            raise UserError(f"the outputs of the BERT in {self.path} are not finite numbers: its weights are broken.")
        return rows


def _joined(units: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield each word of a sentence without subword marks, and the number of units that formed the word."""
    word: list[str] = []
    for unit in units:
        if word and (unit == UNKNOWN_WORD or not word[-1].endswith(_CONTINUES)):
            yield _spelt(word), len(word)
            word = []
        word.append(unit)
    if word:
        yield _spelt(word), len(word)


def _spelt(units: list[str]) -> str:
    return "".join(unit.removesuffix(_CONTINUES) for unit in units).strip(MARK)


def model_files(folder: Path, option: str, any_tokenizer: bool = False) -> list[Path]:
    """Return the config, tokenizer and weight files of a directory, with the weights last.

    Args:
        option: name of the option for the directory, for messages.
        any_tokenizer: accept tokenizers of every kind, whose files may differ from those of BERT's tokenizer.

    Raises:
        UserError: if a file is missing, too large or not regular.
    """
    if not folder.is_dir():
        raise UserError(f"there is no BERT directory {str(folder)!r}: give {option} a local transformers directory.")
    tokenizer = [folder / name for name in _TOKENIZER_FILES if (folder / name).is_file()]
    weights = next(filter(None, (sorted(folder.glob(kind)) for kind in _WEIGHTS)), [])
    is_present = {
        "config.json": (folder / "config.json").is_file(),
        "weights (model.safetensors or pytorch_model.bin)": bool(weights),
        "vocab.txt or tokenizer.json": any_tokenizer or any(path.name in _TOKENIZER_FILES[:2] for path in tokenizer),
    }
    if missing := [name for name, present in is_present.items() if not present]:
        raise UserError(
            f"{folder} has no {', no '.join(missing)}: give {option} a directory with all files of a transformers BERT."
        )
    files = [folder / "config.json", *tokenizer, *weights]
    check_prepared(folder, [file.name for file in files])
    for file in [*files, *folder.glob("*.index.json")]:
        try:
            if file not in weights:
                check_size(file, _LARGEST_TOKENIZER)
            defect = archive.defect(file) or (look_into(file)[1] if file.suffix == ".bin" else "")
        except OSError as error:
            raise UserError(f"{file} cannot be read ({error.strerror}): give {option} a directory of files.") from error
        if defect:
            raise UserError(f"{file} {defect}: give {option} the original files.")
    return files


def _read_config(path: Path, size: int) -> _BertConfig:
    """Read the configuration of a BERT whose weight files have ``size`` bytes.

    Refuse a configuration that describes a model much larger than these files.
    """
    try:
        config = convert(read_json(path, _LARGEST_CONFIG), _BertConfig)
    except (OSError, ValueError, ValidationError) as error:
        raise UserError(f"{path} does not describe a BERT ({error}): give the config.json of one.") from error
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    parameters = config.num_hidden_layers * config.hidden_size * (config.hidden_size + 2 * config.intermediate_size)
    parameters += rows * config.hidden_size
    if not parameters <= size <= _LARGEST_PARAMETER * parameters + _LARGEST_TOKENIZER:
        raise UserError(
            f"{path} describes a model of about {parameters:,} parameters, but its files have {size:,} bytes: give "
            "--bert files of one model."
        )
    return config


def load_transformer(path: str) -> tuple[Any, Any]:
    """Load the tokenizer and the model of a local directory, which must have weights for all parameters.

    Nothing is downloaded.

    Raises:
        UserError: if the tokenizer or the model cannot be loaded. Call ``model_files`` first, because it checks the
            files.
    """
    _check_requests(Path(path, "config.json"))
    hide_broken_torchaudio()
    transformers = import_optional("transformers")
    try:
        with _silence(transformers):  # transformers' warnings quote the configuration, including any control characters
            config = transformers.AutoConfig.from_pretrained(path, **LOCAL_AND_NO_CODE)
            with torch.device("meta"):  # the model is first built without memory, to check its sizes
                parameters = transformers.AutoModel.from_config(config).num_parameters()
            size = sum(file.stat().st_size for kind in _WEIGHTS for file in Path(path).glob(kind))
            if parameters > max(size, _SMALL):
                raise ValueError(f"its config.json has {parameters:,} parameters, but its weights have {size:,} bytes")
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, **LOCAL_AND_NO_CODE)
            model, report = transformers.AutoModel.from_pretrained(
                path,
                **LOCAL_AND_NO_CODE,
                output_loading_info=True,
                dtype=torch.float32,
                ignore_mismatched_sizes=True,  # parameters of wrong shape are rejected below, with their names
            )
        with torch.inference_mode():
            if type(tokenizer.model_max_length) not in (int, float):
                raise ValueError("its tokenizer has no number as its model_max_length")
            pieces = len(tokenizer)  # transformers creates an empty tokenizer if it finds no vocabulary
            if 2 * pieces < config.vocab_size:
                raise ValueError(f"its tokenizer knows {pieces} pieces, but the vocab_size is {config.vocab_size}")
            inputs = tokenizer(["a", "a b"], padding=True, return_tensors="pt")
            largest = max(tokenizer.get_vocab().values())
            if largest >= config.vocab_size:
                raise ValueError(f"its tokenizer has a piece {largest}, but the vocab_size is {config.vocab_size}")
            if "attention_mask" not in inputs:
                raise ValueError("its tokenizer marks no padding")
            # a test run, because some invalid values in the configuration fail only here
            output = model.eval()(**inputs)
        if not isinstance(output, dict):
            raise TypeError("its config.json asks for outputs without names")
    except Exception as error:  # transformers raises errors of any type for an unsuitable directory
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        # torch's message about "weights_only" advises loading the file unsafely, so it is replaced
        if re.search("weights.only", reason, re.IGNORECASE):
            reason = f"its weights would call {_foreign(Path(path))}, which no file of weights needs"
        raise UserError(f"the model in {path} cannot be loaded: {reason or type(error).__name__}.") from error
    _check_weights(path, report)
    if pieces < config.vocab_size:
        logger.warning(
            f"the tokenizer in {path} knows {pieces:,} pieces, but the vocab_size is {config.vocab_size:,}: if the "
            "model has no spare rows, its vocabulary has lost lines; compare it with the original"
        )
    return tokenizer, model.eval().requires_grad_(False)


def _check_requests(path: Path) -> None:
    """Refuse a config.json that asks transformers for other software than torch.

    An implementation of the attention with the name of a repository would be downloaded and run.
    """
    try:
        found = [read_json(path, _LARGEST_CONFIG)]
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}): give the config.json of a model.") from error
    while found:
        value = found.pop()
        if isinstance(value, dict):
            for name, entry in value.items():
                is_foreign = "implementation" in name and entry not in (None, True, False, *_IMPLEMENTATIONS)
                if is_foreign or (name == "quantization_config" and entry):
                    raise UserError(
                        f"{path} asks for other software than torch by its entry {printable(name)}, which this command "
                        "does not load: remove the entry, or give another model."
                    )
        found += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _foreign(folder: Path) -> str:
    """Return the name of the first function in the weights of a directory that is not a function of torch."""
    names = (name for file in sorted(folder.glob(_WEIGHTS[1])) for name in look_into(file)[0])
    return next((name for name in names if not name.startswith(("torch.", "collections."))), "unknown functions")


@contextmanager
def _silence(transformers: Any) -> Iterator[None]:
    """Hide the progress bar of loading, and the report about weights of unused heads."""
    logging = transformers.utils.logging
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def _check_weights(path: str, report: dict[str, Any]) -> None:
    """Reject weights that do not match the configuration.

    The weights of the pooler may be missing, because the pooler is not used.

    Weights of other heads are ignored.
    """
    missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    surplus = sorted(name for name in report["unexpected_keys"] if ".layer." in name)
    resized = sorted(name for name, *_ in report["mismatched_keys"])
    problems = {"is missing": missing, "is too many": surplus, "has another size": resized}
    first_problem = next((f"{names[0]} {fault}" for fault, names in problems.items() if names), "")
    if first_problem:
        raise UserError(
            f"the weights in {path} do not fit its config.json ({first_problem}): give the files of one model."
        )


def _check_tokenizer(path: str, tokenizer: Any, vocab_size: int) -> None:
    """Reject a tokenizer that knows far fewer tokens than the model, or lacks the special tokens of BERT."""
    pieces = len(tokenizer)
    if vocab_size - pieces >= _LARGEST_PADDING:
        raise UserError(
            f"the tokenizer in {path} knows {pieces} pieces, but the model's vocab_size is {vocab_size}: "
            "give --bert files of one model."
        )
    names = ("cls_token_id", "sep_token_id", "pad_token_id", "unk_token_id")
    if any(getattr(tokenizer, name, None) is None for name in names):
        raise UserError(f"the tokenizer in {path} lacks [CLS], [SEP], [PAD] or [UNK]: give --bert a BERT.")
