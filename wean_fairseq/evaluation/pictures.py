"""Pictures: matplotlib figures that know no window system, and their files."""

import io
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..storage.files import write_whole


def new_figure(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """A matplotlib figure of panels.

    Args:
        size: width and height of the whole, in inches.
        options: of ``Figure.subplots``.

    Returns:
        The figure, and the axes of its panels by row and column.
    """
    from matplotlib.figure import Figure

    figure = Figure(size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def save(figure: Any, output: str | Path, dpi: int = 150) -> None:
    """Write a matplotlib figure in the format that the name ends with, PNG if with none.

    The same figure is the same file, whenever it is drawn.

    Raises:
        UserError: if it cannot be written.
    """
    import matplotlib as mpl

    kind, content = Path(output).suffix[1:].lower() or "png", io.BytesIO()
    if kind not in figure.canvas.get_supported_filetypes():
        raise UserError(f"{output}: no picture is written as .{kind}; give a name that ends with .png or .svg.")
    try:
        with mpl.rc_context({"svg.hashsalt": "wean_fairseq"}):  # ids of SVG are random without it
            figure.savefig(content, format=kind, dpi=dpi, metadata={"Date": None} if kind == "svg" else {})
        write_whole(Path(output), lambda file: file.write(content.getbuffer()))
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}.") from error
