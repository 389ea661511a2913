"""What an H200 was predicted to do, by reading the code: the session prints it beside what it measures.

Nothing here was measured. The network is `base` (6 + 6 layers, 512 wide, 32,000 tokens) in bfloat16.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Prediction(NamedTuple):
    """One figure, by the name that a part of the session reports it under."""

    what: str
    unit: str
    figure: str
    predicted: float | None  # of the code as it is
    goal: float | None  # of the code as it should become


PREDICTIONS: Sequence[Prediction] = (
    Prediction("kernels of a greedy step", "–", "kernels.greedy", 70, 40),
    Prediction("kernels of a beam step", "–", "kernels.beam", 72, None),
    Prediction("kernels of a sampling step", "–", "kernels.sample", 158, None),
    Prediction("Triton works: 1", "–", "smoke.triton", 1, 1),
    Prediction("attention kernel, 256 slots of 24 tokens", "µs", "kernel_us.attend", 7, 5),
    Prediction("norm kernel, 256 rows", "µs", "kernel_us.add_norm", 3, 2),
    Prediction("vocabulary kernel, 256 rows", "µs", "kernel_us.score_vocabulary", 60, 25),
    Prediction("greedy step, 256 slots", "µs", "loop.step_us.256", 320, 210),
    Prediction("greedy loop, 256 slots", "tokens/s", "loop.tokens.256", 800e3, None),
    Prediction("greedy loop, 512 slots", "tokens/s", "loop.tokens.512", None, 1.2e6),
    Prediction("continuous batching", "tokens/s", "continuous.tokens", 200e3, 600e3),
    Prediction("one sentence of 24 tokens", "ms", "continuous.alone_ms", None, 6),
    Prediction("steps that run eagerly", "–", "smoke.eager", 0, 0),
)


def table(figures: Mapping[str, float]) -> list[Mapping[str, str]]:
    """Rows of the table: a prediction, a goal, and what was measured, if it was."""
    return [
        {
            "what": each.what,
            "unit": each.unit,
            "predicted": _shown(each.predicted),
            "goal": _shown(each.goal),
            "measured": _shown(figures.get(each.figure)),
        }
        for each in PREDICTIONS
    ]


def _shown(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
