"""The style of every figure: colours that everybody can tell apart, Chinese that comes out right, PNG and SVG of each.

Legends and sizes are meant for print at the width of a page's column: nothing is smaller than about 7 points there.
"""

import io
import logging
import unicodedata
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..evaluation.text_files import read_table, write_atomically
from ..evaluation.tokenizers import has_chinese

logger = logging.getLogger(__name__)

#: Okabe and Ito's colours, which can be told apart by everybody; a line's marks and dashes say the same again.
STYLES = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "D", ":"),
    ("#E69F00", "v", "-"),
    ("#56B4E9", "P", "--"),
    ("#000000", "X", "-."),
)
COLOURS = tuple(colour for colour, _, _ in STYLES)
#: One hue that reads the same for the colour-blind and in grey; dark = much.
SHADES = "Blues"
_FONTS = read_table("fonts.toml", Path(__file__).parent)
#: Font families with simplified Chinese, as matplotlib calls them; the first one found is used.
CHINESE_FONTS = _FONTS["families"]
#: What the files of these fonts are called, for fonts that were installed after matplotlib last looked.
_CHINESE_FILES = _FONTS["files"]
_SETTINGS: dict[str, Any] = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "legend.frameon": False,
    "svg.fonttype": "path",  # the reader may not have the font
    "svg.hashsalt": "wean_fairseq",  # ids are random without it, and the same figure is not the same file
    "text.parse_math": False,  # a word may hold dollar signs
}
#: Unicode's embeddings, overrides and isolates.
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_LONGEST = 4000  # characters of anything that is written
_RESOLUTION = 200
_LARGEST = 150  # inches; a picture of more takes gigabytes to draw


def displayable(text: str) -> str:
    """The text in one line, with a visible sign for every control character: no font and no page can show it.

    Those that turn the direction of what comes after them count as such: they would turn the page's own words too.
    """
    unseen = ("Cc", "Cs", "Co")
    line = "".join(" " if sign.isspace() else sign for sign in text)
    return "".join("\ufffd" if unicodedata.category(sign) in unseen or sign in _TURNING else sign for sign in line)


def limited(text: str) -> str:
    """A text of bounded length, which says how much was cut."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text) - _LONGEST:,} characters more)"


@lru_cache(maxsize=1)
def chinese_font() -> str | None:
    """The name of a font on this machine that has Chinese characters; ``None`` if there is none."""
    from matplotlib import font_manager

    def known() -> str | None:
        names = {entry.name for entry in font_manager.fontManager.ttflist}
        return next((name for name in CHINESE_FONTS if name in names), None)

    name = known()
    if name is None:
        for path in font_manager.findSystemFonts():
            if any(part in Path(path).name.lower() for part in _CHINESE_FILES):
                font_manager.fontManager.addfont(path)
        name = known()
    return name


@lru_cache(maxsize=1)
def _name_font(font: str | None) -> None:
    if font is not None:
        logger.info(f"Chinese labels are set in {font}")
        return
    logger.warning(
        "no font with Chinese characters was found, so figures show boxes in their place: "
        "install one, for example the package fonts-noto-cjk, and draw again"
    )


def new_figure(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """A matplotlib figure of panels, which knows no window system.

    Args:
        size: width and height of the whole, in inches.
        options: of ``Figure.subplots``.

    Returns:
        The figure, and the axes of its panels by row and column.
    """
    from matplotlib.figure import Figure

    figure = Figure(size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def write_figure(draw: Callable[[], Any], stem: Path) -> list[Path]:
    """Draw a matplotlib figure in the project's style, and write it as ``stem.png`` and ``stem.svg``.

    Returns:
        The two files.

    Raises:
        UserError: if it is too large, or they cannot be written.
    """
    import matplotlib as mpl
    from matplotlib.text import Text

    paths = [Path(f"{stem}.{suffix}") for suffix in ("png", "svg")]
    font = chinese_font()
    settings: Any = {**_SETTINGS, "font.family": ["DejaVu Sans", *([font] if font else [])]}
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # said once, in words
        figure = draw()
        if max(figure.get_size_inches()) > _LARGEST:
            raise UserError("the sentences are too long or too many to draw; choose fewer and shorter ones.")
        if any(has_chinese(label.get_text()) for label in figure.findobj(Text)):
            _name_font(font)
        for path in paths:
            # Without a date the same figure is the same file, whenever it is drawn.
            content, dates = io.BytesIO(), {"Date": None} if path.suffix == ".svg" else {}
            figure.savefig(content, format=path.suffix[1:], dpi=_RESOLUTION, metadata=dates)
            write_atomically(path, content.getvalue())
    return paths
