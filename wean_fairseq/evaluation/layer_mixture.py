"""Which layers of BERT a trained PC-SAN reads: the numbers of the paper's figure 3.

    python -m wean_fairseq.evaluation.layer_mixture checkpoint_best.pt > mixture.tsv

Prints, tab-separated, a line for every layer of the decoder with the weight of every layer of BERT; one line for all
where they share a mixture (``--bert-layers static``). The checkpoint is read with torch's safe loader.
"""

import argparse
import logging
import sys
from collections.abc import Sequence

from torch import Tensor

from ..console import exit_status
from ..errors import UserError
from ..modules import mixture_weights

MIXTURE = "encoder.bert_states.mixture."


def load_mixture(checkpoint: str) -> Tensor:
    """The weights of BERT's L layers in the N mixtures of a checkpoint: (N, L), float32.

    Raises:
        UserError: if the checkpoint cannot be read, or has no mixture.
    """
    from ..checkpoints.export import read_model

    parameters: dict[str, Tensor] = read_model(checkpoint)["model"]
    if MIXTURE + "logits" in parameters:
        return mixture_weights(parameters[MIXTURE + "logits"].float())
    if MIXTURE + "weights" in parameters:
        return parameters[MIXTURE + "weights"].float()
    raise UserError(
        f"{checkpoint} has no mixture of BERT's layers: give one of pc_san with --bert-layers dynamic or static."
    )


def render(weights: Tensor) -> list[str]:
    """Lines of a table: a head, and a line for each mixture (N, L)."""
    lines = [["decoder_layer", *(f"bert_{layer}" for layer in range(1, weights.size(1) + 1))]]
    for number, row in enumerate(weights.tolist(), start=1):
        name = "all" if weights.size(0) == 1 else str(number)
        lines.append([name, *(f"{value:.6f}" for value in row)])
    return ["\t".join(cells) for cells in lines]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m wean_fairseq.evaluation.layer_mixture",
        description="Print how much each decoder layer of a trained pc_san reads of each layer of BERT.",
    )
    parser.add_argument("checkpoint", help="checkpoint of fairseq-train")
    args = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    return exit_status("layer_mixture", lambda: "\n".join(render(load_mixture(args.checkpoint))) + "\n")


if __name__ == "__main__":
    sys.exit(main())
