"""Settings of CopyNet (Gu et al.), whose paper has no dropout and states no initialisation.

We chose where dropout is applied.
"""

from . import DECODER, ENCODER, Case, Dropped, constant, normal, uniform

# These sizes come from sections 5.1 and 5.2 and the authors' configurations. All three systems have the same sizes.
SYMBOLS = {"embed_dim": 150, "hidden_size": 300, "cell": "gru", "readout": "state", "location_width": 0, "dropout": 0.0}
SUMMARIES = SYMBOLS | {"embed_dim": 350, "hidden_size": 500}
FULL = SYMBOLS | {"attention_dim": 1000, "readout": "full", "attention_coverage": True}
SETTINGS = {
    "copynet": {"system": "copynet", **SYMBOLS},
    "rnnsearch": {"system": "rnnsearch", **SYMBOLS},
    "enc_dec": {"system": "enc_dec", **SYMBOLS},
    "copynet_lcsts": {"system": "copynet", **SUMMARIES},
    "rnnsearch_lcsts": {"system": "rnnsearch", **SUMMARIES},
    "enc_dec_lcsts": {"system": "enc_dec", **SUMMARIES},
    "copynet_lcsts_full": {"system": "copynet", **FULL, "embed_dim": 500, "hidden_size": 750},
    "copynet_full": {"system": "copynet", **FULL, "location_width": 57},
}
# These are the names of both archs in checkpoints from before the renaming.
SETTINGS |= {name.replace("full", "release"): SETTINGS[name] for name in ("copynet_lcsts_full", "copynet_full")}
SLOTS = 64
SIZES = {"embed_dim": 6, "hidden_size": 10, "attention_dim": 5}
WORDS = [Dropped(side, "embedding", 6) for side in (ENCODER, DECODER)]
STARTS = {
    r".*embed_tokens\.weight": normal(1.0),
    r".*attention\.vector": uniform(5**-0.5),  # like a linear map whose input has the width of the attention
}
CASES = [
    Case("copynet", SIZES, [*WORDS, Dropped(DECODER, "add", 10)], STARTS),
    Case("enc_dec", SIZES, [*WORDS, Dropped(DECODER, "add", 10)], STARTS),
    # The full readout consists of the state, the word, the selective read, the context, and the positions next to the
    # selective read and the context.
    Case(
        "copynet_full",
        SIZES | {"location_width": 4},
        [*WORDS, Dropped(DECODER, "cat", 10 + 6 + 24 + 24)],
        STARTS | {r".*coverage_weight": constant(0.0)},
    ),
    Case(
        "copynet",
        SIZES | {"oov_input": "copy"},
        [Dropped(ENCODER, "embedding", 6), Dropped(DECODER, "where", 6), Dropped(DECODER, "add", 10)],
        STARTS | {r".*oov_embedding": normal(1.0)},
    ),
]
