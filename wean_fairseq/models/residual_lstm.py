"""``residual_lstm``: stacked residual LSTM networks for paraphrasing (Prakash et al., COLING 2016, C16-1275).

The decoder starts from the final state of the encoder and has no attention. The defaults are the paper's sizes.

Legend: ``B`` batch, ``N`` hypotheses, ``S`` source length, ``T`` target length, ``E`` embedding width, ``H`` hidden
width, ``L`` layers, ``V`` words.
"""

import logging
from dataclasses import dataclass
from typing import Any

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..fields import option
from ..modules import LstmStart, LstmState, ResidualLstm, Step
from .base import LossModel, StepDecoder, init_uniform_, register_family
from .recurrent_encoders import WordEncoder
from .word_layers import OutputLayerConfig, build_output_layer, word_embedding

logger = logging.getLogger(__name__)


@dataclass
class ResidualLstmConfig(OutputLayerConfig):
    """Options of the model. Section numbers refer to the paper.

    All families share the options of the output layer.
    """

    embed_dim: int = option(
        512, "width of the embeddings; residuals are truncated if it differs from --hidden-size", least=1
    )
    hidden_size: int = option(512, "units of every layer (sec. 4.2)", least=1)
    num_layers: int = option(4, "layers of the encoder, and of the decoder (sec. 4.2)", least=1)
    residual_every: int = option(
        2, "add the input of this many layers to their output (n of sec. 2.3); 0 = never", least=0
    )
    residual_recurrent: bool = option(
        False,
        'also use the residual sum in the recurrence (sec. 2.3, "pointwise addition to h_t"); slower',
        needs={"residual_every": ()},
    )
    dropout: float = option(0.5, "dropout after every layer (sec. 4.2)")
    share_embeddings: bool = option(False, "share one word embedding between encoder and decoder, as in WEAN")
    init_range: float = option(
        0.08,
        "initialise weights uniformly in [-x, x] (not in the paper; the value is that of Sutskever et al. 2014); "
        "0 = PyTorch's defaults",
        least=0,
    )


# The paper's baseline "Sequence to Sequence": the same layers without residual connections.
PRESETS = {"stacked_lstm": {"residual_every": 0}}


def _build_stack(cfg: ResidualLstmConfig) -> ResidualLstm:
    sizes = (cfg.embed_dim, cfg.hidden_size, cfg.num_layers, cfg.residual_every, cfg.dropout)
    return ResidualLstm(*sizes, recurrent=cfg.residual_recurrent)


class ResidualLstmEncoder(WordEncoder):
    """A residual LSTM, E -> H, that reads the words of the source."""

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: ResidualLstmConfig) -> None:
        super().__init__(dictionary, embed_tokens)
        self.stack = _build_stack(cfg)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_unused: Any) -> dict[str, Tensor]:
        """Encode a batch: ``final_hidden`` and ``final_cell`` of every layer, each of shape (L, B, H)."""
        _, (hidden, cell) = self.read(self.stack, src_tokens)
        return {"final_hidden": hidden, "final_cell": cell}


class ResidualLstmDecoder(StepDecoder[LstmStart, LstmState]):
    """A residual LSTM, E -> H, that reads the words written so far.

    Words are scored from the output of the top layer.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: ResidualLstmConfig) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.output = build_output_layer(cfg, cfg.hidden_size, cfg.embed_dim, dictionary)
        self.stack = _build_stack(cfg)

    def remember(self, encoder_out: dict[str, Tensor]) -> LstmStart:
        return LstmStart(LstmState(encoder_out["final_hidden"], encoder_out["final_cell"]))

    def begin(self, memory: LstmStart) -> LstmState:
        return memory.start

    def step(self, words: Tensor, memory: LstmStart, state: LstmState) -> tuple[Step, LstmState]:
        """See ``StepDecoder``. The features are the outputs of the top layer, (N, T, H)."""
        outputs, last = self.stack(self.embed_tokens(words), (state.hidden, state.cell))
        return Step(outputs, None), LstmState(*last)


@register_family("residual_lstm", ResidualLstmConfig, PRESETS)
class ResidualLstmModel(LossModel):
    """An LSTM encoder and decoder of equal depth, with residual connections every few layers and without attention."""

    encoder: ResidualLstmEncoder
    decoder: ResidualLstmDecoder

    @classmethod
    def build(cls, cfg: ResidualLstmConfig, task: FairseqTask) -> "ResidualLstmModel":
        if cfg.residual_every > cfg.num_layers:
            logger.warning(
                f"--residual-every {cfg.residual_every} is above --num-layers {cfg.num_layers}: "
                "this model has no residual connections."
            )
        dictionary = task.source_dictionary
        source_words = word_embedding(dictionary, cfg.embed_dim)
        target_words = source_words if cfg.share_embeddings else word_embedding(dictionary, cfg.embed_dim)
        encoder = ResidualLstmEncoder(dictionary, source_words, cfg)
        model = cls(encoder, ResidualLstmDecoder(dictionary, target_words, cfg))
        init_uniform_(model, cfg.init_range)
        return model
