"""Settings of WEAN, from section 3.1.3 of the paper and the two releases. Their option ``param_init`` is never read."""

from . import BETWEEN_LAYERS, DECODER, ENCODER, Case, Dropped, normal

# The sizes are from sections 3.1.3 (PWKP, EW-SEW) and 3.2.3 (LCSTS). The baseline differs only in the output layer.
ENGLISH = {"embed_dim": 256, "hidden_size": 256, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.4}
CHINESE = {"embed_dim": 512, "hidden_size": 512, "encoder_layers": 2, "decoder_layers": 1, "dropout": 0.0}
CHINESE |= {"attention_tanh": True}
SETTINGS = {
    "wean_lstm": {"query_score": "general", "detach_query_embedding": False, **ENGLISH},
    "wean_lstm_pwkp": {"query_score": "general", **ENGLISH},
    "wean_lstm_ew_sew": {"query_score": "general", **ENGLISH},
    "wean_lstm_lcsts": {"query_score": "general", **CHINESE},
    "seq2seq_lstm": {"query_score": "linear", **ENGLISH},
    "seq2seq_lstm_lcsts": {"query_score": "linear", **CHINESE},
}
SIZES = {"embed_dim": 6, "hidden_size": 10}
STARTS = {r".*embed_tokens\.weight": normal(1.0)}
CASES = [
    Case(
        arch,
        SIZES | {"encoder_layers": 3, "decoder_layers": layers},
        [
            Dropped(ENCODER, BETWEEN_LAYERS, 10, 2),
            *([Dropped(DECODER, BETWEEN_LAYERS, 10, layers - 1)] if layers > 1 else []),
            Dropped(DECODER, "tanh", 10),  # the query
        ],
        STARTS,
    )
    for arch, layers in (("wean_lstm", 2), ("seq2seq_lstm", 1))
]
