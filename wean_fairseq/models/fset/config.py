"""Options of ``fset`` (Kazemnejad et al., ACL 2020). The defaults are the sizes of its authors' research code."""

from dataclasses import dataclass

from ...fields import option
from ..transformer import TransformerConfig


@dataclass
class FsetConfig(TransformerConfig):
    """The Transformer's options, and those of the edits."""

    embed_dim: int = option(128, "width of embeddings and encoder states", least=1)
    ffn_dim: int = option(512, "inner width of the feed-forward parts", least=1)
    encoder_layers: int = option(6, "layers of the encoder", least=1)
    decoder_layers: int = option(6, "layers of the decoder", least=1)
    attention_heads: int = option(
        8, "heads of every attention; must divide --embed-dim, and its sum with --edit-dim", least=1
    )
    dropout: float = option(0.3, "dropout on embeddings, on the edit vector and on the output of every part")
    attention_dropout: float = option(0.3, "dropout on attention weights")
    edit_layers: int = option(4, "layers of the encoder and of the decoder that compare the retrieved pair", least=1)
    edit_dim: int = option(128, "width of the edit vector", least=1)
    micro_dim: int = option(64, "width of a micro edit vector", least=1)
    pair_symbol: str = option(
        "<pair>",
        "the word between a sentence, the similar one and its paraphrase, as preprocess/retrieve_pairs.py writes it",
    )
