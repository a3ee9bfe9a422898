"""Word embeddings initialised from concatenated pre-trained vectors (Nisioi et al., ACL 2017, section 2.1).

Legend: ``V`` dictionary size, ``E`` embedding width, of which the last dimensions of a word are its local vector.
"""

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...data.word_vectors import load_word_vectors
from .config import NtsConfig


class WordEmbedding(nn.Embedding):
    """An embedding in which some words can be frozen at their initial values.

    With ``keeps_words`` it has a flag for each word. At first no word is frozen.
    """

    kept: Tensor | None

    def __init__(self, dictionary: Dictionary, embed_dim: int, *, keeps_words: bool = False) -> None:
        super().__init__(len(dictionary), embed_dim, dictionary.pad())
        # Also stored in checkpoints, so that these words stay frozen in a resumed training.
        self.register_buffer("kept", torch.zeros(len(dictionary), dtype=torch.bool) if keeps_words else None)

    def forward(self, tokens: Tensor) -> Tensor:
        """Embed ``tokens`` of any shape (...): (..., E). Frozen words get no gradient.

        Their gradient is 0, so no optimiser changes them, even with momentum, unless weight decay is used.
        """
        embedded = super().forward(tokens)
        if self.kept is None:
            return embedded
        return torch.where(self.kept[tokens].unsqueeze(-1), embedded.detach(), embedded)


@torch.no_grad()
def start_from_files(words: WordEmbedding, dictionary: Dictionary, cfg: NtsConfig, local: str | None) -> None:
    """Initialise words from the vectors of the options. If words can be frozen, those with a global vector are.

    Vectors of ``--global-vectors`` fill the first E - ``--local-dim`` dimensions of a word, those of the optional file
    ``local`` the remaining ones. Words without a global vector are drawn from N(0, ``--missing-vector-std``), or stay
    unchanged if that is 0.

    Raises:
        UserError: if the vectors cannot be used.
    """
    global_dim = words.embedding_dim - cfg.local_dim
    if cfg.global_vectors:
        vectors, has_vector = load_word_vectors(cfg.global_vectors, dictionary, global_dim)
        if cfg.missing_vector_std:
            drawn = torch.randn(int((~has_vector).sum()), global_dim) * cfg.missing_vector_std
            words.weight[~has_vector, :global_dim] = drawn.to(words.weight)
        words.weight[has_vector, :global_dim] = vectors[has_vector].to(words.weight)
        words.weight[dictionary.pad()].zero_()
        if words.kept is not None:
            words.kept.copy_(has_vector)
    if local:
        vectors, has_vector = load_word_vectors(local, dictionary, cfg.local_dim)
        words.weight[has_vector, global_dim:] = vectors[has_vector].to(words.weight)
