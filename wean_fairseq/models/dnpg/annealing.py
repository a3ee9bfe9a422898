"""The schedule of DNPG (Li et al., ACL 2019, section 3.2): temperature and label weight drop once, after some epochs.

fairseq calls ``set_epoch`` at the start of every epoch, including a resumed one. The temperature is saved with the
model, because generation needs it.
"""

import torch
from torch import Tensor, nn

from .config import DnpgConfig


class Annealing(nn.Module):
    """Holds the current values.

    Attributes:
        temperature: temperature of the labels, a scalar buffer.
        label_weight: weight of the loss of the weak labels.
    """

    temperature: Tensor

    def __init__(self, cfg: DnpgConfig) -> None:
        super().__init__()
        self.first = (cfg.temperature, cfg.label_weight)
        self.final = (cfg.final_temperature, cfg.final_label_weight)
        self.after = cfg.anneal_after
        self.noisy_inference = cfg.noisy_inference
        self.register_buffer("temperature", torch.tensor(1.0))
        self.label_weight = 0.0
        self.set_epoch(1)

    def set_epoch(self, epoch: int) -> None:
        """Set the values of an epoch, counted from 1."""
        temperature, self.label_weight = self.first if epoch <= self.after else self.final
        self.temperature.fill_(temperature)

    @property
    def noisy(self) -> bool:
        """Return True if labels are sampled instead of weighted."""
        return self.training or self.noisy_inference

    @property
    def uses_labels(self) -> bool:
        """Return True if weak labels are needed in any epoch."""
        return self.first[1] > 0 or self.final[1] > 0
