"""Options and presets of ``copynet`` (Gu et al., ACL 2016). The defaults are the paper's synthetic setting."""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum

from ..presets import register_preset
from ..word_layers import OutputLayerConfig

SYSTEMS = ("copynet", "rnnsearch", "enc_dec")
CELLS = ("gru", "lstm")
READOUTS = ("state", "full")
OOV_INPUTS = ("unk", "copy")


@dataclass
class CopyNetConfig(OutputLayerConfig):
    """Section numbers are those of the CopyNet paper."""

    system: ChoiceEnum(SYSTEMS) = field(  # type: ignore[valid-type]
        default="copynet",
        metadata={
            "help": "copynet; rnnsearch = without copying and selective read; enc_dec = without attention either"
        },
    )
    embed_dim: int = field(
        default=150, metadata={"help": "width of the embedding that encoder and decoder share (sec. 5.1)"}
    )
    hidden_size: int = field(
        default=300, metadata={"help": "width of the decoder, and of each direction of the encoder (sec. 5.1)"}
    )
    attention_dim: int = field(
        default=0, metadata={"help": "hidden width of the attention; 0 = --hidden-size; the authors' code has 1000"}
    )
    cell: ChoiceEnum(CELLS) = field(  # type: ignore[valid-type]
        default="gru", metadata={"help": "recurrent cell of the decoder; the paper's is a GRU"}
    )
    dropout: float = field(default=0.0, metadata={"help": "dropout on the embeddings and on the readout"})
    readout: ChoiceEnum(READOUTS) = field(  # type: ignore[valid-type]
        default="state",
        metadata={
            "help": "what generated words are scored from: the decoder state (eq. 7), or as in the authors' code also "
            "the context, the last word and the selective read"
        },
    )
    attention_coverage: bool = field(
        default=False, metadata={"help": "let the attention see how much a position got so far (authors' code)"}
    )
    location_width: int = field(
        default=0,
        metadata={"help": "append the position of each source word, one-hot of this width; 57 in the authors' code"},
    )
    oov_input: ChoiceEnum(OOV_INPUTS) = field(  # type: ignore[valid-type]
        default="unk",
        metadata={
            "help": "what the decoder reads for a copied word outside the vocabulary: <unk>, or a learned vector"
        },
    )


def register_presets() -> None:
    """Register the archs beside ``copynet`` itself."""
    lcsts = {"embed_dim": 350, "hidden_size": 500}  # sec. 5.2
    register_preset("copynet", "rnnsearch", system="rnnsearch")
    register_preset("copynet", "enc_dec", system="enc_dec")
    register_preset("copynet", "copynet_lcsts", **lcsts)
    register_preset("copynet", "rnnsearch_lcsts", system="rnnsearch", **lcsts)
    register_preset("copynet", "enc_dec_lcsts", system="enc_dec", **lcsts)
    # Of the authors' released configurations, for LCSTS and for the synthetic task, what has a switch here.
    release = {"attention_dim": 1000, "readout": "full", "attention_coverage": True}
    register_preset("copynet", "copynet_lcsts_release", embed_dim=500, hidden_size=750, **release)
    register_preset("copynet", "copynet_release", location_width=57, **release)
