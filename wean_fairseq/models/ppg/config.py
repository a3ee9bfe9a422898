"""Options and presets of ``ppg``. The sizes were not checked against the paper (Wang et al., COLING 2016)."""

from dataclasses import dataclass, field

from ..presets import register_preset
from ..topics import TopicConfig


@dataclass
class PpgConfig(TopicConfig):
    """The defaults are the sizes known of PPG, not those of MTA-LSTM."""

    embed_dim: int = field(default=512, metadata={"help": "width of the word embeddings, topics included"})
    hidden_size: int = field(
        default=512, metadata={"help": "units of the decoder, of each direction of both encoders, and of the attention"}
    )
    dropout: float = field(default=0.0, metadata={"help": "dropout on the words read and on the readout"})
    init_range: float = field(
        default=0.0, metadata={"help": "weights start uniform in [-x, x]; 0 = PyTorch's defaults"}
    )
    chunk_symbol: str = field(
        default="<chunk>",
        metadata={
            "help": "the word between the chunks of an essay, as preprocess/clause_chunks.py writes it; "
            "the i-th chunk is written from the i-th topic"
        },
    )


def register_presets() -> None:
    """Register the archs beside ``ppg`` itself."""
    # Trains on a CPU.
    register_preset("ppg", "ppg_small", embed_dim=128, hidden_size=256, dropout=0.3)
