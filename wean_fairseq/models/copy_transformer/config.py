"""Options and presets of ``copy_transformer``. The defaults are "Transformer+Copy" of the C-DNPG table.

The network's sizes, of C-DNPG (Gu et al., COLING 2022), are in ``models/transformer.py``.
"""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum

from ..presets import register_preset
from ..transformer import TransformerConfig

COPY_MODES = ("gate", "shared-softmax", "none")


@dataclass
class CopyTransformerConfig(TransformerConfig):
    """Options."""

    copy_mode: ChoiceEnum(COPY_MODES) = field(  # type: ignore[valid-type]
        default="gate",
        metadata={
            "help": "gate: choose between generating, and copying where the last layer attends (DNPG, eq. 8); "
            "shared-softmax: one softmax over words and source positions (CopyNet, eq. 4-8); none: no copying"
        },
    )


def register_presets() -> None:
    """Register the archs beside ``copy_transformer`` itself."""
    # The "Transformer" of the C-DNPG table; fairseq has an arch `transformer` of its own.
    register_preset("copy_transformer", "paraphrase_transformer", copy_mode="none")
