"""Settings of the pointer-generator (See et al.), which has no dropout.

The initialisation follows the authors' code.
"""

from torch import Tensor, nn

from . import Case, constant, glorot, normal, truncated_normal, uniform

# The sizes are from section 5.
POINTER = {"embed_dim": 128, "hidden_size": 256, "attention_dim": 512, "coverage": False, "coverage_weight": 1.0}
SETTINGS = {
    "pointer_generator": POINTER,
    "pointer_generator_see2017": POINTER,
    "pointer_generator_coverage": POINTER | {"coverage": True},
}
SLOTS = 64
SIZES = {"embed_dim": 6, "hidden_size": 10, "attention_dim": 7}
SMALL = truncated_normal(1e-4)


def not_checked(module: nn.Module, parameter: Tensor) -> None:
    """Accept any bias. ``test_pointer_generator.py`` checks that it is 1 for forget gates and 0 for others."""


CASES = [
    Case(
        "pointer_generator_coverage",
        SIZES | {"weight_init": "see2017"},
        [],
        {
            r".*(lstm|cell)\.weight.*": uniform(0.02),
            r".*(embed_tokens|_bridge|out_proj)\..*": SMALL,
            r".*(lstm|cell)\.bias_ih.*": lambda module, parameter: (
                None
            ),  # test_pointer_generator.py checks that the bias of forget gates is 1
            r".*bias.*": constant(0.0),
            ".*": glorot,
        },
    ),
    Case(
        "pointer_generator",
        SIZES | {"weight_init": "pytorch"},
        [],
        {r".*embed_tokens\.weight": normal(1.0), r".*attention\.vector": uniform(7**-0.5)},
    ),
]
