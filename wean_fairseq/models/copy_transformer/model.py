"""``copy_transformer``: the Transformer of the C-DNPG table, with and without copying."""

from fairseq.data import Dictionary
from fairseq.models import register_model
from fairseq.tasks import FairseqTask

from ...errors import UserError, user_errors
from ...modules import (
    DecoderLayer,
    EncoderLayer,
    PositionedEmbedding,
    QueryEmbedding,
    TiedOutput,
    TransformerDecoder,
    TransformerEncoder,
    init_transformer,
)
from ..checks import check_joined
from ..copying import CopyingModel, build_output_layer, embedding, num_base_words
from .config import CopyTransformerConfig, register_presets
from .decoder import CopyTransformerDecoder, GateDecoder, PlainDecoder, SharedSoftmaxDecoder
from .encoder import CopyTransformerEncoder

DECODERS: dict[str, type[CopyTransformerDecoder]] = {
    "gate": GateDecoder,
    "shared-softmax": SharedSoftmaxDecoder,
    "none": PlainDecoder,
}


@register_model("copy_transformer", dataclass=CopyTransformerConfig)
class CopyTransformerModel(CopyingModel):
    """A Transformer that generates and copies; with ``--copy-mode none`` the same network without copying."""

    encoder: CopyTransformerEncoder
    decoder: CopyTransformerDecoder

    @classmethod
    def build_model(cls, cfg: CopyTransformerConfig, task: FairseqTask) -> "CopyTransformerModel":
        """Build the model that ``cfg`` describes for the dictionary of ``task``.

        Raises:
            UserError: if the options contradict each other or the task.
        """
        check_joined(task, "copy_transformer")
        for name in ("embed_dim", "ffn_dim", "encoder_layers", "decoder_layers", "attention_heads", "max_positions"):
            if getattr(cfg, name) < 1:
                raise UserError(f"--{name.replace('_', '-')} must be at least 1, but is {getattr(cfg, name)}.")
        with user_errors():
            return _build(cls, cfg, task.source_dictionary)


def _build(cls: type[CopyTransformerModel], cfg: CopyTransformerConfig, dictionary: Dictionary) -> CopyTransformerModel:
    layer = (cfg.embed_dim, cfg.attention_heads, cfg.ffn_dim, cfg.dropout, cfg.attention_dropout)
    source_words = embedding(dictionary, cfg.embed_dim)
    target_words = source_words if cfg.share_embeddings else embedding(dictionary, cfg.embed_dim)
    encoder = TransformerEncoder(
        PositionedEmbedding(source_words, cfg.max_positions, cfg.dropout),
        [EncoderLayer(*layer) for _ in range(cfg.encoder_layers)],
    )
    decoder = TransformerDecoder(
        PositionedEmbedding(target_words, cfg.max_positions, cfg.dropout),
        [DecoderLayer(*layer) for _ in range(cfg.decoder_layers)],
    )
    output_layer = _output_layer(cfg, dictionary)
    for part in (encoder, decoder, output_layer):  # before what copies: a seed starts all modes from the same network
        init_transformer(part)
    return cls(
        CopyTransformerEncoder(dictionary, encoder, cfg.max_positions),
        DECODERS[str(cfg.copy_mode)](dictionary, decoder, output_layer, cfg.max_positions),
    )


def _output_layer(cfg: CopyTransformerConfig, dictionary: Dictionary) -> TiedOutput | QueryEmbedding:
    if str(cfg.output_layer) == "linear":
        return TiedOutput(cfg.embed_dim, num_base_words(dictionary))
    return build_output_layer(cfg, cfg.embed_dim, cfg.embed_dim, dictionary)


register_presets()
