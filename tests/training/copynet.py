"""CopyNet (Gu et al.): the paper has no dropout and names no start; the places of dropout are chosen here."""

from . import DECODER, ENCODER, Case, Dropped, constant, normal, uniform

SIZES = {"embed_dim": 6, "hidden_size": 10, "attention_dim": 5}
WORDS = [Dropped(side, "embedding", 6) for side in (ENCODER, DECODER)]
STARTS = {
    r".*embed_tokens\.weight": normal(1.0),
    r".*attention\.vector": uniform(5**-0.5),  # as a linear map of the attention's width
}
CASES = [
    Case("copynet", SIZES, [*WORDS, Dropped(DECODER, "add", 10)], STARTS),
    Case("enc_dec", SIZES, [*WORDS, Dropped(DECODER, "add", 10)], STARTS),
    # The readout of the release: the state, the word, the selective read and the context, with positions beside both.
    Case(
        "copynet_release",
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
