"""``pointer_generator``: Get To The Point (See et al., ACL 2017, arXiv 1704.04368).

Legend: ``B`` batch, ``S`` source length, ``V`` base vocabulary, ``E`` embedding width, ``H`` hidden width of the
decoder and of each direction of the encoder.
"""

from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ...modules import AdditiveAttention, base_ids, run_over_words
from ..base import SourceEncoder
from ..copying import CopyingModel, no_copy_mask
from ..presets import register_family
from ..word_layers import build_output_layer, num_base_words, word_embedding
from .config import PRESETS, PointerGeneratorConfig
from .decoder import PointerGeneratorDecoder

LSTM_BOUND = 0.02
SMALL = 1e-4


class PointerGeneratorEncoder(SourceEncoder):
    """A bidirectional LSTM of one layer, and the bridge from its final states to the decoder's first.

    Args:
        embed_tokens: the shared embedding of the base words, (V, E).
        hidden_size: ``H``.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, hidden_size: int) -> None:
        super().__init__(dictionary)
        self.num_base = num_base_words(dictionary)
        self.embed_tokens = embed_tokens
        self.lstm = nn.LSTM(embed_tokens.embedding_dim, hidden_size, batch_first=True, bidirectional=True)
        self.hidden_bridge = nn.Linear(2 * hidden_size, hidden_size)
        self.cell_bridge = nn.Linear(2 * hidden_size, hidden_size)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch. The end symbol is read like a word, but neither attended to nor copied.

        The paper's sources have no end symbol; here attention and copying leave it out alike, as padding.

        Returns:
            ``encoder_out`` (B, S, 2H), zero at padding; ``no_copy_mask`` (B, S), ``True`` where nothing is attended to
            or copied; ``src_tokens`` as given; ``start_hidden`` and ``start_cell`` of the decoder, each (B, H).
        """
        embedded = self.embed_tokens(base_ids(src_tokens, self.num_base, self.dictionary.unk()))  # (B, S, E)
        outputs, (hidden, cell) = run_over_words(self.lstm, embedded, src_tokens.eq(self.padding_idx))
        return {
            "encoder_out": outputs,
            "no_copy_mask": no_copy_mask(src_tokens, self.dictionary),
            "src_tokens": src_tokens,
            "start_hidden": torch.relu(self.hidden_bridge(torch.cat(tuple(hidden), dim=-1))),  # (2, B, H) -> (B, H)
            "start_cell": torch.relu(self.cell_bridge(torch.cat(tuple(cell), dim=-1))),
        }


@register_family("pointer_generator", PointerGeneratorConfig, PRESETS)
class PointerGeneratorModel(CopyingModel):
    """A bidirectional LSTM encoder, and an LSTM decoder that generates words or copies them through its attention."""

    adds_losses = True

    encoder: PointerGeneratorEncoder
    decoder: PointerGeneratorDecoder

    @classmethod
    def build(cls, cfg: PointerGeneratorConfig, task: FairseqTask) -> "PointerGeneratorModel":
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        attention = AdditiveAttention(
            2 * cfg.hidden_size, 2 * cfg.hidden_size, cfg.attention_dim, coverage=cfg.coverage, query_bias=True
        )
        output_layer = build_output_layer(cfg, cfg.hidden_size, cfg.embed_dim, dictionary)
        encoder = PointerGeneratorEncoder(dictionary, embed_tokens, cfg.hidden_size)
        decoder = PointerGeneratorDecoder(
            dictionary, embed_tokens, cfg.hidden_size, attention, output_layer, cfg.coverage_weight
        )
        model = cls(encoder, decoder)
        if str(cfg.weight_init) == "see2017":
            initialise(encoder, decoder)
        return model


@torch.no_grad()
def initialise(encoder: PointerGeneratorEncoder, decoder: PointerGeneratorDecoder) -> None:
    """Set all weights as the authors' release does, and TensorFlow where that sets nothing.

    LSTMs are uniform; embedding, bridge and output layer almost zero; the other matrices Glorot's. Biases are zero,
    except the LSTMs' forget gates and the small ones of bridge and output layer.
    """
    for module in [*encoder.modules(), *decoder.modules()]:
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for lstm in (encoder.lstm, decoder.cell):
        _initialise_lstm(lstm)
    embedding = encoder.embed_tokens
    _init_small_(embedding.weight)
    nn.init.zeros_(embedding.weight[embedding.padding_idx])
    output = getattr(decoder.output.score, "out_proj", None)  # none where the embeddings are queried
    for linear in (encoder.hidden_bridge, encoder.cell_bridge, *([] if output is None else [output])):
        _init_small_(linear.weight)
        _init_small_(linear.bias)
    attention = decoder.attention
    _init_glorot_(attention.vector, attention.vector.numel(), attention.vector.numel())
    if attention.coverage_weight is not None:
        _init_glorot_(attention.coverage_weight, 1, attention.coverage_weight.numel())


def _initialise_lstm(lstm: nn.LSTM | nn.LSTMCell) -> None:
    for name, weight in lstm.named_parameters():
        if name.startswith("weight"):
            nn.init.uniform_(weight, -LSTM_BOUND, LSTM_BOUND)
        else:
            nn.init.zeros_(weight)
        if name.startswith("bias_ih"):
            nn.init.ones_(weight[lstm.hidden_size : 2 * lstm.hidden_size])  # forget gates


def _init_small_(weight: Tensor) -> None:
    nn.init.trunc_normal_(weight, std=SMALL, a=-2 * SMALL, b=2 * SMALL)


def _init_glorot_(vector: nn.Parameter, fan_in: int, fan_out: int) -> None:
    bound = (6 / (fan_in + fan_out)) ** 0.5
    nn.init.uniform_(vector, -bound, bound)
