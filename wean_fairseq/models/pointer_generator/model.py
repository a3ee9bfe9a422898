"""``pointer_generator``: Get To The Point (See et al., ACL 2017, arXiv 1704.04368)."""

from fairseq.tasks import FairseqTask

from ...modules import AdditiveAttention
from ..copying import CopyingModel
from ..presets import register_family
from ..word_layers import build_output_layer, word_embedding
from .config import PRESETS, PointerGeneratorConfig
from .decoder import PointerGeneratorDecoder
from .encoder import PointerGeneratorEncoder
from .initialisation import initialise


@register_family("pointer_generator", PointerGeneratorConfig, PRESETS)
class PointerGeneratorModel(CopyingModel):
    """A bidirectional LSTM encoder, and an LSTM decoder that generates words or copies them through its attention."""

    adds_losses = True

    encoder: PointerGeneratorEncoder
    decoder: PointerGeneratorDecoder

    @classmethod
    def build(cls, cfg: PointerGeneratorConfig, task: FairseqTask) -> "PointerGeneratorModel":
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        attention = AdditiveAttention(
            2 * cfg.hidden_size, 2 * cfg.hidden_size, cfg.attention_dim, coverage=cfg.coverage, query_bias=True
        )
        output_layer = build_output_layer(cfg, cfg.hidden_size, cfg.embed_dim, dictionary)
        encoder = PointerGeneratorEncoder(dictionary, embed_tokens, cfg.hidden_size)
        decoder = PointerGeneratorDecoder(
            dictionary, embed_tokens, cfg.hidden_size, attention, output_layer, cfg.coverage_weight
        )
        model = cls(encoder, decoder)
        if str(cfg.weight_init) == "see2017":
            initialise(encoder, decoder)
        return model
