"""Options and presets of ``copynet`` (Gu et al., ACL 2016). The defaults are the paper's synthetic setting."""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum

from ...fields import option
from ..word_layers import OutputLayerConfig

SYSTEMS = ("copynet", "rnnsearch", "enc_dec")
CELLS = ("gru", "lstm")
READOUTS = ("state", "full")
OOV_INPUTS = ("unk", "copy")


@dataclass
class CopyNetConfig(OutputLayerConfig):
    """Section numbers are those of the CopyNet paper."""

    system: ChoiceEnum(SYSTEMS) = option(  # type: ignore[valid-type]
        "copynet", "copynet; rnnsearch = without copying and selective read; enc_dec = without attention either"
    )
    embed_dim: int = option(150, "width of the embedding that encoder and decoder share (sec. 5.1)", least=1)
    hidden_size: int = option(300, "width of the decoder, and of each direction of the encoder (sec. 5.1)", least=1)
    attention_dim: int = option(
        0, "hidden width of the attention; 0 = --hidden-size; the authors' code has 1000", least=0
    )
    cell: ChoiceEnum(CELLS) = option("gru", "recurrent cell of the decoder; the paper's is a GRU")  # type: ignore[valid-type]
    dropout: float = option(0.0, "dropout on the embeddings and on the readout")
    readout: ChoiceEnum(READOUTS) = option(  # type: ignore[valid-type]
        "state",
        "what generated words are scored from: the decoder state (eq. 7), or as in the authors' code also "
        "the context, the last word and the selective read",
    )
    attention_coverage: bool = option(False, "let the attention see how much a position got so far (authors' code)")
    location_width: int = option(
        0, "append the position of each source word, one-hot of this width; 57 in the authors' code", least=0
    )
    oov_input: ChoiceEnum(OOV_INPUTS) = option(  # type: ignore[valid-type]
        "unk", "what the decoder reads for a copied word outside the vocabulary: <unk>, or a learned vector"
    )


_LCSTS = {"embed_dim": 350, "hidden_size": 500}  # sec. 5.2
# Of the authors' released configurations, for LCSTS and for the synthetic task, what has a switch here.
_RELEASE = {"attention_dim": 1000, "readout": "full", "attention_coverage": True}
PRESETS = {
    "rnnsearch": {"system": "rnnsearch"},
    "enc_dec": {"system": "enc_dec"},
    "copynet_lcsts": _LCSTS,
    "rnnsearch_lcsts": {"system": "rnnsearch", **_LCSTS},
    "enc_dec_lcsts": {"system": "enc_dec", **_LCSTS},
    "copynet_lcsts_release": {"embed_dim": 500, "hidden_size": 750, **_RELEASE},
    "copynet_release": {"location_width": 57, **_RELEASE},
}
