"""Writing a picture."""

from pathlib import Path
from typing import Any

from wean_fairseq.evaluation.errors import EvaluationError


def save(figure: Any, output: str | Path) -> None:
    """Write a matplotlib figure in the format that the name ends with, and close it.

    Raises:
        EvaluationError: if it cannot be written.
    """
    from matplotlib import pyplot as plt

    try:
        figure.savefig(output, dpi=150)
    except OSError as error:
        raise EvaluationError(f"cannot write {output}: {error.strerror}.") from error
    finally:
        plt.close(figure)
