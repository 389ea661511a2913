"""ⓕ The run's curves as PNG: losses, scores, learning rate, gradient, speed."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from model.training.run_folder.log import Event

Points = list[tuple[float, float]]

_MOST_MARKED = 50
"""Points of a line that are marked one by one."""

_LOSSES = (
    ("update", "loss", "training, smoothed labels"),
    ("update", "cross_entropy", "training, cross entropy"),
    ("validation", "cross_entropy", "validation, cross entropy"),
)
_SINGLE = (
    ("learning_rate", "Learning rate", "rate"),
    ("gradient_norm", "Gradient norm before clipping", "L2 norm"),
    ("tokens_per_second", "Throughput", "tokens/s"),
    ("padding_share", "Padding", "share of what is computed"),
    ("mfu", "Model FLOPs utilisation", "share of the device's peak"),
)


def write_curves(events: Sequence[Event], folder: Path) -> dict[str, Path]:
    """Draw a PNG for every curve that the log has values of.

    Needs matplotlib, which the extra `train` brings.

    Args:
        events: Events of the log.
        folder: Folder of the pictures; created if missing.

    Returns:
        The files by title.
    """
    updates = [event for event in events if event["kind"] == "update"]
    validations = [event for event in events if event["kind"] == "validation"]
    of_kind = {"update": updates, "validation": validations}
    drawn: dict[str, Path] = {}

    def draw(name: str, title: str, unit: str, lines: Mapping[str, Points], across: str = "step") -> None:
        if any(lines.values()):
            drawn[title] = folder / f"{name}.png"
            _write_picture(drawn[title], across, unit, lines)

    draw("loss", "Loss", "nats a target token", {label: _points(of_kind[k], v) for k, v, label in _LOSSES})
    for metric, title in (("bleu", "BLEU"), ("chrf", "chrF")):
        draw(metric, title, title, _by_direction(validations, metric))
    for name, title, unit in _SINGLE:
        draw(name, title, unit, {unit: _points(updates, name)})
    # Over the time, because that shows when a run stopped or slowed down.
    timed = _points(updates, "tokens_per_second", across=lambda event: float(event["seconds"]) / 60)
    draw("throughput_over_time", "Throughput over time", "tokens/s", {"tokens/s": timed}, "minutes")
    return drawn


def _write_picture(path: Path, across: str, upwards: str, lines: Mapping[str, Points]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel=across, ylabel=upwards)
    for label, points in lines.items():
        if points:
            axes.plot(
                *zip(*points, strict=True), marker="o" if len(points) < 50 else "", markersize=4, label=label
            )
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _points(
    events: Sequence[Event], value: str, across: Callable[[Event], float] = lambda event: float(event["step"])
) -> Points:
    return [(across(event), event[value]) for event in events if value in event]


def _by_direction(validations: Sequence[Event], metric: str) -> dict[str, Points]:
    pairs = dict.fromkeys(pair for event in validations for pair in event["directions"])
    return {
        pair: [
            (event["step"], event["directions"][pair][metric])
            for event in validations
            if pair in event["directions"]
        ]
        for pair in pairs
    }
