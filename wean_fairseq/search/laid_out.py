"""A decoder as a search steps through it: the weights of its products are laid out once for all steps and batches.

Legend: ``N`` hypotheses, ``I`` width in, ``O`` width out.
"""

import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..models.base import StepDecoder
from .packed_linear import Int8Linear, PackedLinear
from .vocabulary_scores import INT8, build_scores

# A smaller map is not laid out: the call of its operator costs more than it saves.
FEWEST_WEIGHTS = 2**17


class LaidOut:
    """A copy of a decoder whose large linear maps are laid out, and the scores of its words.

    A search keeps it for the next batch, as long as the weights are the same.

    Args:
        given: the decoder; its parameters are shared.
        num_words: of the dictionary.
        max_rows: the most hypotheses of a step.
        factors: of the products; see ``FastSequenceGenerator``.
    """

    def __init__(self, given: StepDecoder[Any, Any], num_words: int, max_rows: int, factors: str) -> None:
        self._made_of = _sketches(given)
        self.decoder: StepDecoder[Any, Any] = _lay_out(given, max_rows, factors)
        build = partial(build_scores, num_words=num_words, max_rows=max_rows, factors=factors)
        self.scores = self.decoder.search_scores(build)

    @property
    def can_be_kept(self) -> bool:
        """Whether a later search may use this object, see ``fits``."""
        return bool(self._made_of)

    def fits(self, given: StepDecoder[Any, Any], num_words: int, max_rows: int, factors: str) -> bool:
        """Whether this object is as good as a new one of the same arguments: what is laid out is still true."""
        if not self.scores.fits(num_words, max_rows, factors):
            return False
        now = _sketches(given)
        pairs = zip(now, self._made_of, strict=False)
        return len(now) == len(self._made_of) > 0 and all(a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs)


class LaidOutLinear(nn.Linear):
    """A linear map whose weights are laid out when it is first called.

    Args:
        given: its parameters are shared.
        rows: about the most rows of a product.
        factors: ``INT8``, or anything else for exact products.
    """

    def __init__(self, given: nn.Linear, rows: int, factors: str) -> None:
        super().__init__(given.in_features, given.out_features, given.bias is not None, device="meta")
        self.weight, self.bias = given.weight, given.bias
        self.rows = rows
        self.kind = Int8Linear if factors == INT8 else PackedLinear
        self._product: Int8Linear | PackedLinear | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """Shape (..., I) -> (..., O)."""
        if self._product is None:
            self._product = self.kind(self.weight, self.bias, self.rows)
        return self._product(inputs.reshape(-1, self.in_features)).view(*inputs.shape[:-1], self.out_features)


def _lay_out(module: Any, rows: int, factors: str) -> Any:
    """A copy in which every large ``nn.Linear`` is a ``LaidOutLinear``; the module itself, if it has none."""
    if type(module) is nn.Linear:
        known = module.weight.device.type == "cpu" and module.weight.dtype == torch.float
        large = known and module.weight.numel() >= FEWEST_WEIGHTS
        return LaidOutLinear(module, rows, factors) if large else module
    parts = {name: None if part is None else _lay_out(part, rows, factors) for name, part in module._modules.items()}
    if all(part is module._modules[name] for name, part in parts.items()):
        return module
    changed = copy.copy(module)
    changed._modules = parts
    return changed


def _sketches(decoder: StepDecoder[Any, Any]) -> list[Tensor]:
    """A checksum of every parameter, to notice a change; an empty list where nothing is kept between batches.

    That is on a GPU, and in half precision. The checksum of a matrix is the sum of its columns, each times a number of
    its own: an eighth of what laying it out takes. A change that is more than rounding shows.
    """
    embeddings = decoder.word_embeddings
    if embeddings.dtype not in (torch.float, torch.double) or embeddings.device.type != "cpu":
        return []
    weights = [weight.detach() for weight in decoder.parameters()]
    return [one @ torch.arange(1, one.size(1) + 1).to(one).sqrt() if one.dim() == 2 else one.clone() for one in weights]
