"""``sc_lstm``: semantically conditioned LSTM (Wen et al., EMNLP 2015, arXiv 1508.01745), keywords for dialogue acts."""

from fairseq.tasks import FairseqTask
from torch import nn

from ...modules import KeywordGate
from ..presets import register_family
from ..topics import TopicModel, initialise
from ..word_layers import word_embedding
from .config import PRESETS, ScLstmConfig
from .decoder import ScLstmDecoder
from .encoder import ScLstmEncoder


@register_family("sc_lstm", ScLstmConfig, PRESETS)
class ScLstmModel(TopicModel):
    """An LSTM language model with a vector of keywords that its cells are told of until they are read out."""

    adds_losses = True

    @classmethod
    def build(cls, cfg: ScLstmConfig, task: FairseqTask) -> "ScLstmModel":
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        decoder = ScLstmDecoder(
            dictionary,
            embed_tokens,
            lstm=nn.LSTM(cfg.embed_dim, cfg.hidden_size, cfg.num_layers, batch_first=True),
            gate=KeywordGate(embed_tokens.num_embeddings, cfg.embed_dim, cfg.num_layers, cfg.hidden_size),
            control_loss_weight=cfg.control_loss_weight,
            dropout=cfg.dropout,
        )
        model = cls(ScLstmEncoder(dictionary), decoder)
        initialise(model, cfg)
        return model
