"""``dnpg``: decomposable neural paraphrase generation (Li et al., ACL 2019, arXiv 1906.09741).

Legend: ``B`` batch, ``S`` source length, ``T`` target length, ``D_0``, ``D_1`` widths of the phrase and the sentence
level.
"""

from dataclasses import replace
from typing import Any

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor

from ...modules import (
    DecoderLayer,
    EmbeddedLevel,
    EncoderLayer,
    FractionalEmbedding,
    Level,
    LevelAggregator,
    LevelsDecoder,
    LevelsEncoder,
    LevelSeparator,
    init_transformer,
)
from ..base import SourceEncoder, register_family
from ..copying import CopyingModel
from ..word_layers import word_embedding
from .annealing import Annealing
from .config import DnpgConfig
from .decoder import DnpgDecoder


class DnpgEncoder(SourceEncoder):
    """Labels every word, with the temperature and noise of ``annealing``, and encodes the source for both levels."""

    def __init__(self, dictionary: Dictionary, network: LevelsEncoder, annealing: Annealing) -> None:
        super().__init__(dictionary)
        self.network = network
        self.annealing = annealing

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        source_labels: Tensor | None = None,
        target_labels: Tensor | None = None,
        **_unused: Any,
    ) -> dict[str, Tensor]:
        """Encode a batch.

        Args:
            source_labels: weak labels for the loss, of shape (B, S). They are the levels of the source words, 0 or 1,
                and negative at padding.
            target_labels: weak labels of the target words, (B, T).

        Returns:
            A dictionary with ``phrase_states`` (B, S, D_0), ``sentence_states`` (B, S, D_1), ``labels`` and
            ``expected_labels`` (B, S, 2) (see ``Labels``), ``encoder_padding_mask`` (B, S) and, unchanged,
            ``src_tokens`` and both weak labels.
        """
        padding_mask = src_tokens.eq(self.dictionary.pad())
        encoded = self.network(
            self.known_words(src_tokens),
            padding_mask,
            self.annealing.temperature,
            noisy=self.annealing.noisy,
        )
        weak = {"source_labels": source_labels, "target_labels": target_labels}
        return {
            **{name: labels for name, labels in weak.items() if labels is not None},
            "phrase_states": encoded.phrase,
            "sentence_states": encoded.sentence,
            "labels": encoded.labels.used,
            "expected_labels": encoded.labels.expected,
            "encoder_padding_mask": padding_mask,
            "src_tokens": src_tokens,
        }


@register_family("dnpg", DnpgConfig)
class DnpgModel(CopyingModel):
    """A separator of levels, an encoder and a decoder for each level, and an aggregator of the levels' words."""

    capabilities = replace(CopyingModel.capabilities, adds_losses=True, inputs=("source_labels", "target_labels"))

    encoder: DnpgEncoder
    decoder: DnpgDecoder

    @classmethod
    def build(cls, cfg: DnpgConfig, task: FairseqTask) -> "DnpgModel":
        dictionary, annealing = task.source_dictionary, Annealing(cfg)
        levels = _build_levels(cfg, EncoderLayer, cfg.encoder_layers)
        separator = LevelSeparator(word_embedding(dictionary, cfg.separator_dim), cfg.separator_dim)
        phrase, sentence = _embed(levels, cfg, dictionary)
        encoder = LevelsEncoder(separator, phrase, sentence, cfg.window)
        levels = _build_levels(cfg, DecoderLayer, cfg.decoder_layers)
        phrase, sentence = _embed(levels, cfg, dictionary)
        aggregator = LevelAggregator(2 * cfg.phrase_dim + cfg.sentence_dim, cfg.aggregator_dim)
        decoder = LevelsDecoder(phrase, sentence, aggregator, cfg.window)
        return cls(
            DnpgEncoder(dictionary, encoder, annealing),
            DnpgDecoder(dictionary, decoder, annealing, cfg),
        )


def _build_levels(cfg: DnpgConfig, layer: type[EncoderLayer | DecoderLayer], count: int) -> list[Level]:
    levels = [
        Level(layer(dim, heads, cfg.ffn_factor * dim, cfg.dropout, cfg.attention_dropout) for _ in range(count))
        for dim, heads in ((cfg.phrase_dim, cfg.phrase_heads), (cfg.sentence_dim, cfg.sentence_heads))
    ]
    for level in levels:
        init_transformer(level)
    return levels


def _embed(levels: list[Level], cfg: DnpgConfig, dictionary: Dictionary) -> list[EmbeddedLevel]:
    return [
        EmbeddedLevel(FractionalEmbedding(word_embedding(dictionary, dim), cfg.dropout), level)
        for level, dim in zip(levels, (cfg.phrase_dim, cfg.sentence_dim), strict=True)
    ]
