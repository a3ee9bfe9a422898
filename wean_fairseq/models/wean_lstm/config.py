"""Options and presets of ``wean_lstm`` (Ma et al., NAACL 2018). The defaults are the paper's PWKP / EW-SEW setting."""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from ...modules import BRIDGES, QUERY_SCORES
from ..presets import register_preset


@dataclass
class WeanLstmConfig(FairseqDataclass):
    """Section numbers are those of the WEAN paper."""

    embed_dim: int = field(
        default=256,
        metadata={"help": "width of the one embedding that encoder input, decoder input and output share (sec. 2.1)"},
    )
    hidden_size: int = field(default=256, metadata={"help": "width of encoder, decoder and query (sec. 3.1.3)"})
    encoder_layers: int = field(default=2, metadata={"help": "LSTM layers of the encoder (sec. 3.1.3)"})
    decoder_layers: int = field(default=2, metadata={"help": "LSTM layers of the decoder (sec. 3.1.3)"})
    encoder_bidirectional: bool = field(
        default=False, metadata={"help": "read the source in both directions and sum outputs and states"}
    )
    bridge: ChoiceEnum(BRIDGES) = field(  # type: ignore[valid-type]
        default="bottom",
        metadata={"help": "which final encoder states start the decoder: its bottom or top layers, or a projection"},
    )
    dropout: float = field(default=0.4, metadata={"help": "dropout between LSTM layers and on the query (sec. 3.1.3)"})
    attention_tanh: bool = field(
        default=False, metadata={"help": "squash the projected decoder state in the attention (authors' LCSTS setting)"}
    )
    attn_pad_leak: bool = field(
        default=False, metadata={"help": "let source padding take attention, as the authors' release does"}
    )
    query_score: ChoiceEnum(QUERY_SCORES) = field(  # type: ignore[valid-type]
        default="general",
        metadata={"help": "score of a query against a word embedding (eq. 5); linear = the untied Seq2seq baseline"},
    )
    query_bias: bool = field(
        default=False, metadata={"help": "add the bias of the authors' release to the score 'general'"}
    )
    detach_query_embedding: bool = field(
        default=False, metadata={"help": "no gradient from the output layer to the embeddings (third source ablated)"}
    )
    num_candidates: int = field(
        default=0,
        metadata={
            "help": "generate only the n most frequent words, special symbols apart (sec. 2.4); 0 = all; "
            "another word counts as <unk> in training and cannot be scored or forced in decoding"
        },
    )
    loss_chunk_size: int = field(
        default=0, metadata={"help": "tokens whose scores are held at a time in training; 0 = chosen by memory"}
    )


def register_presets() -> None:
    """Register the archs beside ``wean_lstm`` itself."""
    # Sec. 3.2.3; 2 encoder and 1 decoder layers are the paper's, the tanh is in the authors' LCSTS setting.
    lcsts = {"embed_dim": 512, "hidden_size": 512, "decoder_layers": 1, "dropout": 0.0, "attention_tanh": True}
    register_preset("wean_lstm", "wean_lstm_pwkp")
    register_preset("wean_lstm", "wean_lstm_ew_sew")
    register_preset("wean_lstm", "wean_lstm_lcsts", **lcsts)
    register_preset("wean_lstm", "seq2seq_lstm", query_score="linear")
    register_preset("wean_lstm", "seq2seq_lstm_lcsts", query_score="linear", **lcsts)
