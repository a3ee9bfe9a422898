"""MTA-LSTM (Feng et al., uniform +-0.04; dropout as in the authors' code: what is read, and every layer's output)."""

from . import BETWEEN_LAYERS, DECODER, Case, Dropped, uniform

SIZES = {"embed_dim": 6, "hidden_size": 10, "attention_dim": 7}
STARTS = {".*": uniform(0.04)}
WORDS = Dropped(DECODER, "embedding", 6)
CASES = [
    *(
        Case(arch, SIZES | {"num_layers": 3}, [WORDS, Dropped(DECODER, "recurrent", 10, 3)], STARTS)
        for arch in ("mta_lstm", "tat_lstm")
    ),
    Case(
        "tav_lstm",
        SIZES | {"num_layers": 3},
        [WORDS, Dropped(DECODER, BETWEEN_LAYERS, 10, 2), Dropped(DECODER, "recurrent", 10)],
        STARTS,
    ),
    Case("tav_lstm", SIZES | {"num_layers": 1}, [WORDS, Dropped(DECODER, "recurrent", 10)], STARTS),
]
