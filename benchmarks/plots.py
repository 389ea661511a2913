"""Pictures of results: bars of speed, lines of a service under growing load."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.engine import OURS
from benchmarks.race import Place
from benchmarks.rounds import Clock, median_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GREENS = ("#0c3b30", "#1b6e5a", "#3f9a84", "#7fc8b8", "#b9e3da")
_REDS = ("#7a2e12", "#b55a30", "#e0a070", "#f1d0b5", "#8a8a8a")
_BAR = 0.16  # inches
Series = Mapping[str, Sequence[float]]


def plot_speed(places: Sequence[Place], clock: Clock, path: Path) -> None:
    """Sentences a second of every engine, a group of bars a race; nothing for what is not comparable.

    Args:
        places: Of any number of races.
        clock: What speeds are computed from.
        path: PNG to write.
    """
    from matplotlib.figure import Figure

    races = list(dict.fromkeys(_label(place) for place in places))
    names = list(dict.fromkeys(place.contestant.name for place in places))
    figure = Figure(figsize=(8, 1.2 + _BAR * (len(names) + 1) * len(races)), layout="constrained")
    axes = figure.subplots()
    for position, (name, colour) in enumerate(zip(names, _colours(names), strict=True)):
        speeds = {
            _label(place): len(place.race.sources) / median_seconds(place.durations, clock)
            for place in places
            if place.contestant.name == name and not place.is_wrong
        }
        rows = [races.index(race) * (len(names) + 1) + position for race in speeds]
        axes.barh(rows, list(speeds.values()), height=0.9, color=colour, label=name)
    middles = [index * (len(names) + 1) + (len(names) - 1) / 2 for index in range(len(races))]
    axes.set_yticks(middles, races)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("sentences a second, logarithmic")
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, fontsize="small")
    _write(figure, path)


def plot_lines(panels: Mapping[str, Series], ticks: Sequence[int], xlabel: str, path: Path) -> None:
    """A panel for each quantity, a line for each contestant.

    Args:
        panels: Quantity → contestant → a value for each tick.
        ticks: The values on the horizontal axis.
        xlabel: What they are.
        path: PNG to write.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(panels), 4.5), layout="constrained")
    for index, (quantity, series) in enumerate(panels.items()):
        axes = figure.add_subplot(1, len(panels), index + 1)
        for name, colour in zip(series, _colours(list(series)), strict=True):
            label = name if index == 0 else None
            axes.plot(range(len(ticks)), series[name], marker="o", label=label, color=colour)
        axes.set_xticks(range(len(ticks)), [str(tick) for tick in ticks])
        axes.set_xlabel(xlabel)
        axes.set_title(quantity)
        axes.set_yscale("log")
        axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, fontsize="small")
    _write(figure, path)


def _label(place: Place) -> str:
    race = place.race
    cores = f", {race.threads} threads" if race.threads > 1 else ""
    return f"{race.network}, {race.search}, {race.batch_size}{cores}"


def _colours(names: Sequence[str]) -> list[str]:
    """Greens for ours, the rest for others."""
    used = {True: 0, False: 0}
    colours = []
    for name in names:
        is_ours = name.startswith(OURS)
        palette = _GREENS if is_ours else _REDS
        colours.append(palette[used[is_ours] % len(palette)])
        used[is_ours] += 1
    return colours


def _write(figure: "Figure", path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
