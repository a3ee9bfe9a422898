"""The topics as a decoder layer reads them: their word vectors and their BERT states (PC-SAN, section 3.2, eq. 3).

H_j = [G ; B_j]. The paper does not say along which dimension the two are joined, and needs a map where it is the
features, because its decoder is as wide as one of them; so there are three readings.

Legend: ``B`` batch, ``S`` topics, ``N`` mixtures, ``E`` width of the word vectors, ``H`` width of BERT.
"""

import torch
from torch import Tensor, nn

FUSIONS = ("feature", "kv1536", "sequence")


class TopicFusion(nn.Module):
    """H_j = [G ; B_j] (eq. 3).

    Args:
        kind: ``feature``: side by side, and one linear map for all j back to ``E``; ``kv1536``: side by side, for keys
            and values that read both widths (1536 in the paper's sizes); ``sequence``: one after the other, 2 S
            positions.
        word_dim: ``E``.
        bert_dim: ``H``.

    Raises:
        ValueError: for an unknown kind, or ``sequence`` with E != H.
    """

    def __init__(self, kind: str, word_dim: int, bert_dim: int) -> None:
        super().__init__()
        if kind not in FUSIONS:
            raise ValueError(f"`kind` must be one of {', '.join(FUSIONS)}, but is {kind!r} instead.")
        if kind == "sequence" and word_dim != bert_dim:
            raise ValueError(
                f"fusion 'sequence' puts word vectors and BERT's states into one sequence, so both must be equally "
                f"wide, but they have {word_dim} and {bert_dim} units: use 'feature', or a model as wide as BERT."
            )
        self.kind = kind
        self.output_dim = word_dim + bert_dim if kind == "kv1536" else word_dim
        self.proj = nn.Linear(word_dim + bert_dim, word_dim) if kind == "feature" else None

    def forward(self, words: Tensor, mixed: Tensor) -> Tensor:
        """Join.

        Args:
            words: G, shape (B, S, E).
            mixed: B_j for all j, shape (B, N, S, H).

        Returns:
            H_j for all j, shape (B, N, S or 2 S, ``output_dim``).
        """
        words = words.unsqueeze(1).expand(-1, mixed.size(1), -1, -1)  # (B, N, S, E)
        joined = torch.cat([words, mixed], dim=2 if self.kind == "sequence" else 3)  # Eq. (3)
        return joined if self.proj is None else self.proj(joined)

    def positions(self, of_topics: Tensor) -> Tensor:
        """The facts about each topic, for each position of ``forward``'s result: (B, S) -> (B, S or 2 S)."""
        return torch.cat([of_topics, of_topics], dim=1) if self.kind == "sequence" else of_topics
