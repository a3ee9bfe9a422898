"""Options of ``dnpg`` (Li et al., ACL 2019, arXiv 1906.09741). It gives few sizes; the others are chosen here."""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum

from ...fields import option
from ..word_layers import OutputLayerConfig


@dataclass
class DnpgConfig(OutputLayerConfig):
    """Section numbers are those of the paper."""

    phrase_dim: int = option(300, "width of the phrase level (sec. 3.2)", least=1)
    phrase_heads: int = option(6, "attention heads of the phrase level (sec. 3.2)", least=1)
    sentence_dim: int = option(150, "width of the sentence level (sec. 3.2)", least=1)
    sentence_heads: int = option(3, "attention heads of the sentence level (sec. 3.2)", least=1)
    encoder_layers: int = option(3, "layers of each level's encoder", least=1)
    decoder_layers: int = option(3, "layers of each level's decoder", least=1)
    ffn_factor: int = option(4, "inner width of the feed-forward parts, in widths of the level", least=1)
    window: int = option(3, "the phrase level's self-attention reads words that are less than this apart", least=1)
    separator_dim: int = option(
        300, "width of the separator: its embeddings, both directions, its second LSTM", least=1
    )
    aggregator_dim: int = option(300, "width of the aggregator", least=1)
    dropout: float = option(0.1, "dropout on embeddings and on the output of every part")
    attention_dropout: float = option(0.1, "dropout on attention weights")
    label_weight: float = option(1.0, "weight of the loss of the weak labels at first (lambda of sec. 3.2)", least=0)
    final_label_weight: float = option(0.01, "the same after --anneal-after epochs", least=0)
    temperature: float = option(1.0, "temperature of the labels at first (tau of sec. 3.2)")
    final_temperature: float = option(0.9, "the same after --anneal-after epochs")
    anneal_after: int = option(
        3, "epochs before --final-label-weight and --final-temperature hold; 0 = from the start", least=0
    )
    decoder_labels: ChoiceEnum(("aggregator", "weak")) = option(  # type: ignore[valid-type]
        "aggregator",
        "labels of the words before, which weigh them for the sentence level in training: the "
        "aggregator's, as in generation; or the weak labels, where all steps run at once",
    )
    noisy_inference: bool = option(False, "draw labels in generation too, which makes the search random")
