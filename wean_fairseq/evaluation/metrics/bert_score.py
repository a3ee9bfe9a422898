"""BERTScore (Zhang et al., 2020): F1 of greedily matched contextual embeddings, with a model from a local folder.

An extra (``pip install wean_fairseq[bert]``); nothing is ever downloaded. No idf weights, no baseline rescaling. The
number depends on model, layer and transformers version, so all three are in the signature.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from ...errors import UserError
from ...optional import LOCAL_AND_NO_CODE, hide_broken_torchaudio
from ...storage.files import sha256_of
from .base import MeanMetric, SignatureItems

#: Unit vectors of a text's tokens, shape (tokens, dimension); single precision, because there are many.
Vectors = npt.NDArray[np.floating[Any]]

_BATCH = 64
_LAYER = -1  # hidden states that are compared: the last
_MAX_POSITIONS = 512


def load_model(folder: str) -> tuple[Any, Any]:
    """Return tokenizer and model of a local folder.

    transformers makes up an empty tokenizer where the folder has none. Every word would be unknown and every score
    about 100, so a tokenizer that does not fit the model is refused.
    """
    hide_broken_torchaudio()
    import transformers

    transformers.utils.logging.disable_progress_bar()  # its bar counts the weights of a model that loads in seconds
    pieces = transformers.AutoTokenizer.from_pretrained(folder, **LOCAL_AND_NO_CODE)
    model = transformers.AutoModel.from_pretrained(folder, **LOCAL_AND_NO_CODE).eval()
    if 2 * len(pieces) < model.config.vocab_size:  # the rows of an embedding are padded at times, but not doubled
        raise ValueError(f"its tokenizer knows {len(pieces)} pieces, the model {model.config.vocab_size}")
    return pieces, model


def greedy_f1(output: Vectors, reference: Vectors) -> float:
    """F1 of the best cosine of every token, eqs. 1 and 2 of the paper.

    Args:
        output: unit vectors of the output's tokens, shape (output tokens, dimension).
        reference: unit vectors of the reference's tokens, shape (reference tokens, dimension).
    """
    if not len(output) or not len(reference):
        return 0.0
    cosines = output @ reference.T  # output tokens x reference tokens
    precision, recall = float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean())
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


class BertScore(MeanMetric):
    """Mean BERTScore F1, as a percentage; the best reference counts.

    Args:
        model_folder: folder with a transformers model and its tokenizer.
    """

    def __init__(self, label: str = "BERTScore", model_folder: str | None = None) -> None:
        if model_folder is None or not Path(model_folder, "config.json").is_file():
            raise UserError(f"{label} needs a folder with a transformers model; give it with --bert-model FOLDER.")
        try:
            import torch
            import transformers
        except ImportError:
            raise UserError(f"{label} needs transformers; install it with `pip install wean_fairseq[bert]`.") from None
        try:
            self._pieces, self._model = load_model(model_folder)
        except (ImportError, OSError, ValueError, RuntimeError) as error:  # a broken model or a broken installation
            reason = str(error).partition("\n")[0]
            raise UserError(f"{label}: the model in {model_folder} cannot be loaded ({reason}).") from error
        options: SignatureItems = {
            "model": Path(model_folder).name,
            "config": sha256_of(Path(model_folder, "config.json"))[:8],
            "layer": _LAYER,
            "idf": "no",
            "transformers": transformers.__version__,
        }
        super().__init__(label, "none", False, options)
        self._torch = torch
        self._vectors: dict[str, Vectors] = {}

    def _extract_corpus_statistics(self, hypotheses: Any, references: Any) -> Any:
        """Embed everything in batches first, then match sentence by sentence."""
        if references:
            self._ref_cache = self._cache_references(references)
        texts = {self._preprocess_segment(text) for text in hypotheses}
        kept = {text for info in self._ref_cache or [] for text in info["references"]}
        self._embed(sorted((texts | kept) - self._vectors.keys(), key=len))
        statistics = super()._extract_corpus_statistics(hypotheses, None)
        self._vectors = {text: self._vectors[text] for text in kept}  # the next system has outputs of its own
        return statistics

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        return max(greedy_f1(self._vectors[hypothesis], self._vectors[reference]) for reference in references)

    def _embed(self, texts: list[str]) -> None:
        """Store the unit vectors of every text, without those of special tokens."""
        limit = min(_MAX_POSITIONS, int(getattr(self._model.config, "max_position_embeddings", _MAX_POSITIONS)))
        for start in tqdm(range(0, len(texts), _BATCH), "embedding", leave=False, disable=self.quiet or None):
            batch = texts[start : start + _BATCH]
            inputs = self._pieces(
                batch,
                padding=True,
                truncation=True,
                max_length=limit,
                return_special_tokens_mask=True,
                return_tensors="pt",
            )
            special = inputs.pop("special_tokens_mask").bool()
            with self._torch.inference_mode():
                hidden = self._model(**inputs, output_hidden_states=True).hidden_states[_LAYER]
            unit = self._torch.nn.functional.normalize(hidden.float(), dim=-1)
            for place, text in enumerate(batch):
                self._vectors[text] = unit[place][~special[place]].numpy()
