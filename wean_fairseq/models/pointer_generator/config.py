"""Options and presets of ``pointer_generator`` (See et al., ACL 2017)."""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum

from ..presets import register_preset
from ..word_layers import OutputLayerConfig

WEIGHT_INITS = ("see2017", "pytorch")


@dataclass
class PointerGeneratorConfig(OutputLayerConfig):
    """Section and equation numbers are those of the paper."""

    embed_dim: int = field(
        default=128, metadata={"help": "width of the embedding that encoder and decoder input share (sec. 5)"}
    )
    hidden_size: int = field(
        default=256, metadata={"help": "width of the decoder and of each direction of the encoder (sec. 5)"}
    )
    attention_dim: int = field(default=512, metadata={"help": "width of the hidden layer of the attention (eq. 1)"})
    coverage: bool = field(
        default=False,
        metadata={
            "help": "show the attention what it has covered, and penalise attending there again (sec. 2.3); train "
            "without it first, then give this and --finetune-from-model"
        },
    )
    coverage_weight: float = field(
        default=1.0, metadata={"help": "weight of the coverage loss, with --coverage (lambda of eq. 13)"}
    )
    weight_init: ChoiceEnum(WEIGHT_INITS) = field(  # type: ignore[valid-type]
        default="see2017",
        metadata={"help": "how weights start: as in the authors' release (made for Adagrad), or PyTorch's defaults"},
    )


def register_presets() -> None:
    """Register the archs beside ``pointer_generator`` itself."""
    register_preset("pointer_generator", "pointer_generator_see2017")  # a name for the defaults
    register_preset("pointer_generator", "pointer_generator_coverage", coverage=True)
