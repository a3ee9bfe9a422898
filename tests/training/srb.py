"""Settings of SRB (Ma et al.). The authors' code applies no dropout. We chose where dropout is applied.

Weights start as in PyTorch.
"""

from . import DECODER, ENCODER, Case, Dropped, normal

# These are the sizes of the release.
SETTINGS = {"srb": {"embed_dim": 400, "hidden_size": 500, "relevance_weight": 0.0001, "dropout": 0.0}}
DROPPED = [Dropped(ENCODER, "embedding", 6), Dropped(DECODER, "embedding", 6), Dropped(DECODER, "tanh", 10)]
CASES = [Case("srb", {"embed_dim": 6, "hidden_size": 10}, DROPPED, {r".*embed_tokens\.weight": normal(1.0)})]
