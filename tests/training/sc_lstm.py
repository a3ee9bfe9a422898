"""Settings of SC-LSTM, which are the same as the settings of MTA-LSTM. The authors of MTA-LSTM compared the two."""

from . import DECODER, Case, Dropped, uniform
from .mta_lstm import LSTM

# The sizes are from section 4.2 of MTA-LSTM's paper. We chose the sizes of the small arch.
SETTINGS = {
    "sc_lstm": {"control_loss_weight": 0.0, **LSTM},
    "sc_lstm_small": {**LSTM, "embed_dim": 128, "hidden_size": 256},
}
TASK = "topic_essay"
SIZES = {"embed_dim": 6, "hidden_size": 10, "num_layers": 3}
DROPPED = [Dropped(DECODER, "embedding", 6), Dropped(DECODER, "recurrent", 10, 3)]
CASES = [
    Case("sc_lstm", SIZES, DROPPED, {".*": uniform(0.04)}),
    # The vectors start like columns of linear maps, with bounds from the 6 units of a word or the 10 units of a layer.
    Case(
        "sc_lstm",
        SIZES | {"init_range": 0.0},
        DROPPED,
        {r".*word_read\.weight": uniform(6**-0.5), r".*(hidden_read|write)\.weight": uniform(10**-0.5)},
    ),
]
