"""Similarity of meaning by a sentence encoder: the cosine of mean-pooled embeddings (Reimers and Gurevych, 2019).

A copy of the source is as similar to the source as possible, so read it together with self-BLEU or PINC. A paraphrase
has a high similarity and a low self-BLEU.
"""

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from ...errors import UserError
from ..text_files import convert_content, read_typed_json
from .base import SourceMixin
from .embeddings import EmbeddingMetric, Vectors, torch

_REMEDY = "give a complete copy of the model"


class _Limit(Struct):
    """Longest text that a model reads, in word pieces. 0 and None = the limit of the architecture."""

    max_seq_length: Annotated[int, Meta(ge=0)] | None = None


def read_pooling(folder: Path) -> dict[str, Any]:
    """Read the settings of sentence-transformers next to a model: kind of pooling and longest text.

    Raises:
        UserError: if the model pools in another way than by the mean.
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
    """Mean cosine of output and reference, as a percentage. It is 0 if one of them is empty.

    Args:
        model_folder: folder of a transformers model with mean pooling, as all-MiniLM-L6-v2.
    """

    def __init__(self, label: str = "sim-ref", model_folder: str | None = None) -> None:
        settings = read_pooling(Path(model_folder)) if model_folder else {}
        longest = int(settings.get("max_seq_length") or 512)
        super().__init__(label, model_folder, "--sentence-model", longest, {"pool": "mean", "max": longest})

    def embeddings(self, hidden: Any, used: Any, special: Any) -> list[Vectors | None]:
        weights = used.unsqueeze(-1).float()  # B x T x 1
        mean = (hidden[-1].float() * weights).sum(dim=1) / weights.sum(dim=1)
        unit = torch.nn.functional.normalize(mean, dim=-1)
        empty = special.all(dim=1)
        return [None if nothing else vector.numpy() for vector, nothing in zip(unit, empty, strict=True)]

    def similarity(self, output: Vectors | None, reference: Vectors | None) -> float:
        return 0.0 if output is None or reference is None else float(output @ reference)


class SourceSimilarity(SourceMixin, Similarity):
    """Mean cosine of output and source, as a percentage: how much of the meaning was kept."""

    higher_is_better = None

    def _extract_reference_info(self, refs: Any) -> dict[str, Any]:
        return super()._extract_reference_info(refs[:1])
