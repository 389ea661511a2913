"""ⓕ Fonts in which the pictures' labels can be drawn, whatever their scripts."""

import logging
from collections.abc import Iterable
from functools import cache

logger = logging.getLogger(__name__)

_BOXES = "Last Resort High-Efficiency"
"""Comes with matplotlib, and has a box for every character there is."""


def families_for(texts: Iterable[str]) -> list[str]:
    """Matplotlib's own font, and installed ones for the characters that it lacks.

    Characters that no installed font has are drawn as boxes; a warning names some of them.

    Args:
        texts: All that is to be drawn.

    Returns:
        Font families in the order in which they are to be tried.

    Raises:
        ModuleNotFoundError: Without matplotlib, which the extra `train` brings.
    """
    from matplotlib.font_manager import FontProperties, fontManager

    default = FontProperties()
    families = list(default.get_family())
    missing = {ord(character) for character in "".join(texts)} - _characters(fontManager.findfont(default))
    fonts = (font for font in fontManager.ttflist if font.style == "normal" and font.name != _BOXES)
    # Those without serifs first, which look most like the default, and of ordinary weight.
    for font in sorted(fonts, key=lambda font: ("Sans" not in font.name, font.weight != 400, font.name)):
        if not missing:
            break
        if missing & (found := _characters(font.fname)):
            families.append(font.name)
            missing -= found
    if missing:
        some = " ".join(map(chr, sorted(missing)[:8]))
        families.append(_BOXES)
        logger.warning("no installed font has %s: boxes stand for them (Noto Sans has most scripts)", some)
    return families


@cache
def _characters(path: str) -> frozenset[int]:
    """Code points that a font file has glyphs for."""
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(path).get_charmap())
