"""``nts``: NTS (Nisioi et al., ACL 2017, P17-2014), and EncDecA (Zhang and Lapata, EMNLP 2017, D17-1062)."""

from fairseq.tasks import FairseqTask
from torch import nn

from ...errors import UserError
from ...modules.global_attention import GlobalAttention
from ...modules.input_feeding import InputFeedingLstm
from ..base import LossModel, init_uniform_
from ..presets import register_family
from ..word_layers import build_output_layer
from .config import PRESETS, NtsConfig
from .decoder import NtsDecoder
from .embedding import VectorFiles, WordEmbedding, start_from_files
from .encoder import NtsEncoder


@register_family("nts", NtsConfig, PRESETS)
class NtsModel(LossModel):
    """LSTM encoder; LSTM decoder with global attention and input feeding; a word embedding for each of them."""

    encoder: NtsEncoder
    decoder: NtsDecoder

    @classmethod
    def build(cls, cfg: NtsConfig, task: FairseqTask) -> "NtsModel":
        _check_vectors(cfg)
        model = _build(cls, cfg, task)
        init_uniform_(model, cfg.init_range)
        sides = (
            (model.encoder.embed_tokens, cfg.local_source_vectors),
            (model.decoder.embed_tokens, cfg.local_target_vectors),
        )
        for words, local in sides:
            assert isinstance(words, WordEmbedding)
            files = VectorFiles(cfg.global_vectors, local, cfg.local_dim, cfg.missing_vector_std)
            start_from_files(words, files, task.source_dictionary)
        return model


def _check_vectors(cfg: NtsConfig) -> None:
    """Refuse widths that do not go with the files of vectors.

    Raises:
        UserError: saying what to do.
    """
    local = cfg.local_source_vectors or cfg.local_target_vectors
    if local and not 0 < cfg.local_dim <= cfg.embed_dim:
        raise UserError(
            f"--local-source-vectors and --local-target-vectors need --local-dim, their width, from 1 to the "
            f"{cfg.embed_dim} of --embed-dim, but it is {cfg.local_dim}."
        )
    if cfg.global_vectors and cfg.local_dim >= cfg.embed_dim:
        raise UserError(
            f"--local-dim {cfg.local_dim} leaves nothing of --embed-dim {cfg.embed_dim} to --global-vectors: "
            "make the embeddings wider."
        )
    if cfg.freeze_vectors and local:
        raise UserError("--freeze-vectors is for --global-vectors alone: leave the local vectors out.")
    if cfg.freeze_vectors and str(cfg.output_layer) == "query_embedding":
        raise UserError(
            "--freeze-vectors keeps words as they are, but --output-layer query_embedding trains them: "
            "use one of the two."
        )


def _build(cls: type[NtsModel], cfg: NtsConfig, task: FairseqTask) -> NtsModel:
    dictionary, width, hidden = task.source_dictionary, cfg.embed_dim, cfg.hidden_size
    on_input = cfg.dropout if cfg.dropout_input else 0.0
    between = cfg.dropout if cfg.num_layers > 1 else 0.0
    source_words, target_words = (WordEmbedding(dictionary, width, keeps_words=cfg.freeze_vectors) for _ in range(2))
    encoder = NtsEncoder(
        dictionary,
        source_words,
        lstm=nn.LSTM(width, hidden, cfg.num_layers, batch_first=True, dropout=between),
        dropout=on_input,
        reverse=cfg.reverse_source,
    )
    attention = GlobalAttention(str(cfg.attention_score), hidden)
    decoder = NtsDecoder(
        dictionary,
        target_words,
        stack=InputFeedingLstm(width, hidden, cfg.num_layers, attention, cfg.dropout, dropout_input=cfg.dropout_input),
        output=build_output_layer(cfg, hidden, width, dictionary),
        dropout=on_input,
    )
    return cls(encoder, decoder)
