"""Settings of the Transformer in the table of C-DNPG, with and without copying.

The released code uses BERT's settings for both.
"""

from . import CROSS_ATTENTION, DECODER, ENCODER, SELF_ATTENTION, Case, Dropped, constant, normal, pytorch

# These values come from section 4 of C-DNPG and its released code.
TABLE2 = {"embed_dim": 450, "ffn_dim": 1024, "encoder_layers": 3, "decoder_layers": 3, "attention_heads": 9}
TABLE2 |= {"dropout": 0.1, "attention_dropout": 0.1, "max_positions": 512}
SETTINGS = {
    "copy_transformer": {"copy_mode": "gate", **TABLE2},
    "paraphrase_transformer": {"copy_mode": "none", **TABLE2},
}
SLOTS = 64
SIZES = {"embed_dim": 6, "ffn_dim": 14, "attention_heads": 3, "encoder_layers": 1, "decoder_layers": 2}
# Dropout applies to the normalised embedding, the weights of every attention, and the output of every sublayer.
PARTS = [
    Dropped(ENCODER, "layer_norm", 6),
    Dropped(ENCODER, SELF_ATTENTION, 3, 1, "attention_dropout"),
    Dropped(ENCODER, "linear", 6, 2),
    Dropped(DECODER, "layer_norm", 6),
    Dropped(DECODER, SELF_ATTENTION, 3, 2, "attention_dropout"),
    Dropped(DECODER, CROSS_ATTENTION, 3, 2, "attention_dropout"),
    Dropped(DECODER, "linear", 6, 6),
]
STARTS = {
    r".*norm.*": pytorch,
    r".*transform\.2\..*": pytorch,  # the normalisation of the output layer
    r".*bias": constant(0.0),
    r".*": normal(0.02),
}
CASES = [
    Case("paraphrase_transformer", SIZES, PARTS, STARTS),
    Case("copy_transformer", SIZES, PARTS, STARTS),
    Case("copy_transformer", SIZES | {"copy_mode": "shared-softmax"}, PARTS, STARTS),
]
