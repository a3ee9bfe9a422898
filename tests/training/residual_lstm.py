"""Residual LSTM (Prakash et al.) has dropout after every layer (section 4.2).

Its weights start as in Sutskever et al.
"""

from . import BETWEEN_LAYERS, DECODER, ENCODER, Case, Dropped, uniform

# The sizes are from section 3.2.
STACK = {"embed_dim": 512, "hidden_size": 512, "num_layers": 4, "dropout": 0.5, "residual_recurrent": False}
STACK |= {"init_range": 0.08}
SETTINGS = {"residual_lstm": {"residual_every": 2, **STACK}, "stacked_lstm": {"residual_every": 0, **STACK}}
SIZES = {"embed_dim": 6, "hidden_size": 10}
STARTS = {".*": uniform(0.08)}
CASES = [
    Case(
        arch,
        SIZES | options,
        [Dropped(side, of, 10, number) for side in (ENCODER, DECODER) for of, number in places.items()],
        STARTS,
    )
    for arch, options, places in (
        ("residual_lstm", {}, {BETWEEN_LAYERS: 2, "recurrent": 2}),  # four layers, with two in each block
        ("residual_lstm", {"residual_recurrent": True}, {"recurrent": 4}),  # dropout is applied in each step
        ("stacked_lstm", {}, {BETWEEN_LAYERS: 3, "recurrent": 1}),  # all layers are in one block
    )
]
