"""Options and presets of ``sc_lstm``. The sizes are those of MTA-LSTM, whose authors compared the two."""

from dataclasses import dataclass, field

from ..presets import register_preset
from ..topics import TopicConfig


@dataclass
class ScLstmConfig(TopicConfig):
    """Sizes, dropout and initialisation are those of all families that write from topics."""

    num_layers: int = field(default=2, metadata={"help": "LSTM layers; all of them are read by the output layer"})
    control_loss_weight: float = field(
        default=0.0,
        metadata={
            "help": "weight of the losses of Wen et al. on the keywords left unread and on reading many at once; "
            "0 = without, as in the code of the MTA-LSTM authors"
        },
    )


def register_presets() -> None:
    """Register the archs beside ``sc_lstm`` itself."""
    # Trains on a CPU.
    register_preset("sc_lstm", "sc_lstm_small", embed_dim=128, hidden_size=256)
