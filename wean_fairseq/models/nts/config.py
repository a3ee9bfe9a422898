"""Options and presets of ``nts``. The defaults are the setting of NTS (Nisioi et al., ACL 2017, section 2)."""

from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum

from ...fields import option
from ...modules.input_feeding import GLOBAL_SCORES
from ..word_layers import OutputLayerConfig


@dataclass
class NtsConfig(OutputLayerConfig):
    """Options of the model. Section numbers refer to NTS. The options of the output layer are those of all families."""

    embed_dim: int = option(500, "width of the word embeddings (sec. 2)", least=1)
    hidden_size: int = option(500, "units of every layer, and of the attention (sec. 2)", least=1)
    num_layers: int = option(2, "LSTM layers of the encoder, and of the decoder (sec. 2)", least=1)
    attention_score: ChoiceEnum(GLOBAL_SCORES) = option(  # type: ignore[valid-type]
        "general", "score of a source position: general = h_t W_a h_i (sec. 2), dot = h_t h_i"
    )
    dropout: float = option(0.3, "dropout between layers and on the attentional state (sec. 2, OpenNMT)")
    dropout_input: bool = option(
        False, "also apply dropout to all inputs of the first layers, including the fed state (authors of EncDecA)"
    )
    reverse_source: bool = option(False, "read the source from its end to its start (authors of EncDecA)")
    init_range: float = option(0.1, "initialise weights uniformly in [-x, x] (sec. 2); 0 = PyTorch's defaults", least=0)
    global_vectors: Optional[str] = option(  # fairseq cannot read `str | None`
        None,
        "file of initial word vectors (GloVe or word2vec text) for both embeddings (sec. 2.1)",
        reads_file=True,
    )
    local_source_vectors: Optional[str] = option(
        None,
        "file of initial vectors for the last --local-dim dimensions of the encoder's words (sec. 2.1)",
        reads_file=True,
    )
    local_target_vectors: Optional[str] = option(
        None,
        "file of initial vectors for the last --local-dim dimensions of the decoder's words (sec. 2.1)",
        reads_file=True,
    )
    local_dim: int = option(
        0, "number of the --embed-dim dimensions that are local vectors (sec. 2.1: 200); 0 = none", least=0
    )
    missing_vector_std: float = option(
        0.0,
        "initialise words that are missing in --global-vectors from N(0, x) (sec. 2.1: 0.9); "
        "0 = initialise them like other weights",
        least=0,
    )
    freeze_vectors: bool = option(
        False,
        "do not train the words in --global-vectors (authors of EncDecA); --weight-decay would still shrink them",
    )
    lexical_dim: int = option(
        0, "width of the embedding and of the layers of an additional lexical model (DRESS-LS); 0 = none", least=0
    )
    lexical_share: float = option(
        0.1,
        "share of the lexical model in the log-probabilities from the second word on (authors of DRESS-LS)",
        least=0,
    )
    base_checkpoint: Optional[str] = option(
        None,
        "checkpoint of the base model, trained with the same options except those of the lexical model: the base is "
        "frozen and only the lexical model is trained, by its own loss; without it, the whole mixture is trained",
        reads_file=True,
    )


# Zhang and Lapata (EMNLP 2017), in the settings of their code for WikiLarge.
_SIZES = {"embed_dim": 300, "hidden_size": 256, "attention_score": "dot", "dropout": 0.2}
_ENC_DEC_A = {**_SIZES, "dropout_input": True, "reverse_source": True}
PRESETS = {
    "nts_w2v": {"local_dim": 200, "missing_vector_std": 0.9},
    "enc_dec_a": _ENC_DEC_A,
    "dress_ls": {**_ENC_DEC_A, "lexical_dim": 256},
}
