"""Settings of NTS, EncDecA and DRESS-LS. They come from the papers and code of their authors, and OpenNMT-lua."""

from . import BETWEEN_LAYERS, DECODER, ENCODER, Case, Dropped, normal, uniform

# The sizes are from section 2 of NTS. Its code does not reverse the source, and initialises word vectors like other
# weights.
NTS = {"embed_dim": 500, "hidden_size": 500, "num_layers": 2, "dropout": 0.3, "attention_score": "general"}
NTS |= {"reverse_source": False, "local_dim": 0, "missing_vector_std": 0.0, "init_range": 0.1, "lexical_share": 0.1}
# EncDecA follows section 5 of Zhang and Lapata (EMNLP 2017). DRESS-LS follows the released train_lexical_simp.sh and
# run_std.sh.
DRESS = NTS | {"embed_dim": 300, "hidden_size": 256, "dropout": 0.2, "dropout_input": True}
DRESS |= {"attention_score": "dot", "reverse_source": True}
SETTINGS = {
    "nts": NTS,
    "nts_w2v": NTS | {"local_dim": 200, "missing_vector_std": 0.9},
    "enc_dec_a": DRESS,
    "dress_ls": DRESS | {"lexical_dim": 256, "lexical_share": 0.1},
}
SIZES = {"embed_dim": 6, "hidden_size": 10, "num_layers": 2, "local_dim": 0}
LAYERS = [Dropped(ENCODER, BETWEEN_LAYERS, 10), Dropped(DECODER, "recurrent", 10)]
CASES = [
    Case("nts", SIZES, [*LAYERS, Dropped(DECODER, "tanh", 10)], {".*": uniform(0.1)}),
    # Dropout is applied to the attentional state twice, when words are scored from it and when the next step reads it.
    Case(
        "enc_dec_a",
        SIZES,
        [*LAYERS, Dropped(ENCODER, "embedding", 6), Dropped(DECODER, "embedding", 6), Dropped(DECODER, "tanh", 10, 2)],
        {".*": uniform(0.1)},
    ),
    # The lexical model applies dropout to the input of each layer and to the input of the output layer.
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
