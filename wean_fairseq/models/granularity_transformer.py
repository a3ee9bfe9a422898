"""``granularity_transformer``: C-DNPG, a Transformer with granularity-aware attention (Gu et al., COLING 2022).

The defaults are C-DNPG (R * S), the authors' released choice. ``docs/equations.md`` lists the differences between the
paper and the released code.

Legend: ``B`` batch, ``N`` hypotheses, ``S`` source length, ``T`` target length, ``L`` layers with granularities, ``D``
width.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import FairseqTask
from torch import Tensor

from ..errors import UserError
from ..fields import option
from ..modules import (
    GRANULARITY_MASKS,
    DecoderLayer,
    EncoderLayer,
    GranularCrossAttention,
    GranularityAttention,
    GranularSelfAttention,
    Step,
    init_granularity,
)
from ..modules.transformer_decoder import DecoderState
from .base import LossModel, register_family
from .transformer import (
    TransformerConfig,
    TransformerMemory,
    TransformerSourceEncoder,
    TransformerTargetDecoder,
    build_network,
)

_MASKED = {"ga_variant": GRANULARITY_MASKS, "ga_cross": ("resonance",)}
_PADDED = {"ga_length": ("padded",)}


@dataclass
class GranularityTransformerConfig(TransformerConfig):
    """Options of the model."""

    ga_variant: ChoiceEnum((*GRANULARITY_MASKS, "none")) = option(  # type: ignore[valid-type]
        "product",
        "mask of the self-attention: resonance = C (eq. 6); scope = S (eq. 8); product = C * S; "
        "mean = (C + S) / 2; none = plain attention",
    )
    ga_normalize: ChoiceEnum(("softmax", "none")) = option(  # type: ignore[valid-type]
        "softmax",
        "softmax: the logarithm of the mask is added to the scores, weights sum to 1 (released code); "
        "none: the mask multiplies the weights (eq. 9)",
        needs=_MASKED,
    )
    ga_length: ChoiceEnum(("true", "padded")) = option(  # type: ignore[valid-type]
        "true",
        "N of the scope: true = the number of tokens of the sentence (encoder) or up to the query (decoder); "
        "padded = the padded lengths of the released code, --ga-encoder-length and --ga-decoder-length",
        needs={"ga_variant": ("scope", "product", "mean")},
    )
    ga_encoder_length: int = option(20, "N of the encoder with --ga-length padded", least=1, needs=_PADDED)
    ga_decoder_length: int = option(19, "N of the decoder with --ga-length padded", least=1, needs=_PADDED)
    ga_start_layer: int = option(
        1,
        "first layer with granularities: 1 as in the released code, 2 as in eq. 4",
        needs=_MASKED,
    )
    ga_cross: ChoiceEnum(("none", "resonance")) = option(  # type: ignore[valid-type]
        "none", "mask of the attention to the source: none (paper), or resonance (released code)"
    )


# The rows of table 2 in the paper, and the authors' released code.
PRESETS = {f"granularity_transformer_{variant}": {"ga_variant": variant} for variant in GRANULARITY_MASKS}
PRESETS["granularity_transformer_release"] = {"ga_length": "padded", "ga_cross": "resonance"}


class GranularityEncoder(TransformerSourceEncoder):
    """An encoder whose ``encoder_out`` has ``granularity`` (B, L, S), if it has layers with granularities."""

    @torch.no_grad()
    def describe(self, states: list[Tensor]) -> dict[str, Tensor]:
        """See ``TransformerSourceEncoder``.

        The granularities are only displayed, so no gradient is computed for them.
        """
        heads = [layer.self_attention for layer in self.network.layers]
        granularities = [
            attention.granularity(layer_input).squeeze(-1)
            for attention, layer_input in zip(heads, states, strict=False)
            if isinstance(attention, GranularityAttention)
        ]
        return {"granularity": torch.stack(granularities, dim=1)} if granularities else {}


class GranularityDecoder(TransformerTargetDecoder):
    """A decoder whose steps have ``granularity`` (N, T, L), if it has layers with granularities."""

    traced = ("granularity",)

    def step(self, words: Tensor, memory: TransformerMemory, state: DecoderState) -> tuple[Step, DecoderState]:
        step, state = super().step(words, memory, state)
        layer_tensors = [layer.words.kept for layer in state.layers]
        queries = words.numel() // len(memory.source)
        granularities = [
            tensors["granularity"][:, 0, -queries:, 0].reshape(words.shape)
            for tensors in layer_tensors
            if "granularity" in tensors
        ]
        return replace(step, extra={"granularity": torch.stack(granularities, dim=2)} if granularities else {}), state


@register_family("granularity_transformer", GranularityTransformerConfig, PRESETS)
class GranularityTransformerModel(LossModel):
    """The model C-DNPG. Without granularities, it has the same parameters as the arch ``paraphrase_transformer``."""

    encoder: GranularityEncoder
    decoder: GranularityDecoder

    @classmethod
    def build(cls, cfg: GranularityTransformerConfig, task: FairseqTask) -> "GranularityTransformerModel":
        _check(cfg)
        dictionary = task.source_dictionary
        network = build_network(cfg, dictionary, *_layer_makers(cfg))
        for module in (network.encoder, network.decoder):
            # initialise these parameters last, so that all variants start from the same network if they use the same
            # seed
            init_granularity(module)
        model = cls(
            GranularityEncoder(dictionary, network.encoder),
            GranularityDecoder(dictionary, network.decoder, network.output_layer),
        )
        granular = any(isinstance(submodule, GranularSelfAttention) for submodule in model.modules())
        model.capabilities = replace(cls.capabilities, granular_from=cfg.ga_start_layer if granular else 0)
        return model


def _check(cfg: GranularityTransformerConfig) -> None:
    last = min(cfg.encoder_layers, cfg.decoder_layers)
    if not 1 <= cfg.ga_start_layer <= last:
        raise UserError(
            f"--ga-start-layer must be a layer of encoder and decoder, 1 to {last}, but is {cfg.ga_start_layer}; for "
            "plain attention use --ga-variant none."
        )


def _layer_makers(
    cfg: GranularityTransformerConfig,
) -> tuple[Callable[..., EncoderLayer], Callable[..., DecoderLayer]]:
    normalize = str(cfg.ga_normalize) == "softmax"
    padded = str(cfg.ga_length) == "padded"
    encoder: dict[str, Callable[..., GranularityAttention]] = {}
    decoder: dict[str, Callable[..., GranularityAttention]] = {}
    if str(cfg.ga_variant) != "none":
        attention = partial(GranularSelfAttention, kind=str(cfg.ga_variant), normalize=normalize)
        encoder["attention"] = partial(attention, length=cfg.ga_encoder_length if padded else 0)
        decoder["attention"] = partial(attention, length=cfg.ga_decoder_length if padded else 0)
    if str(cfg.ga_cross) == "resonance":
        decoder["cross_attention"] = partial(GranularCrossAttention, normalize=normalize)
    start = cfg.ga_start_layer
    return _layer_maker(start, EncoderLayer, encoder), _layer_maker(start, DecoderLayer, decoder)


def _layer_maker(start: int, layer: Callable[..., Any], attentions: dict[str, Any]) -> Callable[..., Any]:
    """Return a function that creates one layer of the network per call.

    From layer ``start`` (counted from 1) on, the layers use ``attentions``.
    """
    numbers = itertools.count(1)
    return lambda *sizes: layer(*sizes, **(attentions if next(numbers) >= start else {}))
