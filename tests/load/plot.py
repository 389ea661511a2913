"""The picture of a service under growing load."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tests.load.saturation import Point

_DARK, _MIDDLE, _LIGHT, _RED, _GREY = "#0c3b30", "#1b6e5a", "#7fc8b8", "#b55a30", "#8a8a8a"


def plot_saturation(points: Sequence["Point"], path: Path) -> None:
    """Good answers and refusals on the left, latencies on the right, both against the offered rate.

    Args:
        points: In order of their rates.
        path: PNG to write.
    """
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    rates, times = figure.subplots(1, 2)
    _draw_rates(rates, points)
    _draw_times(times, points)
    for axes in (rates, times):
        axes.set_xlabel("requests offered a second")
        axes.set_xlim(left=0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _draw_rates(axes: "Axes", points: Sequence["Point"]) -> None:
    offered = [point.offered for point in points]
    best = max(point.answered for point in points)
    axes.plot(offered, [point.answered for point in points], marker="o", color=_DARK, label="good answers")
    refused = [point.refused * point.sent for point in points]
    axes.plot(offered, refused, marker="o", color=_RED, label="refusals (503, 429)")
    axes.plot(offered, offered, color=_GREY, linestyle=":", label="all that was offered")
    axes.axhline(best, color=_LIGHT, linestyle="--", label=f"saturation: {best:,.0f} a second")
    axes.set_title("requests a second")
    axes.set_ylim(bottom=0)


def _draw_times(axes: "Axes", points: Sequence["Point"]) -> None:
    offered = [point.offered for point in points]
    series = (
        ("p99", [point.p99 for point in points], _DARK),
        ("p95", [point.p95 for point in points], _MIDDLE),
        ("p50", [point.p50 for point in points], _LIGHT),
        ("p50 of refusals", [point.refusal_p50 for point in points], _RED),
    )
    for name, seconds, colour in series:
        axes.plot(offered, [1e3 * value for value in seconds], marker="o", color=colour, label=name)
    axes.set_yscale("log")
    axes.set_title("milliseconds until a good answer")
