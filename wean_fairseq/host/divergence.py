"""Stop a diverging training before it saves a checkpoint, and name the sentences of the batch."""

import math
from typing import Any

import torch

from ..errors import UserError, name_some

_SHOWN = 8  # maximum number of sentences of a batch that a message names


class Diverged(UserError):
    """Error for a loss that is NaN, infinite, or far above the loss of an untrained model."""


def check_loss(loss: Any, sample: dict[str, Any], limit: float, where: str) -> None:
    """Raise ``Diverged`` if the parameters must not be updated with this loss.

    Args:
        loss: sum of the losses in the batch, in nats.
        sample: fairseq's batch, with ``id`` and ``ntokens``.
        limit: maximum loss in nats per token. 0 = no limit. The loss of an untrained model is ln(dictionary size),
            which is about 10.
        where: point in the training for the message, such as "update 12".

    Raises:
        Diverged: if the loss is refused. The message names the sentences of the batch.
    """
    per_token = float(torch.as_tensor(loss).detach()) / max(1, int(sample.get("ntokens", 1)))
    if not math.isfinite(per_token):
        raise Diverged(describe([sample], where, f"the loss is {per_token}"))
    if limit and per_token > limit:
        what = f"the loss is {per_token:.4g} nats a token, more than --loss-limit {limit:g}"
        raise Diverged(describe([sample], where, what))


def describe(samples: list[dict[str, Any]], where: str, what: str) -> str:
    """Return the message, which names the sentences of the batches."""
    ids = [sample["id"].flatten() for sample in samples if sample and sample.get("id") is not None]
    numbers = sorted(torch.cat(ids).tolist()) if ids else []
    shown = name_some(numbers, _SHOWN) or "of unknown numbers"
    return (
        f"training diverged at {where}: {what}, for the batch with the sentences {shown} (counted "
        "from 0). No checkpoint was changed (crash.pt, if one was saved, is only for debugging). The cause is in these "
        "sentences or in earlier updates: look at the sentences and at the options of the optimizer, such as --lr and "
        "--clip-norm, and run again to resume from the last checkpoint."
    )
