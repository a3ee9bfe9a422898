"""Options and presets of ``pc_san``. The defaults are the full model of the PC-SAN paper.

The paper gives layers, width, heads and dropout; the rest is chosen as in Vaswani et al. (see docs/equations.md).
"""

from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from ...fields import option
from ...modules import FUSIONS, MIXTURES

BERT_LAYERS = ("dynamic", "static", "last", "none")
CONTEXTS = ("target", "source", "none")


@dataclass
class PcSanConfig(FairseqDataclass):
    """Sections are those of the paper; ``--bert`` is an option of the task."""

    embed_dim: int = option(768, "width of embeddings, topic vectors and states", least=1)
    ffn_dim: int = option(3072, "inner width of the feed-forward parts (not in the paper)", least=1)
    decoder_layers: int = option(6, "layers of the decoder", least=1)
    attention_heads: int = option(8, "heads of every attention; must divide --embed-dim", least=1)
    dropout: float = option(0.1, "dropout on embeddings and on the output of every part")
    attention_dropout: float = option(0.1, "dropout on attention weights")
    max_positions: int = option(512, "tokens of the longest essay, end symbol included", least=1)
    topic_vectors: Optional[str] = option(
        None,
        "word vectors as text (GloVe or word2vec), as wide as --embed-dim, that the embedding of topics, "
        "essay and output starts from (sec. 3.2); it is trained further",
        reads_file=True,
    )
    topic_fuse: ChoiceEnum(FUSIONS) = option(  # type: ignore[valid-type]
        "feature",
        "how topic vectors and BERT's states are joined (eq. 3): feature = side by side, mapped back to "
        "--embed-dim; kv1536 = side by side, read by wider keys and values; sequence = one after the other",
    )
    bert_layers: ChoiceEnum(BERT_LAYERS) = option(  # type: ignore[valid-type]
        "dynamic",
        "what a decoder layer reads of BERT (eq. 2): dynamic = a mixture of its layers for each decoder "
        "layer; static = one mixture for all; last = the last layer; none = topic vectors alone",
    )
    bert_mix: ChoiceEnum(MIXTURES) = option(  # type: ignore[valid-type]
        "softmax", "the weights of a mixture: softmax = positive, with sum 1; free = any, 1 / layers at first"
    )
    context: ChoiceEnum(CONTEXTS) = option(  # type: ignore[valid-type]
        "target",
        "what the queries of the self-attention are mixed with (sec. 3.3): target = the mean of the states "
        "so far; source = the mean of what the layer reads about the topics; none = nothing",
    )
    context_inclusive: bool = option(False, "the mean of --context target counts the present position as well")


# Small enough for a CPU.
PRESETS = {"pc_san_small": {"embed_dim": 128, "ffn_dim": 512, "decoder_layers": 2, "attention_heads": 4}}
