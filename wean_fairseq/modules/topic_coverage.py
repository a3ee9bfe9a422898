"""Multi-topic-aware attention: a coverage vector tracks how much of each topic is left (Feng et al., IJCAI 2018).

The attention score of a topic is multiplied by its coverage, which starts at 1 and decreases by alpha_tj / phi_j at
every step. phi_j is the number of the essay's N steps that are reserved for topic j. All values are float32.

Legend: ``B`` batch, ``T`` steps, ``k`` topic slots, ``E`` embedding width, ``N`` length of an essay.
"""

import torch
from torch import Tensor, nn

from .masking import masked_softmax


class TopicImportance(nn.Module):
    """The number of steps of an essay that are reserved for each topic: phi = N sigmoid([T_1; ...; T_k] U_f).

    A slot without a topic is treated as a zero vector.
    """

    def __init__(self, num_topics: int, embed_dim: int) -> None:
        super().__init__()
        self.proj = nn.Linear(num_topics * embed_dim, num_topics, bias=False)  # U_f

    def forward(self, topics: Tensor, lengths: Tensor) -> Tensor:
        """Return phi for the topics of each essay.

        Args:
            topics: embeddings T_j of the topics, zero in slots without a topic, (B, k, E).
            lengths: N of each essay, (B,).

        Returns:
            phi, float32, (B, k).
        """
        share = torch.sigmoid(self.proj(topics.flatten(1)).float())
        return lengths.unsqueeze(1).float() * share


def attend_uncovered(
    scores: Tensor, coverage: Tensor, importance: Tensor, padding_mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the attention alpha_t = softmax_j(C_{t-1,j} g_tj) and the new coverage C_t = C_{t-1} - alpha_t / phi.

    Args:
        scores: scores g_t without coverage, v . tanh(W h_{t-1} + U T_j), (B, k).
        coverage: C_{t-1}, (B, k).
        importance: phi, (B, k).
        padding_mask: ``True`` at slots without a topic, (B, k).

    Returns:
        alpha_t, zero at slots without a topic, and C_t, both float32 and of shape (B, k).
    """
    weights = masked_softmax((coverage * scores.float()).unsqueeze(1), padding_mask).squeeze(1)
    return weights, coverage - weights / importance


def importance_loss(
    weights: Tensor, importance: Tensor, topic_padding_mask: Tensor, step_padding_mask: Tensor
) -> Tensor:
    """Return the loss sum_j (phi_j - sum_t alpha_tj)^2, summed over all essays, in float32.

    This loss is in the authors' code, but not in the paper.

    Args:
        weights: alpha, (B, T, k).
        importance: phi, (B, k).
        topic_padding_mask: ``True`` at slots without a topic, (B, k).
        step_padding_mask: ``True`` after the end of an essay, (B, T).
    """
    received = weights.float().masked_fill(step_padding_mask.unsqueeze(-1), 0.0).sum(dim=1)  # (B, k)
    return (importance - received).square().masked_fill(topic_padding_mask, 0.0).sum()
