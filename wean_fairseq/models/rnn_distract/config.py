"""Options of ``rnn_distract`` (Chen et al., IJCAI 2016)."""

from dataclasses import dataclass

from ...fields import option
from ..gru_attention import GruAttentionConfig


@dataclass
class RnnDistractConfig(GruAttentionConfig):
    """The paper was not at hand: the equations are those of the authors' release."""

    distract_attention: float = option(
        0.0,
        "in beam search prefer hypotheses whose attention is far from all before: weight of the divergence "
        "(in plain beam search alone)",
        least=0,
    )
    distract_content: float = option(0.0, "likewise those whose content is unlike all before, by the cosine", least=0)
    distract_state: float = option(
        0.0, "likewise those whose decoder state is unlike all before, by the cosine", least=0
    )
