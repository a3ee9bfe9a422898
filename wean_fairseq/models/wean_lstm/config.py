"""Options and presets of ``wean_lstm`` (Ma et al., NAACL 2018). The defaults are the paper's PWKP / EW-SEW setting."""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from ...fields import option
from ...modules import BRIDGES, QUERY_SCORES


@dataclass
class WeanLstmConfig(FairseqDataclass):
    """Section numbers are those of the WEAN paper."""

    embed_dim: int = option(
        256, "width of the one embedding that encoder input, decoder input and output share (sec. 2.1)", least=1
    )
    hidden_size: int = option(256, "width of encoder, decoder and query (sec. 3.1.3)", least=1)
    encoder_layers: int = option(2, "LSTM layers of the encoder (sec. 3.1.3)", least=1)
    decoder_layers: int = option(2, "LSTM layers of the decoder (sec. 3.1.3)", least=1)
    encoder_bidirectional: bool = option(False, "read the source in both directions and sum outputs and states")
    bridge: ChoiceEnum(BRIDGES) = option(  # type: ignore[valid-type]
        "bottom", "which final encoder states start the decoder: its bottom or top layers, or a projection"
    )
    dropout: float = option(0.4, "dropout between LSTM layers and on the query (sec. 3.1.3)")
    attention_tanh: bool = option(False, "squash the projected decoder state in the attention (authors' LCSTS setting)")
    attn_pad_leak: bool = option(False, "let source padding take attention, as the authors' release does")
    query_score: ChoiceEnum(QUERY_SCORES) = option(  # type: ignore[valid-type]
        "general", "score of a query against a word embedding (eq. 5); linear = the untied Seq2seq baseline"
    )
    query_bias: bool = option(False, "add the bias of the authors' release to the score 'general'")
    detach_query_embedding: bool = option(
        False, "no gradient from the output layer to the embeddings (third source ablated)"
    )
    num_candidates: int = option(
        0,
        "generate only the n most frequent words, special symbols apart (sec. 2.4); 0 = all; "
        "another word counts as <unk> in training and cannot be scored or forced in decoding",
        least=0,
    )
    loss_chunk_size: int = option(
        0, "tokens whose scores are held at a time in training; 0 = chosen by memory", least=0
    )


# Sec. 3.2.3; 2 encoder and 1 decoder layers are the paper's, the tanh is in the authors' LCSTS setting.
_LCSTS = {"embed_dim": 512, "hidden_size": 512, "decoder_layers": 1, "dropout": 0.0, "attention_tanh": True}
PRESETS = {
    "wean_lstm_pwkp": {},
    "wean_lstm_ew_sew": {},
    "wean_lstm_lcsts": _LCSTS,
    "seq2seq_lstm": {"query_score": "linear"},
    "seq2seq_lstm_lcsts": {"query_score": "linear", **_LCSTS},
}
