"""Writing a picture."""

import io
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..storage.files import write_whole


def save(figure: Any, output: str | Path, dpi: int = 150) -> None:
    """Write a matplotlib figure in the format that the name ends with, PNG if with none, and close it.

    The same figure is the same file, whenever it is drawn.

    Raises:
        UserError: if it cannot be written.
    """
    from matplotlib import pyplot as plt

    kind, content = Path(output).suffix[1:].lower() or "png", io.BytesIO()
    if kind not in figure.canvas.get_supported_filetypes():
        raise UserError(f"{output}: no picture is written as .{kind}; give a name that ends with .png or .svg.")
    try:
        figure.savefig(content, format=kind, dpi=dpi, metadata={"Date": None} if kind == "svg" else {})
        write_whole(Path(output), lambda file: file.write(content.getbuffer()))
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}.") from error
    finally:
        plt.close(figure)
