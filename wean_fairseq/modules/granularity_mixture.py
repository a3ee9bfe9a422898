"""One distribution from both levels of DNPG (Li et al., ACL 2019, section 2.3).

Legend: ``B`` batch, ``T`` target length, ``V`` base vocabulary.
"""

import torch
from torch import Tensor

from .copying import CopyDistribution, log_add
from .soft_labels import PHRASE, SENTENCE


def mix_levels(labels: Tensor, phrase: CopyDistribution, sentence: Tensor) -> CopyDistribution:
    """P(y_t) = P(z_t = 0) P_0(y_t) + P(z_t = 1) P_1(y_t), where only the phrase level copies.

    Args:
        labels: log P(z_t), shape (B, T, 2).
        phrase: P_0.
        sentence: scores of P_1, shape (B, T, V).
    """
    of_phrase, of_sentence = labels[..., PHRASE, None], labels[..., SENTENCE, None]  # (B, T, 1)
    generated = torch.log_softmax(sentence.float(), dim=-1)
    return CopyDistribution(
        log_add(of_phrase + phrase.generate, of_sentence + generated), of_phrase + phrase.copy, phrase.source
    )
