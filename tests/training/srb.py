"""SRB (Ma et al.): the release keeps every unit; where dropout falls is chosen here. PyTorch's start."""

from . import DECODER, ENCODER, Case, Dropped, normal

DROPPED = [Dropped(ENCODER, "embedding", 6), Dropped(DECODER, "embedding", 6), Dropped(DECODER, "tanh", 10)]
CASES = [Case("srb", {"embed_dim": 6, "hidden_size": 10}, DROPPED, {r".*embed_tokens\.weight": normal(1.0)})]
