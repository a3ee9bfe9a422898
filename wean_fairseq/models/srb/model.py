"""``srb``: a summary is to be relevant to its source (Ma et al., ACL 2017, arXiv 1706.02459)."""

from typing import Any

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ...modules import BilinearAttention, GatedLstm
from ..base import LossModel, SourceEncoder
from ..presets import register_family
from ..word_layers import build_output_layer, word_embedding
from .config import SrbConfig
from .decoder import SrbDecoder


class SrbEncoder(SourceEncoder):
    """A gated LSTM over the words of the source (sec. 3.2).

    Args:
        dictionary: of the source.
        embed_tokens: the shared embedding, (V, E).
        lstm: E -> H.
        dropout: on the embeddings.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, lstm: GatedLstm, dropout: float) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.lstm = lstm
        self.dropout = nn.Dropout(dropout)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch, see ``SourceEncoder``.

        Returns:
            ``encoder_out`` (B, S, H), zero at padding; ``encoder_padding_mask`` (B, S); ``final_hidden`` and
            ``final_cell``, each (1, B, H).
        """
        padding_mask = src_tokens.eq(self.padding_idx)
        outputs, (hidden, cell) = self.lstm(self.dropout(self.embed_tokens(src_tokens)), padding_mask)
        return {
            "encoder_out": outputs,
            "encoder_padding_mask": padding_mask,
            "final_hidden": hidden.unsqueeze(0),
            "final_cell": cell.unsqueeze(0),
        }


@register_family("srb", SrbConfig)
class SrbModel(LossModel):
    """Gated LSTM encoder, LSTM decoder with attention, and the cosine of source and summary in the loss."""

    adds_losses = True
    encoder: SrbEncoder
    decoder: SrbDecoder

    @classmethod
    def build(cls, cfg: SrbConfig, task: FairseqTask) -> "SrbModel":
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        lstm = GatedLstm(cfg.embed_dim, cfg.hidden_size, str(cfg.gate_input))
        decoder = SrbDecoder(
            dictionary=dictionary,
            embed_tokens=embed_tokens,
            lstm=nn.LSTM(cfg.embed_dim, cfg.hidden_size, batch_first=True),
            attention=BilinearAttention(cfg.hidden_size, cfg.hidden_size, tanh=True, project_keys=True),
            output=build_output_layer(cfg, cfg.hidden_size, cfg.embed_dim, dictionary),
            dropout=cfg.dropout,
            dropout_input=cfg.dropout,
            relevance_weight=cfg.relevance_weight,
        )
        return cls(SrbEncoder(dictionary, embed_tokens, lstm, cfg.dropout), decoder)
