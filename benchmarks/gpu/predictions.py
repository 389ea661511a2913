"""What an H200 was predicted to do, by reading the code: the session prints it beside what it measures.

Nothing here was measured. The network is `base` (6 + 6 layers, 512 wide, 32,000 tokens) in bfloat16.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One figure.

    Attributes:
        what: What is measured.
        figure: Name of the figure that a part reports.
        unit: Unit of all its values.
        predicted: Of the code as it is; None without a prediction.
        goal: Of the code as it should become; None without one.
    """

    what: str
    figure: str
    unit: str
    predicted: float | None = None
    goal: float | None = None


PREDICTIONS: Sequence[Prediction] = (
    Prediction(what="kernels of a greedy step", figure="kernels.greedy", unit="", predicted=70, goal=40),
    Prediction(what="kernels of a beam step", figure="kernels.beam", unit="", predicted=72),
    Prediction(what="kernels of a sampling step", figure="kernels.sample", unit="", predicted=158),
    Prediction(what="Triton works: 1", figure="smoke.triton", unit="", predicted=1, goal=1),
    Prediction(
        what="attention kernel, 256 slots of 24 tokens",
        figure="kernel_us.attend",
        unit="µs",
        predicted=7,
        goal=5,
    ),
    Prediction(what="norm kernel, 256 rows", figure="kernel_us.add_norm", unit="µs", predicted=3, goal=2),
    Prediction(
        what="vocabulary kernel, 256 rows",
        figure="kernel_us.score_vocabulary",
        unit="µs",
        predicted=60,
        goal=25,
    ),
    Prediction(what="greedy step, 256 slots", figure="loop.step_us.256", unit="µs", predicted=320, goal=210),
    Prediction(what="greedy loop, 256 slots", figure="loop.tokens.256", unit="tokens/s", predicted=800e3),
    Prediction(what="greedy loop, 512 slots", figure="loop.tokens.512", unit="tokens/s", goal=1.2e6),
    Prediction(
        what="continuous batching",
        figure="continuous.tokens",
        unit="tokens/s",
        predicted=200e3,
        goal=600e3,
    ),
    Prediction(what="one sentence of 24 tokens", figure="continuous.alone_ms", unit="ms", goal=6),
    Prediction(what="training of base", figure="update.tokens", unit="tokens/s", predicted=1.2e6),
    Prediction(what="training, share of the peak", figure="update.mfu", unit="", predicted=0.3, goal=0.5),
    Prediction(what="steps that run eagerly", figure="smoke.eager", unit="", predicted=0, goal=0),
)


def table(figures: Mapping[str, float]) -> list[Mapping[str, str]]:
    """Rows of the table: a prediction, a goal, and what was measured, if it was."""
    return [
        {
            "what": each.what,
            "unit": each.unit or "–",
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
