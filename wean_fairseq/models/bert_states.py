"""Parts of models that read the features of a frozen BERT. The batch contains the features (``data/bert_inputs.py``).

Checkpoints contain only a digest of the BERT that computed the features.

Legend: ``B`` batch, ``S`` source length, ``L`` layers of BERT, ``H`` its width, ``D`` width of the model.
"""

import torch
from torch import Tensor, nn

from ..data.bert_features import FrozenBert
from ..errors import UserError
from ..modules import LayerMixture, init_transformer


class BertReader(nn.Module):
    """A module that reads the features of one BERT."""

    digest: Tensor

    def __init__(self, bert: FrozenBert) -> None:
        super().__init__()
        self.path = bert.path
        # Each byte of the digest is stored as a 64-bit number, because fairseq sums buffers when it averages
        # checkpoints.
        self.register_buffer("digest", torch.tensor(list(bytes.fromhex(bert.digest))))

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Reject a checkpoint that was trained with another BERT, before it is loaded.

        Raises:
            UserError: if the digests differ. The message contains the beginnings of both digests.
        """
        trained = state_dict.get(f"{name}.digest", self.digest)  # (32,)
        if not torch.equal(trained.cpu(), self.digest.cpu()):
            raise UserError(
                f"this checkpoint was trained with the BERT of SHA-256 {_hex_prefix(trained)}, but that of {self.path} "
                f"is {_hex_prefix(self.digest)}: give --bert the directory that was used in training."
            )


class AddedStates(BertReader):
    """Compute W sum_l alpha_l h^l + b, which is added to word, position and segment at the input of a Transformer.

    The alphas are the result of a softmax, and are all equal at the start of training. At end symbols and padding, h is
    0.
    """

    def __init__(self, bert: FrozenBert, dim: int) -> None:
        super().__init__(bert)
        self.mixture = LayerMixture("softmax", bert.num_layers, 1)
        self.proj = nn.Linear(bert.dim, dim)
        init_transformer(self.proj)

    def forward(self, features: Tensor | None) -> Tensor:
        """Map features (B, S, L, H) -> (B, S, D). Raise ``UserError`` if the batch has no features."""
        if features is None:
            raise UserError("this model reads BERT's states of the sources, but the data has none: give --bert.")
        mixed = self.mixture(features.to(self.proj.weight.dtype))  # (B, 1, S, H)
        states: Tensor = self.proj(mixed.squeeze(1))
        return states


def check_trained_with_bert(trained: bool, *, is_read: bool) -> None:
    """Raise ``UserError`` if only one of checkpoint and model has parameters that read BERT's features."""
    if trained and not is_read:
        raise UserError("this checkpoint was trained with --bert DIR: give --bert the directory that was used.")
    if is_read and not trained:
        raise UserError("this checkpoint was trained without --bert: leave it out.")


def _hex_prefix(digest: Tensor) -> str:
    return bytes(digest.tolist()).hex()[:12]
