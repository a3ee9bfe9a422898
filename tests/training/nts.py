"""NTS (Nisioi et al., section 2; OpenNMT-lua's places of dropout), EncDecA and DRESS-LS as their release has them."""

from . import BETWEEN_LAYERS, DECODER, ENCODER, Case, Dropped, normal, uniform

SIZES = {"embed_dim": 6, "hidden_size": 10, "num_layers": 2, "local_dim": 0}
LAYERS = [
    Dropped(ENCODER, BETWEEN_LAYERS, 10),
    Dropped(DECODER, "recurrent", 10),
]
CASES = [
    Case("nts", SIZES, [*LAYERS, Dropped(DECODER, "tanh", 10)], {".*": uniform(0.1)}),
    # The attentional state is dropped where words are scored from it, and again where the next step reads it.
    Case(
        "enc_dec_a",
        SIZES,
        [*LAYERS, Dropped(ENCODER, "embedding", 6), Dropped(DECODER, "embedding", 6), Dropped(DECODER, "tanh", 10, 2)],
        {".*": uniform(0.1)},
    ),
    # The lexical model drops what each of its layers reads, and what its words are scored from.
    Case(
        "dress_ls",
        SIZES | {"lexical_dim": 7},
        [
            *LAYERS,
            Dropped(ENCODER, BETWEEN_LAYERS, 7),
            *(Dropped(ENCODER, "embedding", width) for width in (6, 7)),
            Dropped(DECODER, "embedding", 6),
            Dropped(DECODER, "tanh", 10, 2),
            Dropped(DECODER, "bmm", 7),
        ],
        {".*": uniform(0.1)},
    ),
    Case(
        "nts",
        SIZES | {"init_range": 0.0, "num_layers": 1},
        [Dropped(DECODER, "tanh", 10)],
        {r".*embed_tokens\.weight": normal(1.0)},
    ),
]
