"""Settings of MTA-LSTM (Feng et al.).

Its parameters start uniform in +-0.04, and dropout applies to inputs and layer outputs as in the authors' code.
"""

from . import BETWEEN_LAYERS, DECODER, Case, Dropped, uniform

# The sizes are from section 4.2. We chose the sizes of the small arch.
LSTM = {"embed_dim": 300, "hidden_size": 800, "num_layers": 2, "dropout": 0.5, "init_range": 0.04}
TOPICS = LSTM | {"coverage_loss_weight": 0.1, "topic_slots": 5}
SETTINGS = {
    "mta_lstm": {"topic_mode": "mta", **TOPICS},
    "tat_lstm": {"topic_mode": "tat", **TOPICS},
    "tav_lstm": {"topic_mode": "tav", **TOPICS},
    "mta_lstm_small": {"topic_mode": "mta", **TOPICS, "embed_dim": 128, "hidden_size": 256},
}
TASK = "topic_essay"
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
