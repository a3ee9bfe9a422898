"""Settings of PC-SAN.

Dropout is 0.1 everywhere, as in Vaswani et al. Words start from N(0, 1 / D), and linear maps from Glorot's
distribution.
"""

from tests.unit.models.test_pc_san import build_with_features, features

from . import CROSS_ATTENTION, DECODER, ENCODER, SELF_ATTENTION, Case, Dropped, constant, glorot, normal, pytorch

# The settings come from Lin et al., 2020. We chose the sizes of the small arch.
RATES = {"dropout": 0.1, "attention_dropout": 0.1, "max_positions": 512}
SETTINGS = {
    "pc_san": {"embed_dim": 768, "ffn_dim": 3072, "decoder_layers": 6, "attention_heads": 8, **RATES},
    "pc_san_small": {"embed_dim": 128, "ffn_dim": 512, "decoder_layers": 2, "attention_heads": 4, **RATES},
}
TASK = "topic_essay"
SIZES = {"embed_dim": 6, "ffn_dim": 14, "attention_heads": 3, "decoder_layers": 2}
PARTS = [
    Dropped(DECODER, "add", 6),  # the sum of word and position
    Dropped(DECODER, SELF_ATTENTION, 3, 2, "attention_dropout"),
    Dropped(DECODER, CROSS_ATTENTION, 3, 2, "attention_dropout"),
    Dropped(DECODER, "linear", 6, 6),  # the output of three parts, in each of two layers
]
STARTS = {
    r".*(words|embed_tokens)\.weight": normal(6**-0.5),
    r".*norm.*": pytorch,
    r".*\.logits": constant(0.0),  # BERT's three layers get equal weights
    r".*\.bias": constant(0.0),
    r".*\.weight": glorot,
}
CASES = [
    Case("pc_san", SIZES | {"bert_layers": "none"}, [*PARTS, Dropped(ENCODER, "embedding", 6)], STARTS),
    # Each decoder layer gets its input from the five topics. Words and BERT's states go through one map.
    Case(
        "pc_san",
        SIZES,
        [*PARTS, Dropped(ENCODER, "linear", 6, 2)],
        STARTS,
        build=build_with_features,
        inputs=lambda model, batch: {"bert_features": features(batch["src_tokens"])},
    ),
]
