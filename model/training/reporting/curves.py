"""ⓕ The run's curves as PNG: loss, learning rate, and the scores of the translations."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from model.training.reporting.journal import Event

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Draw = Callable[["Axes"], None]


def write_curves(events: Sequence[Event], folder: Path) -> list[Path]:
    """Draw `loss.png`, `learning_rate.png` and `scores.png`.

    Args:
        events: The journal's.
        folder: Where to write; made if need be.

    Returns:
        The files. Needs matplotlib, which the extra `train` brings.
    """
    updates = [event for event in events if event["kind"] == "update"]
    validations = [event for event in events if event["kind"] == "validation"]
    drawings: Mapping[str, tuple[str, Draw]] = {
        "loss": ("nats a target token", lambda axes: _draw_loss(axes, updates, validations)),
        "learning_rate": ("learning rate", lambda axes: _draw(axes, updates, "learning_rate", "rate")),
        "scores": ("score of the validation text", lambda axes: _draw_scores(axes, validations)),
    }
    return [_write(folder / f"{name}.png", *drawing) for name, drawing in drawings.items()]


def _write(path: Path, label: str, draw: Draw) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="step", ylabel=label)
    draw(axes)
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path


def _draw(axes: "Axes", events: Sequence[Event], name: str, label: str, marker: str = "") -> None:
    if events:
        axes.plot([e["step"] for e in events], [e[name] for e in events], marker=marker, label=label)


def _draw_loss(axes: "Axes", updates: Sequence[Event], validations: Sequence[Event]) -> None:
    _draw(axes, updates, "loss", "training, smoothed labels")
    _draw(axes, updates, "cross_entropy", "training, cross entropy")
    _draw(axes, validations, "cross_entropy", "validation, cross entropy", "o")


def _draw_scores(axes: "Axes", validations: Sequence[Event]) -> None:
    for pair in validations[-1]["directions"] if validations else ():
        for metric, label in (("bleu", "BLEU"), ("chrf", "chrF")):
            scored = [
                {"step": e["step"], **e["directions"][pair]} for e in validations if pair in e["directions"]
            ]
            _draw(axes, scored, metric, f"{pair} {label}", "o")
