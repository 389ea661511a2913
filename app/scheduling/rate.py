"""④ How fast the engine works just now, and so how long a refused client should wait."""

import math

# Half of the weight lies on the last three or so batches: quick to notice a change of load.
_SMOOTHING = 0.2
_LONGEST_WAIT = 60


class MeasuredRate:
    """Smoothed throughput in tokens of cost a second."""

    def __init__(self) -> None:
        self.tokens_per_second: float | None = None

    def record(self, tokens: int, seconds: float) -> None:
        """Take one decoded batch into account."""
        measured = tokens / max(seconds, 1e-6)
        known = self.tokens_per_second
        self.tokens_per_second = measured if known is None else known + _SMOOTHING * (measured - known)

    def seconds_for(self, tokens: int) -> int:
        """Whole seconds in which this many tokens get done, between 1 and 60; 1 before any measurement."""
        if self.tokens_per_second is None:
            return 1
        return min(max(math.ceil(tokens / self.tokens_per_second), 1), _LONGEST_WAIT)
