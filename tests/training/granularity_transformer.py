"""Settings of C-DNPG, the Transformer of its table. Granularity heads start like all maps, so z is about 1/2."""

from . import Case
from .copy_transformer import PARTS, SIZES, STARTS, TABLE2

# The sizes are from section 4 and the released code.
GRANULARITY = {"ga_length": "true", "ga_cross": "none", "ga_start_layer": 1, **TABLE2}
# These are the lengths of the released code, which are only used with "padded".
GRANULARITY |= {"ga_encoder_length": 20, "ga_decoder_length": 19}
SETTINGS = {
    "granularity_transformer": {"ga_variant": "product", **GRANULARITY},
    **{
        f"granularity_transformer_{kind}": {"ga_variant": kind, **GRANULARITY}
        for kind in ("resonance", "scope", "product", "mean")
    },
    "granularity_transformer_release": GRANULARITY | {"ga_length": "padded", "ga_cross": "resonance"},
}
CASES = [
    Case("granularity_transformer", SIZES, PARTS, STARTS),
    # Eq. 9 multiplies the attention weights by the mask. Dropout applies to this product.
    Case("granularity_transformer", SIZES | {"ga_normalize": "none", "ga_cross": "resonance"}, PARTS, STARTS),
]
