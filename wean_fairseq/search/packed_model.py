"""Prepare copies of an encoder and a decoder for a search.

The weights of their matrix products are packed once for all batches.

Legend: ``N`` hypotheses, ``I`` width in, ``O`` width out.
"""

import copy
from functools import partial
from typing import Any

import torch
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from ..models.base import LossModel, StepDecoder
from .packed_linear import Int8Linear, PackedLinear
from .vocabulary_scores import INT8, build_scores

# Maps with fewer weights are not packed, because calling the packed operator would cost more than it saves.
FEWEST_WEIGHTS = 2**17


class PackedModel:
    """Copies of an encoder and a decoder with packed linear maps, and the scores of the decoder's words.

    The generator keeps this object for the next batches while the weights are unchanged.

    Args:
        original: the original model. The copies share its parameters.
        num_words: number of words in the dictionary.
        max_rows: maximum number of hypotheses of a step.
        factors: precision of the products, see ``FastSequenceGenerator``.
    """

    def __init__(self, original: LossModel, num_words: int, max_rows: int, factors: str) -> None:
        self._sketches = _sketches(original)
        self.encoder: FairseqEncoder = _pack_large_maps(original.encoder, max_rows, factors)
        self.decoder: StepDecoder[Any, Any] = _pack_large_maps(original.decoder, max_rows, factors)
        build = partial(build_scores, num_words=num_words, max_rows=max_rows, factors=factors)
        self.scores = self.decoder.search_scores(build)

    @property
    def can_be_kept(self) -> bool:
        """Return True if a later search may reuse this object (see ``fits``)."""
        return bool(self._sketches)

    def fits(self, original: LossModel, num_words: int, max_rows: int, factors: str) -> bool:
        """Return True if the packed weights are still valid for a search with these arguments."""
        if not self.scores.fits(num_words, max_rows, factors):
            return False
        sketches = _sketches(original)
        pairs = zip(sketches, self._sketches, strict=False)
        return len(sketches) == len(self._sketches) > 0 and all(
            a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs
        )


class LazilyPackedLinear(nn.Linear):
    """A linear map whose weights are packed at the first call.

    Args:
        original: the original map. The copy shares its parameters.
        rows: approximate maximum number of rows of a product.
        factors: ``INT8``, or another value for exact products.
    """

    def __init__(self, original: nn.Linear, rows: int, factors: str) -> None:
        super().__init__(original.in_features, original.out_features, original.bias is not None, device="meta")
        self.weight, self.bias = original.weight, original.bias
        self.rows = rows
        self.kind = Int8Linear if factors == INT8 else PackedLinear
        self._product: Int8Linear | PackedLinear | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (..., I) -> (..., O)."""
        if self._product is None:
            self._product = self.kind(self.weight, self.bias, self.rows)
        return self._product(inputs.reshape(-1, self.in_features)).view(*inputs.shape[:-1], self.out_features)


def _pack_large_maps(module: Any, rows: int, factors: str) -> Any:
    """Return a copy with a ``LazilyPackedLinear`` for every large ``nn.Linear``, or the module if it has none."""
    if type(module) is nn.Linear:
        supported = module.weight.device.type == "cpu" and module.weight.dtype == torch.float
        large = supported and module.weight.numel() >= FEWEST_WEIGHTS
        return LazilyPackedLinear(module, rows, factors) if large else module
    children = {
        name: None if child is None else _pack_large_maps(child, rows, factors)
        for name, child in module._modules.items()
    }
    if all(child is module._modules[name] for name, child in children.items()):
        return module
    copied = copy.copy(module)
    copied._modules = children
    return copied


def _sketches(model: LossModel) -> list[Tensor]:
    """Return a checksum of every parameter, to detect changes.

    The list is empty if packed weights are not kept between batches.

    This is the case on a GPU and in half precision. The checksum of a matrix is a weighted sum of its columns, in which
    every column has a different weight. It takes an eighth of the time of packing, and changes with every parameter
    change above rounding errors.
    """
    embeddings = model.decoder.word_embeddings
    if embeddings.dtype not in (torch.float, torch.double) or embeddings.device.type != "cpu":
        return []
    weights = [weight.detach() for weight in model.parameters()]
    return [
        weight @ torch.arange(1, weight.size(1) + 1).to(weight).sqrt() if weight.dim() == 2 else weight.clone()
        for weight in weights
    ]
