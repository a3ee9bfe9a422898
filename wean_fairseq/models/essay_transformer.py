"""PC-SAN's baseline: fairseq's Transformer with 6 + 6 layers and the other sizes of PC-SAN's decoder.

It reads only the topic words. The paper states the number of layers. Post-norm, sinusoidal positions and ReLU follow
Vaswani et al. (NeurIPS 2017), because the paper does not state them. As in ``pc_san``, topics, essay and output share
one embedding.
"""

from argparse import Namespace
from typing import Any

from fairseq.models import register_model_architecture
from fairseq.models.transformer import base_architecture

from .base import set_defaults

FULL = {"embed_dim": 768, "ffn_embed_dim": 3072, "layers": 6, "attention_heads": 8}
SMALL = {"embed_dim": 128, "ffn_embed_dim": 512, "layers": 2, "attention_heads": 4}


def register_baseline(name: str, sizes: dict[str, int]) -> None:
    """Register the arch ``name``, which is fairseq's ``transformer`` with ``sizes`` in encoder and decoder."""
    values: dict[str, Any] = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in sizes.items()}
    values |= {"dropout": 0.1, "attention_dropout": 0.1, "share_all_embeddings": True}

    def apply(args: Namespace) -> None:
        set_defaults(values, args)
        base_architecture(args)

    register_model_architecture("transformer", name)(apply)


register_baseline("essay_transformer", FULL)
register_baseline("essay_transformer_small", SMALL)
