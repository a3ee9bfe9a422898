"""Settings of PPG. We chose dropout and initialisation, see ``models/ppg.py``.

An ``init_range`` of 0 selects the initialisation of PyTorch.
"""

from . import DECODER, Case, Dropped, uniform

# The settings come from Wang et al., 2016. We chose the sizes of the small arch.
SETTINGS = {
    "ppg": {"embed_dim": 512, "hidden_size": 512, "dropout": 0.0, "init_range": 0.0},
    "ppg_small": {"embed_dim": 128, "hidden_size": 256, "dropout": 0.3},
}
TASK = "topic_essay"
SIZES = {"embed_dim": 6, "hidden_size": 10, "chunk_symbol": "w7", "dropout": 0.5}
CASES = [
    Case(
        "ppg",
        SIZES | {"init_range": 0.3},
        [Dropped(DECODER, "embedding", 6), Dropped(DECODER, "tanh", 6)],
        {".*": uniform(0.3)},
    ),
]
