"""WEAN: spec of the paper's section 3.1.3 and of its two releases, whose ``param_init`` is never read."""

from . import BETWEEN_LAYERS, DECODER, ENCODER, Case, Dropped, normal

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
