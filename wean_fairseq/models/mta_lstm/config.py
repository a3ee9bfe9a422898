"""Options and presets of ``mta_lstm`` (Feng et al., IJCAI 2018). The defaults are the paper's sizes."""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum

from ...fields import option
from ..topics import TopicConfig

TOPIC_MODES = ("mta", "tat", "tav")


@dataclass
class MtaLstmConfig(TopicConfig):
    """Sizes, dropout and initialisation are those of all families that write from topics."""

    topic_mode: ChoiceEnum(TOPIC_MODES) = option(  # type: ignore[valid-type]
        "mta",
        "mta: attention over the topics with coverage; tat: attention alone; "
        "tav: the mean of the topics starts the decoder",
    )
    num_layers: int = option(2, "LSTM layers", least=1)
    attention_dim: int = option(0, "hidden width of the attention; 0 = --hidden-size, as in the authors' code", least=0)
    topic_slots: int = option(
        5, "most topics of an essay (k), with --topic-mode mta, whose phi has a fixed number of them", least=1
    )
    coverage_loss_weight: float = option(
        0.1, "weight of sum_j (phi_j - sum_t alpha_tj)^2 (authors' code, not in the paper); 0 = without", least=0
    )


PRESETS = {
    "tat_lstm": {"topic_mode": "tat"},
    "tav_lstm": {"topic_mode": "tav"},
    "mta_lstm_small": {"embed_dim": 128, "hidden_size": 256},  # trains on a CPU
}
