"""Capabilities of models beyond scoring words.

Tasks, criterions and the search decide only by these capabilities, and use no other knowledge of a model family.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Capabilities:
    """Capabilities that a model class declares.

    If a model's options change its capabilities, the model object has its own copy of them.
    """

    computes_loss: bool = True  # its forward accepts targets and returns the loss (criterions/model_loss.py)
    # it adds auxiliary losses to the loss of the words, which fairseq's criterions would omit
    adds_losses: bool = False
    shares_words: bool = True  # the source and the target must use the same dictionary
    # It can copy source words that are not in the dictionary, so the task adds slots for these words to the dictionary.
    copies: bool = False
    normalises: bool = False  # its scores already are log-probabilities, so they cannot be divided by a temperature
    ranks: bool = False  # its search adds terms that are not log-probabilities, so no rule may stop it early
    inputs: tuple[str, ...] = ()  # names of the extra inputs that it reads (data/extra_inputs.py)
    # it plans its output for a given length, which the task passes (net_input["essay_lengths"])
    needs_length: bool = False
    granular_from: int = 0  # number (from 1) of the first layer whose words have granularities. 0 = none


FAIRSEQ_MODELS = Capabilities(computes_loss=False, shares_words=False)  # capabilities of fairseq's own models


def capabilities_of(model: Any) -> Capabilities:
    """Return the capabilities of a model, a model class, or a model wrapped for distributed training."""
    found: Capabilities = getattr(model, "capabilities", FAIRSEQ_MODELS)
    return found


def reads_inputs(model: Any, names: Iterable[str]) -> bool:
    """Return True if a model or a model class reads all extra inputs with these names."""
    return set(names) <= set(capabilities_of(model).inputs)
