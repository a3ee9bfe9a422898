"""The decoder of SRB (Ma et al., ACL 2017): attention over the gated source, and relevance in the loss.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``H`` hidden width.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from ...modules import LossSums, MixtureLoss, Step
from ..attentive_lstm import AttentiveLstmDecoder, AttentiveMemory


class SrbDecoder(AttentiveLstmDecoder):
    """An LSTM that starts from the last state of the source; score of a word from tanh(W_o [c_t; s_t] + b_o).

    Args:
        relevance_weight: lambda of sec. 3.4.
        parts: those of ``AttentiveLstmDecoder``.
    """

    def __init__(self, *, relevance_weight: float, **parts: Any) -> None:
        super().__init__(bridge=None, **parts)
        self.relevance_weight = relevance_weight

    def attend(self, states: Tensor, memory: AttentiveMemory) -> Step:
        """``extra`` has the decoder states, ``states`` (N, T, H)."""
        return replace(super().attend(states, memory), extra={"states": states})

    def step_loss(
        self, step: Step, memory: AttentiveMemory, target: Tensor, label_smoothing: float
    ) -> LossSums | MixtureLoss:
        """Less lambda cos(V_s, V_t) a sentence: V_t = h_n of the source, V_s = s_m - h_n."""
        sums = super().step_loss(step, memory, target, label_smoothing)
        position = torch.arange(target.size(1), device=target.device)
        end = (target.ne(self.padding_idx) * position).amax(dim=1)  # (B,)
        source = memory.start.hidden[-1]  # V_t, (B, H)
        summary = step.extra["states"][torch.arange(len(target), device=target.device), end] - source  # V_s, (B, H)
        relevance = cosine_similarity(summary.float(), source.float(), dim=-1).sum()
        loss = sums.loss - self.relevance_weight * relevance
        return MixtureLoss(loss, sums.nll_loss, {"relevance": relevance.detach()})
