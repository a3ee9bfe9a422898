"""DRGD (Li et al.) draws latent variables in training. We chose the places of dropout."""

from . import DECODER, ENCODER, Case, Dropped, normal, uniform

# The sizes of the release.
SETTINGS = {"drgd": {"embed_dim": 350, "hidden_size": 500, "latent_dim": 0, "kl_weight": 1.0}}
DROPPED = [Dropped(ENCODER, "embedding", 6), Dropped(DECODER, "embedding", 6), Dropped(DECODER, "tanh", 10)]
STARTS = {r".*embed_tokens\.weight": normal(1.0), r".*attention\.vector": uniform(5**-0.5)}
SIZES = {"embed_dim": 6, "hidden_size": 10, "attention_dim": 5, "latent_dim": 7}
CASES = [Case("drgd", SIZES, DROPPED, STARTS, noise=frozenset({"randn_like"}))]
