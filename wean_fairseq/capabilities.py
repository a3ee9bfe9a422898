"""Capabilities of models beyond scoring words.

Tasks, criterions and the search use no other knowledge about a model family.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Capabilities:
    """Capabilities that a model class declares. A model whose options change them has its own copy."""

    computes_loss: bool = True  # its forward accepts targets (criterions/model_loss.py)
    adds_losses: bool = False  # it adds losses to the loss of the words. fairseq's criterions would omit them
    shares_words: bool = True  # the source and the target must use the same dictionary
    # it writes source words that are not in the dictionary, so the task adds slots to the dictionary
    copies: bool = False
    normalises: bool = False  # its scores are log-probabilities, to which no temperature can be applied
    ranks: bool = False  # its search adds terms that are not log-probabilities, so no rule may stop it early
    inputs: tuple[str, ...] = ()  # names of the extra inputs that it reads (data/extra_inputs.py)
    needs_length: bool = False  # it plans the output for a length, which the task passes (net_input["essay_lengths"])
    granular_from: int = 0  # number (from 1) of the first layer whose words have granularities. 0 = none


FAIRSEQ_MODELS = Capabilities(computes_loss=False, shares_words=False)  # of fairseq's own models


def capabilities_of(model: Any) -> Capabilities:
    """Return the capabilities of a model, a model class, or a model wrapped for distributed training."""
    found: Capabilities = getattr(model, "capabilities", FAIRSEQ_MODELS)
    return found


def reads_inputs(model: Any, names: Iterable[str]) -> bool:
    """Return True if a model or a model class reads all extra inputs with these names."""
    return set(names) <= set(capabilities_of(model).inputs)
