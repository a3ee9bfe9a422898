"""WEAN's eqs. 5 and 6, for one query and one candidate at a time."""

import torch
from torch import Tensor


def score(kind: str, query: Tensor, embedding: Tensor, weights: dict[str, Tensor], index: int) -> Tensor:
    """Return f(q, e_i) of eq. 5, a scalar, for a query (D,), an embedding (E,), and the layer's weights by name."""
    if kind == "dot":
        return (query * embedding).sum()
    if kind == "general":  # q W e, where W (D, E) is the transposed weight of a linear map D -> E
        projected = sum(query[d] * weights["score.query_proj.weight"][:, d] for d in range(query.numel()))
        return ((projected + weights.get("score.query_proj.bias", 0.0)) * embedding).sum()
    if kind == "concat":
        hidden = weights["score.query_proj.weight"] @ query + weights["score.embed_proj.weight"] @ embedding
        return (weights["score.vector"] * torch.tanh(hidden)).sum()
    row, bias = weights["score.out_proj.weight"][index], weights["score.out_proj.bias"][index]
    return (row * query).sum() + bias


def scores(kind: str, queries: Tensor, embeddings: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """Return the scores (N, C) of all queries (N, D) and embeddings (C, E)."""
    rows = [
        torch.stack([score(kind, query, embedding, weights, index) for index, embedding in enumerate(embeddings)])
        for query in queries
    ]
    return torch.stack(rows)


def losses(logits: Tensor, target: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the label-smoothed loss and the nll of logits (N, C).

    They are summed token by token and smoothed as in fairseq.
    """
    loss = nll = torch.zeros(())
    others = eps / (logits.size(1) - 1)
    for row, word in zip(logits, target.tolist(), strict=True):
        log_probs = row - torch.log(torch.exp(row - row.max()).sum()) - row.max()
        weights = torch.full_like(row, others)
        weights[word] = 1.0 - eps
        nll = nll - log_probs[word]
        loss = loss - (weights * log_probs).sum()
    return loss, nll
