"""Options of ``dnpg`` (Li et al., ACL 2019, arXiv 1906.09741). The paper gives few of the sizes."""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum

from ...fields import option
from ..word_layers import OutputLayerConfig


@dataclass
class DnpgConfig(OutputLayerConfig):
    """Options of the model. Section numbers refer to the paper."""

    phrase_dim: int = option(300, "width of the phrase level (sec. 3.2)", least=1)
    phrase_heads: int = option(6, "attention heads of the phrase level (sec. 3.2)", least=1)
    sentence_dim: int = option(150, "width of the sentence level (sec. 3.2)", least=1)
    sentence_heads: int = option(3, "attention heads of the sentence level (sec. 3.2)", least=1)
    encoder_layers: int = option(3, "layers of each level's encoder", least=1)
    decoder_layers: int = option(3, "layers of each level's decoder", least=1)
    ffn_factor: int = option(
        4, "inner width of the feed-forward sublayers, as a multiple of the level's width", least=1
    )
    window: int = option(3, "the phrase level's self-attention reads words whose distance is less than this", least=1)
    separator_dim: int = option(
        300, "width of the separator: its embeddings, both directions together, and its second LSTM", least=1
    )
    aggregator_dim: int = option(300, "width of the aggregator", least=1)
    dropout: float = option(0.1, "dropout on embeddings and on the output of every sublayer")
    attention_dropout: float = option(0.1, "dropout on attention weights")
    label_weight: float = option(1.0, "initial weight of the loss of the weak labels (lambda of sec. 3.2)", least=0)
    final_label_weight: float = option(0.01, "weight of the label loss after --anneal-after epochs", least=0)
    temperature: float = option(1.0, "initial temperature of the labels (tau of sec. 3.2)", is_positive=True)
    final_temperature: float = option(0.9, "temperature of the labels after --anneal-after epochs", is_positive=True)
    anneal_after: int = option(
        3, "epochs before --final-label-weight and --final-temperature apply; 0 = from the start", least=0
    )
    decoder_labels: ChoiceEnum(("aggregator", "weak")) = option(  # type: ignore[valid-type]
        "aggregator",
        "labels that weight the previous words for the sentence level in training: aggregator = its own, as in "
        "generation; weak = the weak labels, with which all steps run at once",
    )
    noisy_inference: bool = option(False, "sample labels in generation too, which makes the search random")
