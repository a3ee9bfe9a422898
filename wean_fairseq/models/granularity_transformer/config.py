"""Options and presets of ``granularity_transformer``. The defaults are C-DNPG (R * S), the authors' released choice.

The network's sizes are in ``models/transformer.py``. Where paper and released code disagree, see ``docs/equations.md``.
"""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum

from ...modules import GRANULARITY_MASKS
from ..presets import register_preset
from ..transformer import TransformerConfig


@dataclass
class GranularityTransformerConfig(TransformerConfig):
    """Options."""

    ga_variant: ChoiceEnum((*GRANULARITY_MASKS, "none")) = field(  # type: ignore[valid-type]
        default="product",
        metadata={
            "help": "mask of the self-attention: resonance = C (eq. 6); scope = S (eq. 8); product = C * S; "
            "mean = (C + S) / 2; none = plain attention"
        },
    )
    ga_normalize: ChoiceEnum(("softmax", "none")) = field(  # type: ignore[valid-type]
        default="softmax",
        metadata={
            "help": "softmax: the logarithm of the mask is added to the scores, weights sum to 1 (released code); "
            "none: the mask multiplies the weights (eq. 9)"
        },
    )
    ga_length: ChoiceEnum(("true", "padded")) = field(  # type: ignore[valid-type]
        default="true",
        metadata={
            "help": "N of the scope. true: in the encoder the tokens of the sentence, in the decoder those up to the "
            "query; padded: what the released code pads to, --ga-encoder-length and --ga-decoder-length"
        },
    )
    ga_encoder_length: int = field(default=20, metadata={"help": "N of the encoder with --ga-length padded"})
    ga_decoder_length: int = field(default=19, metadata={"help": "N of the decoder with --ga-length padded"})
    ga_start_layer: int = field(
        default=1,
        metadata={"help": "first layer with granularities; 1 as in the released code, 2 is the letter of eq. 4"},
    )
    ga_cross: ChoiceEnum(("none", "resonance")) = field(  # type: ignore[valid-type]
        default="none",
        metadata={"help": "mask of the attention to the source: none (paper), or resonance (released code)"},
    )


def register_presets() -> None:
    """Register the archs beside ``granularity_transformer`` itself: the rows of the paper's table 2, and its code."""
    for variant in GRANULARITY_MASKS:
        register_preset("granularity_transformer", f"granularity_transformer_{variant}", ga_variant=variant)
    register_preset(
        "granularity_transformer", "granularity_transformer_release", ga_length="padded", ga_cross="resonance"
    )
