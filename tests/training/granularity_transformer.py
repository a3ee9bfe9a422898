"""C-DNPG: the Transformer of its table; the heads of granularity start as all maps of the release, z about 1/2."""

from . import Case
from .copy_transformer import PARTS, SIZES, STARTS

CASES = [
    Case("granularity_transformer", SIZES, PARTS, STARTS),
    # Eq. 9 multiplies the weights themselves; dropout falls on the product.
    Case("granularity_transformer", SIZES | {"ga_normalize": "none", "ga_cross": "resonance"}, PARTS, STARTS),
]
