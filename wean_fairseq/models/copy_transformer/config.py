"""Options and presets of ``copy_transformer``. The defaults are "Transformer+Copy" of the C-DNPG table.

C-DNPG (Gu et al., COLING 2022) gives layers, width and heads; the rest is from its released code.
"""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum

from ..copying import OUTPUT_LAYERS, CopyingConfig
from ..presets import register_preset

COPY_MODES = ("gate", "shared-softmax", "none")


@dataclass
class CopyTransformerConfig(CopyingConfig):
    """Options."""

    embed_dim: int = field(default=450, metadata={"help": "width of embeddings and states"})
    ffn_dim: int = field(default=1024, metadata={"help": "inner width of the feed-forward parts"})
    encoder_layers: int = field(default=3, metadata={"help": "layers of the encoder"})
    decoder_layers: int = field(default=3, metadata={"help": "layers of the decoder"})
    attention_heads: int = field(default=9, metadata={"help": "heads of every attention; must divide --embed-dim"})
    dropout: float = field(default=0.1, metadata={"help": "dropout on embeddings and on the output of every part"})
    attention_dropout: float = field(default=0.1, metadata={"help": "dropout on attention weights"})
    max_positions: int = field(
        default=512, metadata={"help": "learned positions: tokens of the longest sentence, end symbol included"}
    )
    copy_mode: ChoiceEnum(COPY_MODES) = field(  # type: ignore[valid-type]
        default="gate",
        metadata={
            "help": "gate: choose between generating, and copying where the last layer attends (DNPG, eq. 8); "
            "shared-softmax: one softmax over words and source positions (CopyNet, eq. 4-8); none: no copying"
        },
    )
    share_embeddings: bool = field(
        default=False, metadata={"help": "one word embedding for encoder and decoder, as in WEAN, instead of two"}
    )
    output_layer: ChoiceEnum(OUTPUT_LAYERS) = field(  # type: ignore[valid-type]
        default="linear",
        metadata={
            "help": "how generated words are scored: linear = the network's own, a hidden layer, then the decoder's "
            "word embeddings and a bias; query_embedding = by querying the decoder's word embeddings (WEAN)"
        },
    )


def register_presets() -> None:
    """Register the archs beside ``copy_transformer`` itself."""
    # The "Transformer" of the C-DNPG table; fairseq has an arch `transformer` of its own.
    register_preset("copy_transformer", "paraphrase_transformer", copy_mode="none")
