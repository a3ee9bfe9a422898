"""Options and presets of ``copy_transformer``. The defaults are "Transformer+Copy" of the C-DNPG table.

The network's sizes, of C-DNPG (Gu et al., COLING 2022), are in ``models/transformer.py``.
"""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum

from ...fields import option
from ..transformer import TransformerConfig

COPY_MODES = ("gate", "shared-softmax", "none")


@dataclass
class CopyTransformerConfig(TransformerConfig):
    """Options."""

    copy_mode: ChoiceEnum(COPY_MODES) = option(  # type: ignore[valid-type]
        "gate",
        "gate: choose between generating, and copying where the last layer attends (DNPG, eq. 8); "
        "shared-softmax: one softmax over words and source positions (CopyNet, eq. 4-8); none: no copying",
    )


# The "Transformer" of the C-DNPG table; fairseq has an arch `transformer` of its own.
PRESETS = {"paraphrase_transformer": {"copy_mode": "none"}}
