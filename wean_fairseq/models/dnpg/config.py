"""Options of ``dnpg`` (Li et al., ACL 2019, arXiv 1906.09741). It gives few sizes; the others are chosen here."""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum

from ..word_layers import OutputLayerConfig

DECODER_LABELS = ("aggregator", "weak")


@dataclass
class DnpgConfig(OutputLayerConfig):
    """Section numbers are those of the paper."""

    phrase_dim: int = field(default=300, metadata={"help": "width of the phrase level (sec. 3.2)"})
    phrase_heads: int = field(default=6, metadata={"help": "attention heads of the phrase level (sec. 3.2)"})
    sentence_dim: int = field(default=150, metadata={"help": "width of the sentence level (sec. 3.2)"})
    sentence_heads: int = field(default=3, metadata={"help": "attention heads of the sentence level (sec. 3.2)"})
    encoder_layers: int = field(default=3, metadata={"help": "layers of each level's encoder"})
    decoder_layers: int = field(default=3, metadata={"help": "layers of each level's decoder"})
    ffn_factor: int = field(
        default=4, metadata={"help": "inner width of the feed-forward parts, in widths of the level"}
    )
    window: int = field(
        default=3, metadata={"help": "the phrase level's self-attention reads words that are less than this apart"}
    )
    separator_dim: int = field(
        default=300, metadata={"help": "width of the separator: its embeddings, both directions, its second LSTM"}
    )
    aggregator_dim: int = field(default=300, metadata={"help": "width of the aggregator"})
    dropout: float = field(default=0.1, metadata={"help": "dropout on embeddings and on the output of every part"})
    attention_dropout: float = field(default=0.1, metadata={"help": "dropout on attention weights"})
    label_weight: float = field(
        default=1.0, metadata={"help": "weight of the loss of the weak labels at first (lambda of sec. 3.2)"}
    )
    final_label_weight: float = field(default=0.01, metadata={"help": "the same after --anneal-after epochs"})
    temperature: float = field(default=1.0, metadata={"help": "temperature of the labels at first (tau of sec. 3.2)"})
    final_temperature: float = field(default=0.9, metadata={"help": "the same after --anneal-after epochs"})
    anneal_after: int = field(
        default=3,
        metadata={"help": "epochs before --final-label-weight and --final-temperature hold; 0 = from the start"},
    )
    decoder_labels: ChoiceEnum(DECODER_LABELS) = field(  # type: ignore[valid-type]
        default="aggregator",
        metadata={
            "help": "labels of the words before, which weigh them for the sentence level in training: the "
            "aggregator's, as in generation; or the weak labels, where all steps run at once"
        },
    )
    noisy_inference: bool = field(
        default=False, metadata={"help": "draw labels in generation too, which makes the search random"}
    )
