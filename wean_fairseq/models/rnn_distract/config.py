"""Options of ``rnn_distract`` (Chen et al., IJCAI 2016). The sizes are those of CopyNet's paper for LCSTS."""

from dataclasses import dataclass, field

from ..word_layers import OutputLayerConfig


@dataclass
class RnnDistractConfig(OutputLayerConfig):
    """The paper was not at hand: the equations are those of the authors' release."""

    embed_dim: int = field(
        default=350, metadata={"help": "width of the embedding that encoder and decoder share, and of the readout"}
    )
    hidden_size: int = field(
        default=500, metadata={"help": "units of the decoder, and of each direction of the encoder"}
    )
    attention_dim: int = field(default=0, metadata={"help": "hidden width of the attention; 0 = --hidden-size"})
    dropout: float = field(default=0.0, metadata={"help": "dropout on the embeddings and on the readout"})
    distract_attention: float = field(
        default=0.0,
        metadata={
            "help": "in beam search prefer hypotheses whose attention is far from all before: weight of the divergence "
            "(in plain beam search alone)"
        },
    )
    distract_content: float = field(
        default=0.0, metadata={"help": "likewise those whose content is unlike all before, by the cosine"}
    )
    distract_state: float = field(
        default=0.0, metadata={"help": "likewise those whose decoder state is unlike all before, by the cosine"}
    )
