"""Settings of RNN-distract (Chen et al.), whose content distraction has no effect at the start.

We chose where dropout is applied.
"""

from . import DECODER, ENCODER, Case, Dropped, constant, normal, uniform

# These are CopyNet's sizes for LCSTS.
SETTINGS = {"rnn_distract": {"embed_dim": 350, "hidden_size": 500, "distract_content": 0.0}}
DROPPED = [Dropped(ENCODER, "embedding", 6), Dropped(DECODER, "embedding", 6), Dropped(DECODER, "tanh", 6)]
STARTS = {
    r".*embed_tokens\.weight": normal(1.0),
    # like a linear map whose input has the width of the attention
    r".*attention\.(vector|coverage_weight)": uniform(5**-0.5),
    r".*content_distraction\.now": constant(1.0),
    r".*content_distraction\.before": constant(0.0),
}
CASES = [Case("rnn_distract", {"embed_dim": 6, "hidden_size": 10, "attention_dim": 5}, DROPPED, STARTS)]
