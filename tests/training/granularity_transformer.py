"""Settings of C-DNPG, the Transformer of its table. Granularity heads start like all maps, with z about 1/2."""

from . import Case
from .copy_transformer import PARTS, SIZES, STARTS, TABLE2

# The sizes are from section 4 and the released code.
GRANULARITY = {"ga_length": "true", "ga_cross": "none", "ga_start_layer": 1, **TABLE2}
# the lengths of the released code, used only with "padded"
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
    # Eq. 9 multiplies the weights themselves. Dropout applies to the product.
    Case("granularity_transformer", SIZES | {"ga_normalize": "none", "ga_cross": "resonance"}, PARTS, STARTS),
]
