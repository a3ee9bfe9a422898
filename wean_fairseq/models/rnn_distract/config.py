"""Options of ``rnn_distract`` (Chen et al., IJCAI 2016). The sizes are those of CopyNet's paper for LCSTS."""

from dataclasses import dataclass

from ...fields import option
from ..word_layers import OutputLayerConfig


@dataclass
class RnnDistractConfig(OutputLayerConfig):
    """The paper was not at hand: the equations are those of the authors' release."""

    embed_dim: int = option(350, "width of the embedding that encoder and decoder share, and of the readout", least=1)
    hidden_size: int = option(500, "units of the decoder, and of each direction of the encoder", least=1)
    attention_dim: int = option(0, "hidden width of the attention; 0 = --hidden-size", least=0)
    dropout: float = option(0.0, "dropout on the embeddings and on the readout")
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
