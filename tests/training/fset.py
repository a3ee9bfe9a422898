"""Settings of FSET.

It has the dropout and the initialisation of the other Transformers, and dropout on the edit vector.

The sources here have no pair, so p and q are one end symbol each. In addition to the sentence of 6 tokens, the pair's
encoder reads two sentences of 1 token, and its decoder reads two sentences of 2 tokens, in one layer each.
"""

from . import CROSS_ATTENTION, DECODER, ENCODER, SELF_ATTENTION, Case, Dropped
from .copy_transformer import SIZES, STARTS

# These are the sizes of its authors' research code.
FSET = {"embed_dim": 128, "ffn_dim": 512, "encoder_layers": 6, "decoder_layers": 6, "attention_heads": 8}
FSET |= {
    "edit_layers": 4,
    "edit_dim": 128,
    "micro_dim": 64,
    "dropout": 0.3,
    "attention_dropout": 0.3,
    "max_positions": 512,
}
SETTINGS = {"fset": FSET}
PARTS = [
    Dropped(ENCODER, "layer_norm", 6, 2),
    Dropped(ENCODER, SELF_ATTENTION, 3, 2, "attention_dropout"),
    Dropped(ENCODER, "linear", 6, 5),  # 2 + 2 x 1/3 + 3 x 2/3
    Dropped(ENCODER, "linear", 9, 1),  # the edit vector
    Dropped(DECODER, "layer_norm", 6),
    # The attention to the edits is included, because it has the same number of heads.
    Dropped(DECODER, SELF_ATTENTION, 3, 4, "attention_dropout"),
    Dropped(DECODER, CROSS_ATTENTION, 3, 2, "attention_dropout"),
    Dropped(DECODER, "linear", 15, 8),
]
CASES = [Case("fset", SIZES | {"edit_layers": 1, "edit_dim": 9, "micro_dim": 5, "pair_symbol": "w7"}, PARTS, STARTS)]
