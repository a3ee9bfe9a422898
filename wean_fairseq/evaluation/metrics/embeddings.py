"""Metrics that compare embeddings of a transformers model in a local folder: BERTScore and sentence similarity.

They need the optional dependencies ``bert`` (``pip install wean_fairseq[bert]``) and never download a model. The scores
depend on the model and the version of transformers, so both are in the signature.

BERTScore (Zhang et al., 2020) is the F1 of token embeddings that are matched greedily. It uses neither idf weights nor
baseline rescaling. The score equals the score of the package bert_score if ``--bert-layer`` is the layer that this
package uses for the model. As in that package, special tokens are not scored, but other tokens may be matched with
them.

The similarity of a sentence encoder is the cosine between mean-pooled embeddings (Reimers and Gurevych, 2019). A copy
of the source has the maximum similarity to the source, so read this score together with self-BLEU or PINC. A good
paraphrase has a high similarity to the source and a low self-BLEU.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct
from tqdm import tqdm

from ...errors import UserError
from ...optional import LazyModule
from ...storage.files import sha256_of
from ..text_files import convert_content, read_typed_json
from .base import MeanMetric, SignatureItems, SourceOnlyMixin

torch = LazyModule("torch")
transformers = LazyModule("transformers")
#: Unit vectors of shape (tokens, dimension) or (dimension,). They have single precision to save memory.
Vectors = npt.NDArray[np.floating[Any]]

_BATCH = 64
_MAX_POSITIONS = 512
_TENSORS = {"padding": True, "truncation": True, "return_special_tokens_mask": True, "return_tensors": "pt"}
_REMEDY = "give a complete copy of the model"
_Type = Literal[
    "albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta"
]
_Count = Annotated[int, Meta(ge=0, le=1000)]


class _Encoder(Struct):
    """The members of a config.json that determine how long it takes to build the model.

    They are limited by the size of the weight files.
    """

    model_type: _Type
    num_hidden_layers: _Count = 0
    n_layers: _Count = 0  # name of the number of layers in distilbert the next two fields are used by albert
    num_hidden_groups: _Count = 0
    inner_group_num: _Count = 0
    num_labels: _Count = 0


@lru_cache(maxsize=1)
def load_model(folder: str) -> tuple[Any, Any]:
    """Return the tokenizer and the model of a local folder. All metrics that use the same folder share the model.

    Call ``model_files`` first, because it checks the files.
    """
    from ...data.bert_features import load_transformer  # noqa: PLC0415 - scoring must not wait for fairseq

    return load_transformer(folder)


class EmbeddingMetric(MeanMetric):
    """Similarity of sentence embeddings, averaged over sentences, as a percentage.

    With several references, the highest similarity counts.

    Args:
        model_folder: folder with a transformers model and its tokenizer.
        option: name of the command-line option for the folder.
        max_length: maximum number of word pieces in a text. Longer texts are truncated.
        options: further entries of the signature.
    """

    def __init__(
        self,
        label: str,
        model_folder: str | None,
        option: str,
        max_length: int = _MAX_POSITIONS,
        options: SignatureItems | None = None,
    ) -> None:
        if model_folder is None:
            raise UserError(f"{label} needs a folder with a transformers model; give it with {option} FOLDER.")
        version = transformers.__version__  # if transformers is missing, the error names the command that installs it
        from ...data.bert_features import model_files  # noqa: PLC0415 - scoring must not wait for fairseq

        model_files(Path(model_folder), option, any_tokenizer=True)
        remedy = f"give {option} a model of one of the types {', '.join(get_args(_Type))}"
        read_typed_json(Path(model_folder, "config.json"), _Encoder, remedy)
        self._pieces, self._model = load_model(model_folder)
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
        """Embed all texts in batches first, then compare them sentence by sentence."""
        if references:
            self._ref_cache = self._cache_references(references)
        texts = {self._preprocess_segment(text) for text in hypotheses}
        kept = {text for info in self._ref_cache or [] for text in info["references"]}
        self._embed(sorted((texts | kept) - self._embedded.keys(), key=len))
        statistics = super()._extract_corpus_statistics(hypotheses, None)
        # keep only the embeddings of the references, because the next system has different outputs
        self._embedded = {text: self._embedded[text] for text in kept}
        return statistics

    def segment_value(self, hypothesis: str, references: list[str]) -> float:
        output = self._embedded[hypothesis]
        return max(self.similarity(output, self._embedded[reference]) for reference in references)

    def _embed(self, texts: list[str]) -> None:
        """Store the embedding of every text."""
        for start in tqdm(range(0, len(texts), _BATCH), "embedding", leave=False, disable=self.quiet or None):
            batch = texts[start : start + _BATCH]
            inputs = self._pieces(batch, max_length=self._limit, **_TENSORS)
            special = inputs.pop("special_tokens_mask").bool()
            with torch.inference_mode():
                hidden = self._model(**inputs, output_hidden_states=True).hidden_states
            used = inputs["attention_mask"].bool()
            if not hidden[-1][used].isfinite().all():
                raise UserError(f"{self.label}: the outputs of the model are not finite numbers; {_REMEDY}.")
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


@dataclass
class Tokens:
    """The tokens of a text.

    Attributes:
        vectors: unit vectors of all tokens, including special tokens, shape (tokens, dimension).
        words: True for tokens that are not special, shape (tokens,).
    """

    vectors: Vectors
    words: npt.NDArray[np.bool_]


def greedy_f1(output: Tokens, reference: Tokens) -> float:
    """Return the F1 of two texts in which each token is matched with its most similar token (paper, eqs. 1 and 2)."""
    if not output.words.any() or not reference.words.any():
        return 0.0
    cosines = output.vectors @ reference.vectors.T  # shape: output tokens x reference tokens
    precision = float(cosines.max(axis=1)[output.words].mean())
    recall = float(cosines.max(axis=0)[reference.words].mean())
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


class BertScore(EmbeddingMetric):
    """Mean BERTScore F1, as a percentage. With several references, the highest F1 counts.

    Args:
        model_folder: folder with a transformers model and its tokenizer.
        layer: number of the layer whose hidden states are compared. 0 = embeddings, -1 = last layer.
    """

    definition = 2  # definition 1 also excluded special tokens from the matches

    def __init__(self, label: str = "BERTScore", model_folder: str | None = None, layer: int = -1) -> None:
        super().__init__(label, model_folder, "--bert-model", options={"layer": layer, "idf": "no"})
        depth = int(self._model.config.num_hidden_layers)
        if not -depth - 1 <= layer <= depth:
            raise UserError(f"--bert-layer {layer}: the model has the layers 0 to {depth}.")
        self.layer = layer

    def embeddings(self, hidden: Any, used: Any, special: Any) -> list[Tokens]:
        unit = torch.nn.functional.normalize(hidden[self.layer].float(), dim=-1)
        return [
            Tokens(vectors[present].numpy(), (~marks)[present].numpy())
            for vectors, present, marks in zip(unit, used, special, strict=True)
        ]

    def similarity(self, output: Tokens, reference: Tokens) -> float:
        return greedy_f1(output, reference)


class _Limit(Struct):
    """Maximum length of a model's input, in word pieces. 0 and None mean the limit of the architecture."""

    max_seq_length: Annotated[int, Meta(ge=0)] | None = None


def read_pooling(folder: Path) -> dict[str, Any]:
    """Read the sentence-transformers settings of a model: kind of pooling and maximum length.

    Raises:
        UserError: if the model does not use mean pooling.
    """
    settings: dict[str, Any] = {}
    for name in ("1_Pooling/config.json", "sentence_bert_config.json"):
        path = folder / name
        if path.is_file():
            settings |= read_typed_json(path, dict[str, Any], _REMEDY)
            convert_content(settings, _Limit, path, _REMEDY)
    others = [name for name, used in settings.items() if name.startswith("pooling_mode_") and used is True]
    if others not in ([], ["pooling_mode_mean_tokens"]):
        raise UserError(f"{folder}: the model pools by {', '.join(others)}; give one with pooling_mode_mean_tokens.")
    return settings


class Similarity(EmbeddingMetric):
    """Mean cosine between the embeddings of output and reference, as a percentage.

    The cosine is 0 if one of the texts is empty.

    Args:
        model_folder: folder of a transformers model with mean pooling, such as all-MiniLM-L6-v2.
    """

    def __init__(self, label: str = "sim-ref", model_folder: str | None = None) -> None:
        settings = read_pooling(Path(model_folder)) if model_folder else {}
        longest = int(settings.get("max_seq_length") or 512)
        super().__init__(label, model_folder, "--sentence-model", longest, {"pool": "mean", "max": longest})

    def embeddings(self, hidden: Any, used: Any, special: Any) -> list[Vectors | None]:
        states = hidden[-1].float().masked_fill(~used.unsqueeze(-1), 0)  # B x T x dimension
        mean = states.sum(dim=1) / used.sum(dim=1, keepdim=True)
        unit = torch.nn.functional.normalize(mean, dim=-1)
        empty = special.all(dim=1)
        return [None if nothing else vector.numpy() for vector, nothing in zip(unit, empty, strict=True)]

    def similarity(self, output: Vectors | None, reference: Vectors | None) -> float:
        return 0.0 if output is None or reference is None else float(output @ reference)


class SourceSimilarity(SourceOnlyMixin, Similarity):
    """Mean cosine between the embeddings of output and source, as a percentage.

    It measures how much of the meaning is preserved.
    """

    direction = None
