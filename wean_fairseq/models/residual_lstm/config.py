"""Options and presets of ``residual_lstm`` (Prakash et al., COLING 2016). The defaults are the paper's sizes."""

from dataclasses import dataclass

from ...fields import option
from ..word_layers import OutputLayerConfig


@dataclass
class ResidualLstmConfig(OutputLayerConfig):
    """Section numbers are those of the paper; the options of the output layer are those of all families here."""

    embed_dim: int = option(512, "width of the embeddings; residuals are cut where it is not --hidden-size", least=1)
    hidden_size: int = option(512, "units of every layer (sec. 4.2)", least=1)
    num_layers: int = option(4, "layers of the encoder, and of the decoder (sec. 4.2)", least=1)
    residual_every: int = option(
        2, "add the input of this many layers to their output (n of sec. 2.3); 0 = never", least=0
    )
    residual_recurrent: bool = option(
        False, 'let the recurrence go on with the sum too (sec. 2.3, "pointwise addition to h_t"); slower'
    )
    dropout: float = option(0.5, "dropout after every layer (sec. 4.2)")
    share_embeddings: bool = option(False, "one word embedding for encoder and decoder, as in WEAN, instead of two")
    init_range: float = option(
        0.08,
        "weights start uniform in [-x, x] (not in the paper; the value is that of Sutskever et al. 2014); "
        "0 = PyTorch's defaults",
        least=0,
    )


# The paper's baseline "Sequence to Sequence": the same layers without residuals.
PRESETS = {"stacked_lstm": {"residual_every": 0}}
