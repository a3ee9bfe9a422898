"""Read the weights of BERT's layers in a trained model. Figure 3 of the PC-SAN paper shows these weights."""

from torch import Tensor

from ..checkpoints.export import read_model
from ..errors import UserError
from ..modules import mixture_weights
from .tables import Table

MIXTURE = "encoder.bert_states.mixture."


def load_mixture(checkpoint: str) -> Tensor:
    """Return the weights (N, L) of BERT's L layers in the N layer mixtures of a checkpoint, in float32.

    Raises:
        UserError: if the checkpoint cannot be read, or its model has no layer mixture.
    """
    parameters: dict[str, Tensor] = read_model(checkpoint)["model"]
    if MIXTURE + "logits" in parameters:
        return mixture_weights(parameters[MIXTURE + "logits"].float())
    if MIXTURE + "weights" in parameters:
        return parameters[MIXTURE + "weights"].float()
    raise UserError(
        f"{checkpoint} has no mixture of BERT's layers: give one of pc_san with --bert-layers dynamic or static, or of "
        "another arch with --bert."
    )


def mixture_table(weights: Tensor) -> Table:
    """Return a table with one row per layer mixture, from the weights (N, L).

    If all decoder layers share one mixture, there is only one row.
    """
    rows = []
    for number, row in enumerate(weights.tolist(), start=1):
        name = "all" if weights.size(0) == 1 else str(number)
        rows.append([name, *(f"{value:.6f}" for value in row)])
    return Table(["decoder_layer", *(f"bert_{layer}" for layer in range(1, weights.size(1) + 1))], rows)
