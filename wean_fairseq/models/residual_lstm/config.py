"""Options and presets of ``residual_lstm`` (Prakash et al., COLING 2016). The defaults are the paper's sizes."""

from dataclasses import dataclass, field

from ..presets import register_preset
from ..word_layers import OutputLayerConfig


@dataclass
class ResidualLstmConfig(OutputLayerConfig):
    """Section numbers are those of the paper; the options of the output layer are those of all families here."""

    embed_dim: int = field(
        default=512, metadata={"help": "width of the embeddings; residuals are cut where it is not --hidden-size"}
    )
    hidden_size: int = field(default=512, metadata={"help": "units of every layer (sec. 4.2)"})
    num_layers: int = field(default=4, metadata={"help": "layers of the encoder, and of the decoder (sec. 4.2)"})
    residual_every: int = field(
        default=2, metadata={"help": "add the input of this many layers to their output (n of sec. 2.3); 0 = never"}
    )
    residual_recurrent: bool = field(
        default=False,
        metadata={"help": 'let the recurrence go on with the sum too (sec. 2.3, "pointwise addition to h_t"); slower'},
    )
    dropout: float = field(default=0.5, metadata={"help": "dropout after every layer (sec. 4.2)"})
    share_embeddings: bool = field(
        default=False, metadata={"help": "one word embedding for encoder and decoder, as in WEAN, instead of two"}
    )
    init_range: float = field(
        default=0.08,
        metadata={
            "help": "weights start uniform in [-x, x] (not in the paper; the value is that of Sutskever et al. 2014); "
            "0 = PyTorch's defaults"
        },
    )


def register_presets() -> None:
    """Register the archs beside ``residual_lstm`` itself."""
    # The paper's baseline "Sequence to Sequence": the same layers without residuals.
    register_preset("residual_lstm", "stacked_lstm", residual_every=0)
