"""Options and presets of ``ppg``. The sizes were not checked against the paper (Wang et al., COLING 2016)."""

from dataclasses import dataclass

from ...fields import option
from ..topics import TopicConfig


@dataclass
class PpgConfig(TopicConfig):
    """The defaults are the sizes known of PPG, not those of MTA-LSTM."""

    embed_dim: int = option(512, "width of the word embeddings, topics included", least=1)
    hidden_size: int = option(
        512, "units of the decoder, of each direction of both encoders, and of the attention", least=1
    )
    dropout: float = option(0.0, "dropout on the words read and on the readout")
    init_range: float = option(0.0, "weights start uniform in [-x, x]; 0 = PyTorch's defaults", least=0)
    chunk_symbol: str = option(
        "<chunk>",
        "the word between the chunks of an essay, as preprocess/clause_chunks.py writes it; "
        "the i-th chunk is written from the i-th topic",
    )


PRESETS = {"ppg_small": {"embed_dim": 128, "hidden_size": 256, "dropout": 0.3}}  # trains on a CPU
