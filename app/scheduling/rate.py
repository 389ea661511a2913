"""④ How fast the engines work just now, and so how long a refused client should wait."""

import math
import threading

# Half of the weight lies on the last two seconds of work: quick to notice a change of load.
_HALF_LIFE_SECONDS = 2.0
_LONGEST_WAIT = 60
# Less work than this tells too little: a batch that has only begun has finished nothing yet.
_EVIDENCE_SECONDS = 0.5


class MeasuredRate:
    """Smoothed throughput of all workers, were they all at work; thread-safe.

    Args:
        workers: How many engines can work at once.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._done = (0.0, 0.0)  # tokens and seconds, replaced at once: who reads needs no lock

    @property
    def tokens_per_second(self) -> float | None:
        """In tokens of cost; None before anything was finished."""
        tokens, seconds = self._done
        return self._workers * tokens / seconds if tokens else None

    def record(self, tokens: int, seconds: float) -> None:
        """Take into account what one worker finished (often nothing) in so many seconds of work."""
        kept = 0.5 ** (seconds / _HALF_LIFE_SECONDS)
        with self._lock:
            before = self._done
            self._done = (kept * before[0] + tokens, kept * before[1] + max(seconds, 1e-6))

    def seconds_for(self, tokens: int) -> int:
        """Whole seconds in which this many tokens get done, between 1 and 60; 1 before any measurement."""
        rate = self.tokens_per_second
        return 1 if rate is None else min(max(math.ceil(tokens / rate), 1), _LONGEST_WAIT)

    def predict(self, tokens: int) -> float:
        """Seconds in which this many tokens get done; 0 before there is enough to tell from."""
        rate = self.tokens_per_second
        return tokens / rate if rate is not None and self._done[1] >= _EVIDENCE_SECONDS else 0.0
