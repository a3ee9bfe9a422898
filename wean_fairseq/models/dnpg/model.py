"""``dnpg``: decomposable neural paraphrase generation (Li et al., ACL 2019, arXiv 1906.09741)."""

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask

from ...modules import (
    DecoderLayer,
    DecoderLevel,
    EncoderLayer,
    EncoderLevel,
    FractionalEmbedding,
    LevelAggregator,
    LevelsDecoder,
    LevelsEncoder,
    LevelSeparator,
    init_transformer,
)
from ..copying import CopyingModel
from ..presets import register_family
from ..word_layers import build_output_layer, word_embedding
from .annealing import Annealing
from .config import DnpgConfig
from .decoder import DnpgDecoder
from .encoder import DnpgEncoder


@register_family("dnpg", DnpgConfig)
class DnpgModel(CopyingModel):
    """A separator of levels, an encoder and a decoder for each, and an aggregator of what they write."""

    adds_losses = True

    encoder: DnpgEncoder
    decoder: DnpgDecoder

    @classmethod
    def build(cls, cfg: DnpgConfig, task: FairseqTask) -> "DnpgModel":
        annealing = Annealing(cfg)
        return cls(
            _build_encoder(cfg, task.source_dictionary, annealing),
            _build_decoder(cfg, task.source_dictionary, annealing),
        )


def _build_encoder(cfg: DnpgConfig, dictionary: Dictionary, annealing: Annealing) -> DnpgEncoder:
    phrase, sentence = (
        EncoderLevel(EncoderLayer(*sizes) for _ in range(cfg.encoder_layers)) for sizes in _layer_sizes(cfg)
    )
    init_transformer(phrase)
    init_transformer(sentence)
    network = LevelsEncoder(
        LevelSeparator(word_embedding(dictionary, cfg.separator_dim), cfg.separator_dim),
        FractionalEmbedding(word_embedding(dictionary, cfg.phrase_dim), cfg.dropout),
        phrase,
        FractionalEmbedding(word_embedding(dictionary, cfg.sentence_dim), cfg.dropout),
        sentence,
        cfg.window,
    )
    return DnpgEncoder(dictionary, network, annealing, cfg.noisy_inference)


def _build_decoder(cfg: DnpgConfig, dictionary: Dictionary, annealing: Annealing) -> DnpgDecoder:
    phrase, sentence = (
        DecoderLevel(DecoderLayer(*sizes) for _ in range(cfg.decoder_layers)) for sizes in _layer_sizes(cfg)
    )
    init_transformer(phrase)
    init_transformer(sentence)
    network = LevelsDecoder(
        FractionalEmbedding(word_embedding(dictionary, cfg.phrase_dim), cfg.dropout),
        phrase,
        FractionalEmbedding(word_embedding(dictionary, cfg.sentence_dim), cfg.dropout),
        sentence,
        LevelAggregator(2 * cfg.phrase_dim + cfg.sentence_dim, cfg.aggregator_dim),
        cfg.window,
    )
    return DnpgDecoder(
        dictionary,
        network,
        build_output_layer(cfg, cfg.phrase_dim, cfg.phrase_dim, dictionary),
        build_output_layer(cfg, cfg.sentence_dim, cfg.sentence_dim, dictionary),
        annealing,
        reads_weak_labels=str(cfg.decoder_labels) == "weak",
        noisy_inference=cfg.noisy_inference,
    )


def _layer_sizes(cfg: DnpgConfig) -> list[tuple[int, int, int, float, float]]:
    """The arguments of a layer of each level."""
    levels = ((cfg.phrase_dim, cfg.phrase_heads), (cfg.sentence_dim, cfg.sentence_heads))
    return [(dim, heads, cfg.ffn_factor * dim, cfg.dropout, cfg.attention_dropout) for dim, heads in levels]
