"""Word embeddings that start from vectors learnt elsewhere, side by side (Nisioi et al., ACL 2017, section 2.1).

Legend: ``V`` dictionary size, ``E`` embedding width, of which the last numbers of a word are its local vector.
"""

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...data.word_vectors import load_word_vectors
from .config import NtsConfig


class WordEmbedding(nn.Embedding):
    """An embedding of which some words can be kept as they start.

    With ``keeps_words`` it has a mark for each word, whether it is kept; no word is at first.
    """

    kept: Tensor | None

    def __init__(self, dictionary: Dictionary, embed_dim: int, *, keeps_words: bool = False) -> None:
        super().__init__(len(dictionary), embed_dim, dictionary.pad())
        # In checkpoints as well: these words go on being kept when training does.
        self.register_buffer("kept", torch.zeros(len(dictionary), dtype=torch.bool) if keeps_words else None)

    def forward(self, tokens: Tensor) -> Tensor:
        """Embed ``tokens`` of any shape (...): (..., E); no gradient reaches the words that are kept.

        Their gradient is 0, with which no optimiser moves them, momentum or not, unless weights decay.
        """
        embedded = super().forward(tokens)
        if self.kept is None:
            return embedded
        return torch.where(self.kept[tokens].unsqueeze(-1), embedded.detach(), embedded)


@torch.no_grad()
def start_from_files(words: WordEmbedding, dictionary: Dictionary, cfg: NtsConfig, local: str | None) -> None:
    """Let words start from the options' vectors; where words can be kept, those with a global vector are.

    Vectors of ``--global-vectors`` fill the first E - ``--local-dim`` numbers of a word, those of the file ``local``,
    if there is one, the last. Words without a global vector are drawn from N(0, ``--missing-vector-std``); with 0 they
    stay.

    Raises:
        UserError: if the vectors cannot be used.
    """
    global_dim = words.embedding_dim - cfg.local_dim
    if cfg.global_vectors:
        vectors, found = load_word_vectors(cfg.global_vectors, dictionary, global_dim)
        if cfg.missing_vector_std:
            drawn = torch.randn(int((~found).sum()), global_dim) * cfg.missing_vector_std
            words.weight[~found, :global_dim] = drawn.to(words.weight)
        words.weight[found, :global_dim] = vectors[found].to(words.weight)
        words.weight[dictionary.pad()].zero_()
        if words.kept is not None:
            words.kept.copy_(found)
    if local:
        vectors, found = load_word_vectors(local, dictionary, cfg.local_dim)
        words.weight[found, global_dim:] = vectors[found].to(words.weight)
