"""``wean_lstm``: WEAN, the word embedding attention network (Ma et al., NAACL 2018, arXiv 1803.01465), and Seq2seq.

The defaults are the paper's settings for PWKP and EW-SEW.

Legend: ``B`` batch, ``S`` source length, ``L`` layers, ``H`` hidden width, ``E`` embedding width, ``V`` words.
"""

from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import FairseqTask
from torch import Tensor

from ..errors import UserError
from ..fields import option
from ..modules import BRIDGES, QUERY_SCORES, BilinearAttention, QueryEmbedding, StateBridge, stacked_lstm
from .attentive_lstm import AttentiveLstmDecoder
from .base import LossModel, register_family
from .recurrent_encoders import LstmEncoder
from .word_layers import WordVectorsConfig, start_from_vectors, word_embedding


@dataclass
class WeanLstmConfig(WordVectorsConfig):
    """Options of the model. Section numbers refer to the WEAN paper."""

    embed_dim: int = option(
        256, "width of the embedding shared by encoder input, decoder input and output (sec. 2.1)", least=1
    )
    hidden_size: int = option(256, "width of encoder, decoder and query (sec. 3.1.3)", least=1)
    encoder_layers: int = option(2, "LSTM layers of the encoder (sec. 3.1.3)", least=1)
    decoder_layers: int = option(2, "LSTM layers of the decoder (sec. 3.1.3)", least=1)
    encoder_bidirectional: bool = option(
        False, "use a bidirectional encoder; outputs and states are summed over the directions"
    )
    bridge: ChoiceEnum(BRIDGES) = option(  # type: ignore[valid-type]
        "bottom", "initial decoder states: the encoder's bottom or top layers, or a linear projection"
    )
    dropout: float = option(0.4, "dropout between LSTM layers and on the query (sec. 3.1.3)")
    attention_tanh: bool = option(False, "squash the projected decoder state in the attention (authors' LCSTS setting)")
    attn_pad_leak: bool = option(False, "do not mask source padding in the attention, as in the authors' code")
    query_score: ChoiceEnum(QUERY_SCORES) = option(  # type: ignore[valid-type]
        "general", "score of a query against a word embedding (eq. 5); linear = the untied Seq2seq baseline"
    )
    query_bias: bool = option(False, "add the bias of the authors' code to the score 'general'")
    detach_query_embedding: bool = option(
        False,
        "stop the gradient from the output layer to the embeddings (ablation of the third source)",
        needs={"query_score": ("dot", "general", "concat")},
    )
    num_candidates: int = option(
        0,
        "generate only the n most frequent words and special symbols (sec. 2.4); 0 = all; "
        "other words are <unk> in training and cannot be generated",
        least=0,
    )
    loss_chunk_size: int = option(
        0, "number of tokens whose scores are in memory at a time in training; 0 = chosen by memory", least=0
    )


# Sec. 3.2.3. The paper uses 2 encoder layers and 1 decoder layer. The tanh is taken from the authors' settings for
# LCSTS.
_LCSTS = {"embed_dim": 512, "hidden_size": 512, "decoder_layers": 1, "dropout": 0.0, "attention_tanh": True}
PRESETS = {
    "wean_lstm_pwkp": {},
    "wean_lstm_ew_sew": {},
    "wean_lstm_lcsts": _LCSTS,
    "seq2seq_lstm": {"query_score": "linear"},
    "seq2seq_lstm_lcsts": {"query_score": "linear", **_LCSTS},
}


class WeanLstmEncoder(LstmEncoder):
    """An LSTM in one direction, or two LSTMs in opposite directions whose outputs and final states are added."""

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """See ``LstmEncoder``. ``D`` is 1."""
        encoded = super().forward(src_tokens)
        if not self.lstm.bidirectional:
            return encoded
        outputs = encoded["encoder_out"].unflatten(2, (2, -1)).sum(dim=2)  # type: ignore[no-untyped-call]  # (B, S, 2 H) -> (B, S, H)
        finals = {
            name: encoded[name].unflatten(0, (-1, 2)).sum(dim=1)  # type: ignore[no-untyped-call]  # (2 L, B, H) -> (L, B, H)
            for name in ("final_hidden", "final_cell")
        }
        return encoded | finals | {"encoder_out": outputs}


@register_family("wean_lstm", WeanLstmConfig, PRESETS)
class WeanLstmModel(LossModel):
    """An LSTM encoder and decoder with attention. The output layer queries the word embeddings."""

    encoder: WeanLstmEncoder
    decoder: AttentiveLstmDecoder

    @classmethod
    def build(cls, cfg: WeanLstmConfig, task: FairseqTask) -> "WeanLstmModel":
        dictionary = task.source_dictionary
        words = len(dictionary) - dictionary.nspecial
        if cfg.num_candidates > words:
            raise UserError(
                f"--num-candidates must be at most {words} (the words of the dictionary) or 0 for all, "
                f"but is {cfg.num_candidates}."
            )
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)  # N(0, 1), as in both code releases of the authors
        start_from_vectors(embed_tokens, cfg.embedding_file, dictionary)
        sizes = (cfg.embed_dim, cfg.hidden_size)
        lstm = stacked_lstm(*sizes, cfg.encoder_layers, cfg.dropout, bidirectional=cfg.encoder_bidirectional)
        decoder = AttentiveLstmDecoder(
            dictionary,
            embed_tokens,
            lstm=stacked_lstm(*sizes, cfg.decoder_layers, cfg.dropout),
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
        return cls(WeanLstmEncoder(dictionary, embed_tokens, lstm), decoder)
