"""ⓕ The run's curves as PNG: losses, scores, learning rate, gradient, speed."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from model.training.report.log import Event

if TYPE_CHECKING:
    from matplotlib.axes import Axes

logger = logging.getLogger(__name__)

_BOXES = "Last Resort High-Efficiency"
"""A font of matplotlib that has a box for every character."""

Draw = Callable[["Axes"], None]


def families_for(texts: Iterable[str]) -> list[str]:
    """Matplotlib's default font, and installed fonts for the characters that it lacks.

    Characters that no installed font has are drawn as boxes; a warning names some of them.

    Args:
        texts: Every text to be drawn.

    Returns:
        Font families in the order in which matplotlib tries them.

    Raises:
        ModuleNotFoundError: Without matplotlib, which the extra `train` brings.
    """
    from matplotlib.font_manager import FontProperties, fontManager

    default = FontProperties()
    families = list(default.get_family())
    missing = {ord(character) for character in "".join(texts)} - _characters(fontManager.findfont(default))
    fonts = (font for font in fontManager.ttflist if font.style == "normal" and font.name != _BOXES)
    # Sans-serif fonts of regular weight look most like the default.
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


@dataclass(frozen=True)
class Curve:
    """One picture of one or several lines.

    Attributes:
        name: Name of the file.
        title: Shown in the report.
        unit: Unit of the vertical axis.
        lines: Points by label.
        has_points: Whether to mark each point.
        across: Unit of the horizontal axis.
    """

    name: str
    title: str
    unit: str
    lines: dict[str, list[tuple[float, float]]]
    has_points: bool = False
    across: str = "step"


def write_curves(events: Sequence[Event], folder: Path) -> dict[str, Path]:
    """Draw a PNG for every curve that the log has values of.

    Needs matplotlib, which the extra `train` brings.

    Args:
        events: Events of the log.
        folder: Folder of the pictures; created if missing.

    Returns:
        The files by title.
    """
    drawn = {}
    for curve in _curves(events):
        if any(curve.lines.values()):
            drawn[curve.title] = folder / f"{curve.name}.png"
            write_picture(drawn[curve.title], curve.across, curve.unit, partial(_draw, curve))
    return drawn


def write_picture(path: Path, across: str, upwards: str, draw: Draw) -> None:
    """Write a PNG; its folder is created if missing."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel=across, ylabel=upwards)
    draw(axes)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _draw(curve: Curve, axes: "Axes") -> None:
    for label, points in curve.lines.items():
        if points:
            marker = "o" if curve.has_points else ""
            axes.plot(*zip(*points, strict=True), marker=marker, markersize=4, label=label)


def _curves(events: Sequence[Event]) -> list[Curve]:
    updates = [event for event in events if event["kind"] == "update"]
    validations = [event for event in events if event["kind"] == "validation"]
    losses = {
        "training, smoothed labels": _points(updates, "loss"),
        "training, cross entropy": _points(updates, "cross_entropy"),
        "validation, cross entropy": _points(validations, "cross_entropy"),
    }
    return [
        Curve("loss", "Loss", "nats a target token", losses),
        Curve("bleu", "BLEU", "BLEU", _by_direction(validations, "bleu"), has_points=True),
        Curve("chrf", "chrF", "chrF", _by_direction(validations, "chrf"), has_points=True),
        _single(updates, "learning_rate", "Learning rate", "rate"),
        _single(updates, "gradient_norm", "Gradient norm before clipping", "L2 norm"),
        _single(updates, "tokens_per_second", "Throughput", "tokens/s"),
        _over_time(updates),
        _single(updates, "padding_share", "Padding", "share of what is computed"),
        _single(updates, "mfu", "Model FLOPs utilisation", "share of the device's peak"),
    ]


def _single(events: Sequence[Event], value: str, title: str, unit: str) -> Curve:
    return Curve(value, title, unit, {unit: _points(events, value)})


def _over_time(updates: Sequence[Event]) -> Curve:
    """Throughput over the time, which shows when a run stopped or slowed down."""
    timed = [event for event in updates if "seconds" in event]
    points = [(event["seconds"] / 60, event["tokens_per_second"]) for event in timed]
    return Curve(
        "throughput_over_time", "Throughput over time", "tokens/s", {"tokens/s": points}, across="minutes"
    )


def _points(events: Sequence[Event], value: str) -> list[tuple[float, float]]:
    return [(event["step"], event[value]) for event in events if value in event]


def _by_direction(validations: Sequence[Event], metric: str) -> dict[str, list[tuple[float, float]]]:
    pairs = dict.fromkeys(pair for event in validations for pair in event["directions"])
    return {
        pair: [
            (event["step"], event["directions"][pair][metric])
            for event in validations
            if pair in event["directions"]
        ]
        for pair in pairs
    }
