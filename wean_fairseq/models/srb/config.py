"""Options of ``srb`` (Ma et al., ACL 2017). The defaults are the sizes of the authors' release, for LCSTS."""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum

from ...modules import GATE_INPUTS
from ..word_layers import OutputLayerConfig


@dataclass
class SrbConfig(OutputLayerConfig):
    """Section numbers are those of the paper."""

    embed_dim: int = field(default=400, metadata={"help": "width of the embedding that all parts share"})
    hidden_size: int = field(default=500, metadata={"help": "units of the encoder and of the decoder"})
    dropout: float = field(default=0.0, metadata={"help": "dropout on the embeddings and before the output layer"})
    relevance_weight: float = field(
        default=0.0001, metadata={"help": "weight of the cosine of source and summary in the loss (lambda, sec. 3.4)"}
    )
    gate_input: ChoiceEnum(GATE_INPUTS) = field(  # type: ignore[valid-type]
        default="state-and-word",
        metadata={"help": "what tells the importance of a source word (sec. 3.2); state, as in the authors' release"},
    )
