"""The decoder of SRB (Ma et al., ACL 2017): attention over the gated source, and relevance in the loss.

Legend: ``B`` batch, ``N`` hypotheses, ``T`` target length, ``S`` source length, ``E`` embedding width, ``H`` hidden
width, ``V`` dictionary size.
"""

from dataclasses import dataclass

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from ...modules import (
    BilinearAttention,
    LossSums,
    LstmStart,
    LstmState,
    MixtureLoss,
    QueryEmbedding,
    Step,
    fold_hypotheses,
)
from ..base import StepDecoder


@dataclass(frozen=True)
class SrbMemory(LstmStart):
    """The source as every step sees it."""

    keys: Tensor  # (B, S, H)
    padding_mask: Tensor  # (B, S)


class SrbDecoder(StepDecoder[SrbMemory, LstmState]):
    """An LSTM that starts from the last state of the source; score of a word from tanh(W_o [c_t; s_t] + b_o).

    Args:
        dictionary: of the target (the same as of the source).
        embed_tokens: the shared embedding, (V, E).
        lstm: ``batch_first``, one layer, E -> H.
        attention: over the encoder outputs.
        output: scores of words.
        dropout: on embeddings and features.
        relevance_weight: lambda of sec. 3.4.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        lstm: nn.LSTM,
        attention: BilinearAttention,
        output: QueryEmbedding,
        dropout: float,
        relevance_weight: float,
    ) -> None:
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.lstm = lstm
        self.attention = attention
        self.combine = nn.Linear(2 * lstm.hidden_size, lstm.hidden_size)  # W_o, b_o
        self.output = output
        self.dropout = nn.Dropout(dropout)
        self.relevance_weight = relevance_weight

    def remember(self, encoder_out: dict[str, Tensor]) -> SrbMemory:
        start = LstmState(encoder_out["final_hidden"], encoder_out["final_cell"])
        return SrbMemory(start, encoder_out["encoder_out"], encoder_out["encoder_padding_mask"])

    def begin(self, memory: SrbMemory) -> LstmState:
        return memory.start

    def step(self, words: Tensor, memory: SrbMemory, state: LstmState) -> tuple[Step, LstmState]:
        """See ``StepDecoder``; ``extra`` has the decoder states, ``states`` (N, T, H)."""
        embedded = self.dropout(self.embed_tokens(words))
        states, last = self.lstm(embedded, (state.hidden, state.cell))  # (N, T, H)
        folded = fold_hypotheses(states, len(memory.keys))  # (B, K * T, H)
        context, weights = self.attention(folded, memory.keys, memory.padding_mask)
        features = torch.tanh(self.combine(torch.cat([context.view_as(states), states], dim=-1)))
        attention = weights.reshape(*words.shape, -1)
        return Step(self.dropout(features), attention, extra={"states": states}), LstmState(*last)

    def step_loss(
        self, step: Step, memory: SrbMemory, target: Tensor, label_smoothing: float
    ) -> LossSums | MixtureLoss:
        """See ``StepDecoder``; less lambda cos(V_s, V_t) a sentence: V_t = h_n of the source, V_s = s_m - h_n."""
        sums = super().step_loss(step, memory, target, label_smoothing)
        position = torch.arange(target.size(1), device=target.device)
        end = (target.ne(self.padding_idx) * position).amax(dim=1)  # (B,)
        source = memory.start.hidden[-1]  # V_t, (B, H)
        summary = step.extra["states"][torch.arange(len(target), device=target.device), end] - source  # V_s, (B, H)
        relevance = cosine_similarity(summary.float(), source.float(), dim=-1).sum()
        loss = sums.loss - self.relevance_weight * relevance
        return MixtureLoss(loss, sums.nll_loss, {"relevance": relevance.detach()})
