"""Metrics that compare embeddings of a transformers model from a local folder.

They need an extra (``pip install wean_fairseq[bert]``) and never download a model. The number depends on model and
transformers version, so both are in the signature.
"""

from abc import abstractmethod
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from ...errors import UserError
from ...optional import LOCAL_AND_NO_CODE, LazyModule, hide_broken_torchaudio
from ...storage.files import sha256_of
from .base import MeanMetric, SignatureItems

torch = LazyModule("torch")
transformers = LazyModule("transformers")
#: Unit vectors, shape (tokens, dimension) or (dimension,); single precision, because there are many.
Vectors = npt.NDArray[np.floating[Any]]

_BATCH = 64
_MAX_POSITIONS = 512


@lru_cache(maxsize=1)
def load_model(folder: str) -> tuple[Any, Any]:
    """Return tokenizer and model of a local folder, which the metrics of the folder share.

    If the folder has no tokenizer, transformers returns an empty one. Every word would be unknown and every score about
    100, so a tokenizer that does not fit the model raises UserError.
    """
    hide_broken_torchaudio()
    transformers.utils.logging.disable_progress_bar()  # its bar counts the weights of a model that loads in seconds
    pieces = transformers.AutoTokenizer.from_pretrained(folder, **LOCAL_AND_NO_CODE)
    model = transformers.AutoModel.from_pretrained(folder, **LOCAL_AND_NO_CODE).eval()
    if 2 * len(pieces) < model.config.vocab_size:  # the rows of an embedding are padded at times, but not doubled
        raise ValueError(f"its tokenizer knows {len(pieces)} pieces, the model {model.config.vocab_size}")
    return pieces, model


class EmbeddingMetric(MeanMetric):
    """Similarity of sentence embeddings, averaged over sentences, as a percentage. The best reference counts.

    Args:
        model_folder: folder with a transformers model and its tokenizer.
        option: name of the option that gives the folder.
        max_length: number of word pieces after which a text is cut.
        options: further signature entries.
    """

    def __init__(
        self,
        label: str,
        model_folder: str | None,
        option: str,
        max_length: int = _MAX_POSITIONS,
        options: SignatureItems | None = None,
    ) -> None:
        if model_folder is None or not Path(model_folder, "config.json").is_file():
            raise UserError(f"{label} needs a folder with a transformers model; give it with {option} FOLDER.")
        version = transformers.__version__
        try:
            self._pieces, self._model = load_model(model_folder)
        except (ImportError, OSError, ValueError, RuntimeError) as error:  # a broken model or a broken installation
            reason = str(error).partition("\n")[0]
            raise UserError(f"{label}: the model in {model_folder} cannot be loaded ({reason}).") from error
        items: SignatureItems = {
            "model": Path(model_folder).name,
            "config": sha256_of(Path(model_folder, "config.json"))[:8],
            **(options or {}),
            "transformers": version,
        }
        super().__init__(label, "none", False, items)
        self._limit = min(max_length, int(getattr(self._model.config, "max_position_embeddings", _MAX_POSITIONS)))
        self._embedded: dict[str, Any] = {}

    def _extract_corpus_statistics(self, hypotheses: Any, references: Any) -> Any:
        """Embed everything in batches first, then compare sentence by sentence."""
        if references:
            self._ref_cache = self._cache_references(references)
        texts = {self._preprocess_segment(text) for text in hypotheses}
        kept = {text for info in self._ref_cache or [] for text in info["references"]}
        self._embed(sorted((texts | kept) - self._embedded.keys(), key=len))
        statistics = super()._extract_corpus_statistics(hypotheses, None)
        self._embedded = {text: self._embedded[text] for text in kept}  # the next system has other outputs
        return statistics

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        output = self._embedded[hypothesis]
        return max(self.similarity(output, self._embedded[reference]) for reference in references)

    def _embed(self, texts: list[str]) -> None:
        """Store the embedding of every text."""
        for start in tqdm(range(0, len(texts), _BATCH), "embedding", leave=False, disable=self.quiet or None):
            batch = texts[start : start + _BATCH]
            inputs = self._pieces(
                batch,
                padding=True,
                truncation=True,
                max_length=self._limit,
                return_special_tokens_mask=True,
                return_tensors="pt",
            )
            special = inputs.pop("special_tokens_mask").bool()
            with torch.inference_mode():
                hidden = self._model(**inputs, output_hidden_states=True).hidden_states
            used = inputs["attention_mask"].bool()
            for text, embedding in zip(batch, self.embeddings(hidden, used, special), strict=True):
                self._embedded[text] = embedding

    @abstractmethod
    def embeddings(self, hidden: Any, used: Any, special: Any) -> list[Any]:
        """Return the embedding of every text of a batch.

        Args:
            hidden: hidden states of all layers, each of shape (B, T, dimension).
            used: True for tokens that are not padding, shape (B, T).
            special: True for special tokens and padding, shape (B, T).
        """

    @abstractmethod
    def similarity(self, output: Any, reference: Any) -> float:
        """Return the similarity of two embeddings, usually between 0 and 1."""
