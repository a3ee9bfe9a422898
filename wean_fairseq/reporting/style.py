"""The style of all figures: colours for colour-blind readers, fonts with Chinese characters, PNG and SVG files.

Sizes are chosen so that text has at least about 7 points when a figure is printed at the width of a column.
"""

import io
import logging
import os
import unicodedata
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..evaluation.text_files import read_table, write_atomically
from ..evaluation.tokenizers import has_chinese
from ..optional import LazyModule

matplotlib = LazyModule("matplotlib")
font_manager = LazyModule("matplotlib.font_manager")
mpl_figure = LazyModule("matplotlib.figure")
mpl_text = LazyModule("matplotlib.text")

logger = logging.getLogger(__name__)

#: The colours of Okabe and Ito, which colour-blind readers can distinguish. Each colour also has its own marker and
#: line style.
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
#: A scale of one hue, which also works for colour-blind readers and in grey. Darker shades are larger numbers.
SHADES = "Blues"
_FONTS = read_table("fonts.toml", Path(__file__).parent)
#: Font families with simplified Chinese, by their names in matplotlib. The first one that is installed is used.
CHINESE_FONTS = _FONTS["families"]
#: Substrings of these fonts' file names, used to find fonts that are not in matplotlib's cache yet.
_CHINESE_FILES = _FONTS["files"]
_SETTINGS: dict[str, Any] = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "legend.frameon": False,
    "svg.fonttype": "path",  # text is drawn as paths, because readers may not have the font
    "svg.hashsalt": "wean_fairseq",  # without it, ids would be random, and equal figures would have different files
    "text.parse_math": False,  # dollar signs in words must not start a formula
}
#: Unicode characters for bidirectional embeddings, overrides and isolates.
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_LONGEST = 4000  # maximum number of characters of a text
_DATE = "SOURCE_DATE_EPOCH"  # environment variable with a date for all files
_RESOLUTION = 200
_LARGEST = 150  # maximum size in inches. Larger figures need gigabytes of memory


def displayable(text: str) -> str:
    """Return a text as one line, with a visible sign for every control character.

    Characters that change the direction of text are also replaced, because they would affect the rest of the page.
    """
    unseen = ("Cc", "Cs", "Co")
    line = "".join(" " if sign.isspace() else sign for sign in text)
    return "".join("\ufffd" if unicodedata.category(sign) in unseen or sign in _TURNING else sign for sign in line)


def limited(text: str) -> str:
    """Return a text with limited length, followed by the number of characters that were cut off."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text) - _LONGEST:,} characters more)"


@lru_cache(maxsize=1)
def chinese_font() -> str | None:
    """Return the name of an installed font with Chinese characters, or None."""

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
    """Return a matplotlib figure with panels. It works without a window system.

    Args:
        size: width and height of the figure in inches.
        options: options of ``Figure.subplots``.

    Returns:
        The figure, and the axes of its panels by row and column.
    """
    figure = mpl_figure.Figure(size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def write_figure(draw: Callable[[], Any], stem: Path) -> list[Path]:
    """Draw a matplotlib figure in the project's style, and write it as ``stem.png`` and ``stem.svg``.

    Returns:
        The paths of the two files.

    Raises:
        UserError: if the figure is too large, or the files cannot be written.
    """
    files = draw_files(draw, stem)
    for path, content in files.items():
        write_atomically(path, content)
    return [*files]


def draw_files(draw: Callable[[], Any], stem: Path) -> dict[Path, bytes]:
    """Draw a figure like ``write_figure``, and return the content of the files ``stem.png`` and ``stem.svg``."""
    files = {}
    font = chinese_font()
    settings: Any = {**_SETTINGS, "font.family": ["DejaVu Sans", *([font] if font else [])]}
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # a matplotlibrc in the current folder could make matplotlib run LaTeX
        matplotlib.rcParams.update(settings)
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # `_name_font` warns about it
        figure = draw()
        if max(figure.get_size_inches()) > _LARGEST:
            raise UserError(
                "the sentences, words or systems are too long or too many to draw; choose fewer and shorter ones."
            )
        if any(has_chinese(label.get_text()) for label in figure.findobj(mpl_text.Text)):
            _name_font(font)
        for kind in ("png", "svg"):
            # Without a date, equal figures have equal files.
            content, dates = io.BytesIO(), {"Date": None} if kind == "svg" else {}
            try:
                figure.savefig(content, format=kind, dpi=_RESOLUTION, metadata=dates)
            except ValueError as error:
                if not os.environ.get(_DATE, "0").isdecimal():  # matplotlib reads it even without a date
                    raise UserError(f"{_DATE} must be a number of seconds: correct or unset it.") from error
                raise
            files[Path(f"{stem}.{kind}")] = content.getvalue()
    return files
