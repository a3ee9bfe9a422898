"""Options and presets of ``sc_lstm``. The sizes are those of MTA-LSTM, whose authors compared the two."""

from dataclasses import dataclass

from ...fields import option
from ..topics import TopicConfig


@dataclass
class ScLstmConfig(TopicConfig):
    """Sizes, dropout and initialisation are those of all families that write from topics."""

    num_layers: int = option(2, "LSTM layers; all of them are read by the output layer", least=1)
    control_loss_weight: float = option(
        0.0,
        "weight of the losses of Wen et al. on the keywords left unread and on reading many at once; "
        "0 = without, as in the code of the MTA-LSTM authors",
        least=0,
    )


PRESETS = {"sc_lstm_small": {"embed_dim": 128, "hidden_size": 256}}  # trains on a CPU
