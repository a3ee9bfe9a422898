"""``wean_lstm``: WEAN, the word embedding attention network (Ma et al., NAACL 2018, arXiv 1803.01465)."""

from typing import Any

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ...errors import UserError
from ...modules import BilinearAttention, QueryEmbedding, StateBridge
from ..attentive_lstm import AttentiveLstmDecoder
from ..base import LossModel
from ..presets import register_family
from .config import PRESETS, WeanLstmConfig
from .encoder import WeanLstmEncoder


@register_family("wean_lstm", WeanLstmConfig, PRESETS)
class WeanLstmModel(LossModel):
    """LSTM encoder and decoder with attention, and an output layer that queries the word embeddings."""

    encoder: WeanLstmEncoder
    decoder: AttentiveLstmDecoder

    @classmethod
    def build(cls, cfg: WeanLstmConfig, task: FairseqTask) -> "WeanLstmModel":
        _check_candidates(cfg.num_candidates, task.source_dictionary)
        dictionary = task.source_dictionary
        # N(0, 1), PyTorch's default, is what both releases of the authors train from.
        embed_tokens = nn.Embedding(len(dictionary), cfg.embed_dim, dictionary.pad())
        encoder = WeanLstmEncoder(
            dictionary, embed_tokens, cfg.hidden_size, cfg.encoder_layers, cfg.dropout, cfg.encoder_bidirectional
        )
        decoder = AttentiveLstmDecoder(
            dictionary,
            embed_tokens,
            lstm=nn.LSTM(
                cfg.embed_dim,
                cfg.hidden_size,
                cfg.decoder_layers,
                batch_first=True,
                dropout=cfg.dropout if cfg.decoder_layers > 1 else 0.0,
            ),
            bridge=StateBridge(str(cfg.bridge), cfg.encoder_layers, cfg.decoder_layers, cfg.hidden_size),
            attention=BilinearAttention(cfg.hidden_size, cfg.hidden_size, tanh=cfg.attention_tanh),
            output=QueryEmbedding(
                str(cfg.query_score),
                cfg.hidden_size,
                cfg.embed_dim,
                len(dictionary),
                unk_index=dictionary.unk(),
                bias=cfg.query_bias,
                detach=cfg.detach_query_embedding,
                num_candidates=cfg.num_candidates + dictionary.nspecial if cfg.num_candidates else None,
                chunk_size=cfg.loss_chunk_size or None,
            ),
            dropout=cfg.dropout,
            attn_pad_leak=cfg.attn_pad_leak,
        )
        return cls(encoder, decoder)

    def get_targets(self, sample: dict[str, Any], net_output: Any) -> Tensor:
        """Targets (B, T) for fairseq's own criterions: a word that is no candidate counts as ``<unk>``."""
        return self.decoder.output.known_targets(sample["target"])


def _check_candidates(num_candidates: int, dictionary: Dictionary) -> None:
    words = len(dictionary) - dictionary.nspecial
    if not 0 <= num_candidates <= words:
        raise UserError(
            f"--num-candidates must be at most {words} (the words of the dictionary) or 0 for all, "
            f"but is {num_candidates}."
        )
