"""``residual_lstm``: stacked residual LSTM networks for paraphrases (Prakash et al., COLING 2016, C16-1275)."""

from fairseq.tasks import FairseqTask

from ...modules import ResidualLstm
from ..base import LossModel, init_uniform_
from ..presets import register_family
from ..word_layers import build_output_layer, word_embedding
from .config import PRESETS, ResidualLstmConfig
from .decoder import ResidualLstmDecoder
from .encoder import ResidualLstmEncoder


@register_family("residual_lstm", ResidualLstmConfig, PRESETS)
class ResidualLstmModel(LossModel):
    """LSTM encoder and decoder of equal depth with residuals every few layers, and no attention."""

    encoder: ResidualLstmEncoder
    decoder: ResidualLstmDecoder

    @classmethod
    def build(cls, cfg: ResidualLstmConfig, task: FairseqTask) -> "ResidualLstmModel":
        dictionary = task.source_dictionary
        sizes = (cfg.embed_dim, cfg.hidden_size, cfg.num_layers, cfg.residual_every, cfg.dropout)
        recurrent = cfg.residual_recurrent
        source_words = word_embedding(dictionary, cfg.embed_dim)
        target_words = source_words if cfg.share_embeddings else word_embedding(dictionary, cfg.embed_dim)
        encoder = ResidualLstmEncoder(dictionary, source_words, ResidualLstm(*sizes, recurrent=recurrent))
        output = build_output_layer(cfg, cfg.hidden_size, cfg.embed_dim, dictionary)
        stack = ResidualLstm(*sizes, recurrent=recurrent)
        decoder = ResidualLstmDecoder(dictionary, target_words, stack, output)
        model = cls(encoder, decoder)
        init_uniform_(model, cfg.init_range)
        return model
