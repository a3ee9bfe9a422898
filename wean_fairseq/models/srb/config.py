"""Options of ``srb`` (Ma et al., ACL 2017). The defaults are the sizes of the authors' release, for LCSTS."""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum

from ...fields import option
from ...modules import GATE_INPUTS
from ..word_layers import OutputLayerConfig


@dataclass
class SrbConfig(OutputLayerConfig):
    """Section numbers are those of the paper."""

    embed_dim: int = option(400, "width of the embedding that all parts share", least=1)
    hidden_size: int = option(500, "units of the encoder and of the decoder", least=1)
    dropout: float = option(0.0, "dropout on the embeddings and before the output layer")
    relevance_weight: float = option(
        0.0001, "weight of the cosine of source and summary in the loss (lambda, sec. 3.4)", least=0
    )
    gate_input: ChoiceEnum(GATE_INPUTS) = option(  # type: ignore[valid-type]
        "state-and-word", "what tells the importance of a source word (sec. 3.2); state, as in the authors' release"
    )
