"""Options and presets of ``granularity_transformer``. The defaults are C-DNPG (R * S), the authors' released choice.

The network's sizes are in ``models/transformer.py``. Where paper and released code disagree, see ``docs/equations.md``.
"""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum

from ...fields import option
from ...modules import GRANULARITY_MASKS
from ..transformer import TransformerConfig


@dataclass
class GranularityTransformerConfig(TransformerConfig):
    """Options."""

    ga_variant: ChoiceEnum((*GRANULARITY_MASKS, "none")) = option(  # type: ignore[valid-type]
        "product",
        "mask of the self-attention: resonance = C (eq. 6); scope = S (eq. 8); product = C * S; "
        "mean = (C + S) / 2; none = plain attention",
    )
    ga_normalize: ChoiceEnum(("softmax", "none")) = option(  # type: ignore[valid-type]
        "softmax",
        "softmax: the logarithm of the mask is added to the scores, weights sum to 1 (released code); "
        "none: the mask multiplies the weights (eq. 9)",
    )
    ga_length: ChoiceEnum(("true", "padded")) = option(  # type: ignore[valid-type]
        "true",
        "N of the scope. true: in the encoder the tokens of the sentence, in the decoder those up to the "
        "query; padded: what the released code pads to, --ga-encoder-length and --ga-decoder-length",
    )
    ga_encoder_length: int = option(20, "N of the encoder with --ga-length padded", least=1)
    ga_decoder_length: int = option(19, "N of the decoder with --ga-length padded", least=1)
    ga_start_layer: int = option(
        1, "first layer with granularities; 1 as in the released code, 2 is the letter of eq. 4"
    )
    ga_cross: ChoiceEnum(("none", "resonance")) = option(  # type: ignore[valid-type]
        "none", "mask of the attention to the source: none (paper), or resonance (released code)"
    )


# The rows of the paper's table 2, and its code.
PRESETS = {f"granularity_transformer_{variant}": {"ga_variant": variant} for variant in GRANULARITY_MASKS}
PRESETS["granularity_transformer_release"] = {"ga_length": "padded", "ga_cross": "resonance"}
