"""Options and presets of ``pc_san``. The defaults are the full model of the PC-SAN paper.

The paper gives layers, width, heads and dropout; the rest is chosen as in Vaswani et al. (see docs/equations.md).
"""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from ...modules import FUSIONS, MIXTURES
from ..presets import register_preset

BERT_LAYERS = ("dynamic", "static", "last", "none")
CONTEXTS = ("target", "source", "none")


@dataclass
class PcSanConfig(FairseqDataclass):
    """Sections are those of the paper; ``--bert`` is an option of the task."""

    embed_dim: int = field(default=768, metadata={"help": "width of embeddings, topic vectors and states"})
    ffn_dim: int = field(default=3072, metadata={"help": "inner width of the feed-forward parts (not in the paper)"})
    decoder_layers: int = field(default=6, metadata={"help": "layers of the decoder"})
    attention_heads: int = field(default=8, metadata={"help": "heads of every attention; must divide --embed-dim"})
    dropout: float = field(default=0.1, metadata={"help": "dropout on embeddings and on the output of every part"})
    attention_dropout: float = field(default=0.1, metadata={"help": "dropout on attention weights"})
    max_positions: int = field(default=512, metadata={"help": "tokens of the longest essay, end symbol included"})
    topic_vectors: Optional[str] = field(
        default=None,
        metadata={
            "help": "word vectors as text (GloVe or word2vec), as wide as --embed-dim, that the embedding of topics, "
            "essay and output starts from (sec. 3.2); it is trained further"
        },
    )
    topic_fuse: ChoiceEnum(FUSIONS) = field(  # type: ignore[valid-type]
        default="feature",
        metadata={
            "help": "how topic vectors and BERT's states are joined (eq. 3): feature = side by side, mapped back to "
            "--embed-dim; kv1536 = side by side, read by wider keys and values; sequence = one after the other"
        },
    )
    bert_layers: ChoiceEnum(BERT_LAYERS) = field(  # type: ignore[valid-type]
        default="dynamic",
        metadata={
            "help": "what a decoder layer reads of BERT (eq. 2): dynamic = a mixture of its layers for each decoder "
            "layer; static = one mixture for all; last = the last layer; none = topic vectors alone"
        },
    )
    bert_mix: ChoiceEnum(MIXTURES) = field(  # type: ignore[valid-type]
        default="softmax",
        metadata={"help": "the weights of a mixture: softmax = positive, with sum 1; free = any, 1 / layers at first"},
    )
    context: ChoiceEnum(CONTEXTS) = field(  # type: ignore[valid-type]
        default="target",
        metadata={
            "help": "what the queries of the self-attention are mixed with (sec. 3.3): target = the mean of the states "
            "so far; source = the mean of what the layer reads about the topics; none = nothing"
        },
    )
    context_inclusive: bool = field(
        default=False, metadata={"help": "the mean of --context target counts the present position as well"}
    )


def register_presets() -> None:
    """Register the archs beside ``pc_san`` itself."""
    # Small enough for a CPU.
    register_preset("pc_san", "pc_san_small", embed_dim=128, ffn_dim=512, decoder_layers=2, attention_heads=4)
