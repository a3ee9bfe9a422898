"""Options of ``drgd`` (Li et al., EMNLP 2017)."""

from dataclasses import dataclass

from ...fields import option
from ..gru_attention import GruAttentionConfig


@dataclass
class DrgdConfig(GruAttentionConfig):
    """See docs/equations.md for what the equations rest on."""

    latent_dim: int = option(0, "width of the latent variable of each step; 0 = --hidden-size", least=0)
    kl_weight: float = option(
        1.0, "weight of the divergence of the latent variables from their prior in the loss", least=0
    )
    kl_anneal_updates: int = option(
        0, "updates over which this weight rises from 0 in training; 0 = it is whole from the first on", least=0
    )
