"""Settings of DRGD (Li et al.), which draws latent variables in training. We chose where dropout is applied."""

from . import DECODER, ENCODER, Case, Dropped, normal, uniform

# These are the sizes of the release.
SETTINGS = {"drgd": {"embed_dim": 350, "hidden_size": 500, "latent_dim": 0, "kl_weight": 1.0}}
DROPPED = [Dropped(ENCODER, "embedding", 6), Dropped(DECODER, "embedding", 6), Dropped(DECODER, "tanh", 10)]
STARTS = {r".*embed_tokens\.weight": normal(1.0), r".*attention\.vector": uniform(5**-0.5)}
SIZES = {"embed_dim": 6, "hidden_size": 10, "attention_dim": 5, "latent_dim": 7}
CASES = [Case("drgd", SIZES, DROPPED, STARTS, noise=frozenset({"randn_like"}))]
