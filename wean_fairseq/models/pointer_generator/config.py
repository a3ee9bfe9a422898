"""Options and presets of ``pointer_generator`` (See et al., ACL 2017)."""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum

from ...fields import option
from ..word_layers import OutputLayerConfig

WEIGHT_INITS = ("see2017", "pytorch")


@dataclass
class PointerGeneratorConfig(OutputLayerConfig):
    """Section and equation numbers are those of the paper."""

    embed_dim: int = option(128, "width of the embedding that encoder and decoder input share (sec. 5)", least=1)
    hidden_size: int = option(256, "width of the decoder and of each direction of the encoder (sec. 5)", least=1)
    attention_dim: int = option(512, "width of the hidden layer of the attention (eq. 1)", least=1)
    coverage: bool = option(
        False,
        "show the attention what it has covered, and penalise attending there again (sec. 2.3); train "
        "without it first, then give this and --finetune-from-model",
    )
    coverage_weight: float = option(1.0, "weight of the coverage loss, with --coverage (lambda of eq. 13)", least=0)
    weight_init: ChoiceEnum(WEIGHT_INITS) = option(  # type: ignore[valid-type]
        "see2017", "how weights start: as in the authors' release (made for Adagrad), or PyTorch's defaults"
    )


PRESETS = {
    "pointer_generator_see2017": {},  # a name for the defaults
    "pointer_generator_coverage": {"coverage": True},
}
