"""``fset``: rewrite a sentence in the way that a similar sentence was rewritten (Kazemnejad et al., ACL 2020).

The defaults are the sizes of the authors' research code.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``X`` length of the sentence in the
source, ``P`` length of the longer side of the retrieved pair, ``D`` width, ``Z`` and ``M`` widths of edit and micro
edit vectors.
"""

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor

from ..errors import user_errors
from ..fields import option
from ..modules import (
    DecoderLayer,
    EditedDecoder,
    EditedDecoderLayer,
    EditProvider,
    Edits,
    EncoderLayer,
    Step,
    TransformerEncoder,
    init_transformer,
    repeat_for_hypotheses,
    split_pairs,
)
from ..modules.transformer_decoder import DecoderState
from .base import LossModel, register_family
from .transformer import (
    TransformerConfig,
    TransformerMemory,
    TransformerSourceEncoder,
    TransformerTargetDecoder,
    build_network,
)
from .word_layers import required_word


@dataclass
class FsetConfig(TransformerConfig):
    """Options of the Transformer and of the edits."""

    embed_dim: int = option(128, "width of embeddings and encoder states", least=1)
    ffn_dim: int = option(512, "inner width of the feed-forward sublayers", least=1)
    encoder_layers: int = option(6, "layers of the encoder", least=1)
    decoder_layers: int = option(6, "layers of the decoder", least=1)
    attention_heads: int = option(
        8, "heads of every attention; must divide --embed-dim, and its sum with --edit-dim", least=1
    )
    dropout: float = option(0.3, "dropout on embeddings, on the edit vector and on the output of every sublayer")
    attention_dropout: float = option(0.3, "dropout on attention weights")
    edit_layers: int = option(4, "layers of the encoder and of the decoder that compare the retrieved pair", least=1)
    edit_dim: int = option(128, "width of the edit vector", least=1)
    micro_dim: int = option(64, "width of a micro edit vector", least=1)
    pair_symbol: str = option(
        "<pair>",
        "word that separates sentence, similar sentence and paraphrase in the output of preprocess/retrieve_pairs.py",
    )


logger = logging.getLogger(__name__)


class FsetEncoder(TransformerSourceEncoder):
    """Split a source into the sentence and the retrieved pair, encode the sentence, and compute edits from the pair.

    Args:
        network: network for the sentence. The encoder of the pair shares its embedding.
        separator: id of the word between the segments.
    """

    def __init__(
        self, dictionary: Dictionary, network: TransformerEncoder, provider: EditProvider, separator: int
    ) -> None:
        super().__init__(dictionary, network)
        self.provider = provider
        self.separator = separator
        self.said = False  # True after a warning about sources without a complete pair has been logged

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch, see ``SourceEncoder``.

        Returns:
            ``encoder_out`` (B, X, D); ``encoder_padding_mask`` (B, X), ``True`` at padding; ``place`` (B, X), positions
            of the sentence's tokens in the source; ``src_tokens`` unchanged; and the fields of ``Edits``, named
            ``edit_*``.

        Raises:
            UserError: if a segment of the source is longer than the model allows.
        """
        paired = split_pairs(src_tokens, self.padding_idx, self.dictionary.eos(), self.separator)
        if paired.unpaired and not self.said:
            self.said = True
            symbol = self.dictionary[self.separator]
            logger.warning(
                f"a source is not a sentence with one pair, x {symbol} p {symbol} q: missing parts are read as empty, "
                "and a fourth part is ignored. preprocess/retrieve_pairs.py writes sources with pairs."
            )
        encoded = super().forward(paired.sentence)
        with user_errors():
            edits = self.provider(paired.p, paired.q, self.network.embedding)
        edits_by_name = {f"edit_{name}": field for name, field in edits._asdict().items()}
        return encoded | edits_by_name | {"place": paired.place, "src_tokens": src_tokens}

    def max_positions(self) -> int:
        """Return the maximum number of tokens of a source, which has three segments."""
        return 3 * super().max_positions()


@dataclass(frozen=True, kw_only=True)
class FsetMemory(TransformerMemory):
    """The encoded sentence and the edits in the form that decoder steps read. ``source`` is the whole source."""

    place: Tensor  # positions of the sentence's tokens in the source, (B, X)


class FsetDecoder(TransformerTargetDecoder):
    """A decoder that reads the sentence and its edits.

    Its ``attention`` has one column per source position, but is 0 outside of the sentence.
    """

    network: EditedDecoder

    def remember(self, encoder_out: dict[str, Tensor]) -> FsetMemory:
        memory = super().remember(encoder_out)
        edits = Edits(*(encoder_out[f"edit_{name}"] for name in Edits._fields))
        network = self.network.remember_edits(memory.network, edits)
        return FsetMemory(memory.source, memory.no_copy, network, place=encoder_out["place"])

    def step(self, words: Tensor, memory: TransformerMemory, state: DecoderState) -> tuple[Step, DecoderState]:
        assert isinstance(memory, FsetMemory)
        step, state = super().step(words, memory, state)
        assert step.attention is not None
        place = repeat_for_hypotheses(memory.place, len(words)).unsqueeze(1).expand_as(step.attention)
        attention = step.attention.new_zeros(*words.shape, memory.source.size(1))
        return replace(step, attention=attention.scatter_add(2, place, step.attention)), state


@register_family("fset", FsetConfig)
class FsetModel(LossModel):
    """A Transformer whose decoder attends to the sentence and to the edits of a retrieved pair."""

    encoder: FsetEncoder
    decoder: FsetDecoder

    @classmethod
    def build(cls, cfg: FsetConfig, task: FairseqTask) -> "FsetModel":
        dictionary = task.source_dictionary
        separator = required_word(
            dictionary,
            cfg.pair_symbol,
            "fset needs the word",
            "retrieve a pair for every sentence with preprocess/retrieve_pairs.py, or name another word with "
            "--pair-symbol.",
        )
        network = build_network(
            cfg,
            dictionary,
            decoder_layer=lambda dim, *sizes: EditedDecoderLayer(
                dim + cfg.edit_dim, *sizes, source_dim=dim, micro_dim=cfg.micro_dim
            ),
            decoder=partial(EditedDecoder, edit_dim=cfg.edit_dim),
        )
        sizes = (cfg.embed_dim, cfg.attention_heads, cfg.ffn_dim, cfg.dropout, cfg.attention_dropout)
        provider = EditProvider(
            [EncoderLayer(*sizes) for _ in range(cfg.edit_layers)],
            [DecoderLayer(*sizes) for _ in range(cfg.edit_layers)],
            *(cfg.embed_dim, cfg.edit_dim, cfg.micro_dim, cfg.dropout, dictionary.bos()),
        )
        init_transformer(provider)
        return cls(
            FsetEncoder(dictionary, network.encoder, provider, separator),
            FsetDecoder(dictionary, network.decoder, network.output_layer),
        )
