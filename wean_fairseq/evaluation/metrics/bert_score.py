"""BERTScore (Zhang et al., 2020): F1 of greedily matched contextual embeddings. No idf weights, no baseline rescaling.

With the layer that the package bert_score takes for a model (``--bert-layer``), this is the number of that package:
special tokens are not matched, but other tokens may be matched with them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import UserError
from .embeddings import EmbeddingMetric, Vectors, torch


@dataclass
class Tokens:
    """The tokens of a text.

    Attributes:
        vectors: unit vectors of all tokens, special tokens included, shape (tokens, dimension).
        words: True for tokens that are not special, shape (tokens,).
    """

    vectors: Vectors
    words: npt.NDArray[np.bool_]


def greedy_f1(output: Tokens, reference: Tokens) -> float:
    """F1 of the best cosine of every token, eqs. 1 and 2 of the paper."""
    if not output.words.any() or not reference.words.any():
        return 0.0
    cosines = output.vectors @ reference.vectors.T  # output tokens x reference tokens
    precision = float(cosines.max(axis=1)[output.words].mean())
    recall = float(cosines.max(axis=0)[reference.words].mean())
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


class BertScore(EmbeddingMetric):
    """Mean BERTScore F1, as a percentage. The best reference counts.

    Args:
        model_folder: folder with a transformers model and its tokenizer.
        layer: number of the hidden states that are compared, 0 for the embeddings, -1 for the last layer.
    """

    definition = 2  # in 1 special tokens were left out altogether

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
