"""``srb``: improve the relevance of a summary to its source (Ma et al., ACL 2017, arXiv 1706.02459).

The defaults are the sizes in the authors' code for LCSTS.

Legend: ``B`` batch, ``N`` hypotheses, ``S`` source length, ``T`` target length, ``V`` words, ``E`` embedding width,
``H`` hidden width.
"""

from dataclasses import dataclass, replace

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import FairseqTask
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from ..capabilities import Capabilities
from ..fields import option
from ..modules import BilinearAttention, GatedLstm, LossSums, Step
from .attentive_lstm import AttentiveLstmDecoder, AttentiveMemory
from .base import LossModel, add_auxiliary, register_family
from .recurrent_encoders import LstmEncoder
from .word_layers import OutputLayerConfig, build_output_layer, word_embedding


@dataclass
class SrbConfig(OutputLayerConfig):
    """Options of the model. Section numbers refer to the paper."""

    embed_dim: int = option(400, "width of the embedding shared by encoder and decoder", least=1)
    hidden_size: int = option(500, "units of the encoder and of the decoder", least=1)
    dropout: float = option(0.0, "dropout on the embeddings and before the output layer")
    relevance_weight: float = option(
        0.0001, "weight of the cosine of source and summary in the loss (lambda, sec. 3.4)", least=0
    )
    gate_input: ChoiceEnum(("state-and-word", "state", "release")) = option(  # type: ignore[valid-type]
        "state-and-word",
        "input of the gate that weights source words: state-and-word (sec. 3.2); state = only the state; release = "
        "only the state, with an ungated first word, as in the authors' code",
    )


class SrbDecoder(AttentiveLstmDecoder):
    """An LSTM that starts from the final state of the encoder. Words are scored from tanh(W_o [c_t; s_t] + b_o).

    ``relevance_weight`` is lambda of sec. 3.4.
    """

    def __init__(self, dictionary: Dictionary, embed_tokens: nn.Embedding, cfg: SrbConfig) -> None:
        super().__init__(
            dictionary,
            embed_tokens,
            lstm=nn.LSTM(cfg.embed_dim, cfg.hidden_size, batch_first=True),
            bridge=None,
            attention=BilinearAttention(cfg.hidden_size, cfg.hidden_size, tanh=True, project_keys=True),
            output=build_output_layer(cfg, cfg.hidden_size, cfg.embed_dim, dictionary),
            dropout=cfg.dropout,
            dropout_input=cfg.dropout,
        )
        self.relevance_weight = cfg.relevance_weight

    def attend(self, states: Tensor, memory: AttentiveMemory) -> Step:
        """Attend to the source. ``extra`` contains the states of the decoder as ``states`` (N, T, H)."""
        return replace(super().attend(states, memory), extra={"states": states})

    def step_loss(self, step: Step, memory: AttentiveMemory, target: Tensor, label_smoothing: float) -> LossSums:
        """Subtract lambda cos(V_s, V_t) from the loss of each sentence.

        V_t is h_n of the source, and V_s = s_m - h_n.
        """
        sums = super().step_loss(step, memory, target, label_smoothing)
        position = torch.arange(target.size(1), device=target.device)
        end = (target.ne(self.padding_idx) * position).amax(dim=1)  # (B,)
        source = memory.start.hidden[-1]  # V_t, (B, H)
        summary = step.extra["states"][torch.arange(len(target), device=target.device), end] - source  # V_s, (B, H)
        relevance = cosine_similarity(summary.float(), source.float(), dim=-1).sum()
        return add_auxiliary(sums, "relevance", relevance, -self.relevance_weight)


@register_family("srb", SrbConfig)
class SrbModel(LossModel):
    """A gated LSTM encoder and an LSTM decoder with attention.

    The loss includes the cosine similarity between source and summary.
    """

    capabilities = Capabilities(adds_losses=True)
    encoder: LstmEncoder
    decoder: SrbDecoder

    @classmethod
    def build(cls, cfg: SrbConfig, task: FairseqTask) -> "SrbModel":
        dictionary = task.source_dictionary
        embed_tokens = word_embedding(dictionary, cfg.embed_dim)
        lstm = GatedLstm(cfg.embed_dim, cfg.hidden_size, str(cfg.gate_input))
        decoder = SrbDecoder(dictionary, embed_tokens, cfg)
        return cls(LstmEncoder(dictionary, embed_tokens, lstm, cfg.dropout), decoder)
