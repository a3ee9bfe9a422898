"""Options and presets of ``mta_lstm`` (Feng et al., IJCAI 2018). The defaults are the paper's sizes."""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum

from ..presets import register_preset
from ..topics import TopicConfig

TOPIC_MODES = ("mta", "tat", "tav")


@dataclass
class MtaLstmConfig(TopicConfig):
    """Sizes, dropout and initialisation are those of all families that write from topics."""

    topic_mode: ChoiceEnum(TOPIC_MODES) = field(  # type: ignore[valid-type]
        default="mta",
        metadata={
            "help": "mta: attention over the topics with coverage; tat: attention alone; "
            "tav: the mean of the topics starts the decoder"
        },
    )
    num_layers: int = field(default=2, metadata={"help": "LSTM layers"})
    attention_dim: int = field(
        default=0, metadata={"help": "hidden width of the attention; 0 = --hidden-size, as in the authors' code"}
    )
    topic_slots: int = field(
        default=5,
        metadata={"help": "most topics of an essay (k), with --topic-mode mta, whose phi has a fixed number of them"},
    )
    coverage_loss_weight: float = field(
        default=0.1,
        metadata={"help": "weight of sum_j (phi_j - sum_t alpha_tj)^2 (authors' code, not in the paper); 0 = without"},
    )


def register_presets() -> None:
    """Register the archs beside ``mta_lstm`` itself."""
    register_preset("mta_lstm", "tat_lstm", topic_mode="tat")
    register_preset("mta_lstm", "tav_lstm", topic_mode="tav")
    # Trains on a CPU.
    register_preset("mta_lstm", "mta_lstm_small", embed_dim=128, hidden_size=256)
