"""① … ⑨ How long each stage of a request took: for `Server-Timing`, its log line and its trace.

    read = split (+ load) + encode → queue → decode → finish

A context variable holds the timings of the current request, so that they need not be passed along.
"""

import time
from contextvars import ContextVar, Token
from typing import Final, Literal, Self

Stage = Literal["split", "load", "encode", "queue", "decode", "finish"]
MIXED: Final = "mixed"

_current: ContextVar["Timings"] = ContextVar("timings")

clock: Final = time.monotonic
"""Monotonic seconds."""

Span = tuple[float, float, Stage]
"""One finished stage of a request: when it began and ended, in seconds of the clock, and its name."""


class Timings:
    """The stages of one request so far, and how much there was to translate.

    Attributes:
        spans: In the order in which they ended. A stage may occur more than once: a text that is translated
            through a pivot language is decoded twice, and second attempts at sentences run in parallel.
        items: Number of texts.
        characters: Characters of all texts.
        source_tokens: Tokens that were translated.
        target_tokens: Tokens of the translations.
    """

    __slots__ = (
        "_began",
        "_num_summed",
        "_pair",
        "_stage",
        "_totals",
        "characters",
        "items",
        "source_tokens",
        "spans",
        "target_tokens",
    )

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.items = 0
        self.characters = 0
        self.source_tokens = 0
        self.target_tokens = 0
        self._began = 0.0
        self._stage: Stage
        self._pair = ""
        self._totals: dict[Stage, float] = {}
        self._num_summed = 0

    def record(self, stage: Stage, began: float, ended: float) -> None:
        """Add a finished stage."""
        self.spans.append((began, ended, stage))

    def during(self, stage: Stage) -> Self:
        """Measure a stage that lasts as long as the `with` block, in which no other block may begin."""
        self._stage = stage
        return self

    def __enter__(self) -> None:
        self._began = clock()

    def __exit__(self, *_fault: object) -> None:
        if self.spans and self.spans[-1][2] == self._stage:
            # Nothing was recorded between the two, so they become one span.
            self._began, self._num_summed = self.spans.pop()[0], 0
        self.spans.append((self._began, clock(), self._stage))

    def split_off(self, stage: Stage, seconds: float) -> None:
        """Attribute part of the last stage to another one, as if that had followed it.

        Args:
            stage: The other one; the two alternated.
            seconds: How long it took.
        """
        began, ended, last = self.spans.pop()
        between = max(ended - seconds, began)
        self.record(last, began, between)
        self.record(stage, between, ended)

    def record_decoding(self, began: float, taken: float | None, ended: float) -> None:
        """Add the time that sentences spent in the scheduler.

        Args:
            began: When they were queued.
            taken: When the first reached an engine; None if none did.
            ended: When they were finished or given up.
        """
        self.record("queue", began, ended if taken is None else taken)
        if taken is not None:
            self.record("decode", taken, ended)

    def count_tokens(self, pair: str, source_tokens: int, target_tokens: int) -> None:
        """Count the tokens of one translated text."""
        self._pair = pair if self._pair in ("", pair) else MIXED
        self.source_tokens += source_tokens
        self.target_tokens += target_tokens

    def seconds(self) -> dict[Stage, float]:
        """How long each stage took, in the order in which they began; parallel spans count once."""
        if len(self.spans) == self._num_summed:
            return self._totals
        self._num_summed = len(self.spans)
        totals: dict[Stage, float] = {}
        reached: dict[Stage, float] = {}
        for began, ended, stage in sorted(self.spans):
            if stage not in reached:
                totals[stage] = ended - began
            elif ended >= (known := reached[stage]):
                totals[stage] += ended - max(began, known)
            else:
                continue
            reached[stage] = ended
        self._totals = totals
        return totals

    def sizes(self) -> dict[str, int | str]:
        """How much there was to translate; empty without texts, and never anything of a text."""
        if not self.items:
            return {}
        return {
            "items": self.items,
            "characters": self.characters,
            "source_tokens": self.source_tokens,
            "target_tokens": self.target_tokens,
            "pair": self._pair,
        }


def set_current_timings(timings: Timings) -> Token[Timings]:
    """Make these the current timings, until `reset_current_timings`."""
    return _current.set(timings)


def reset_current_timings(token: Token[Timings]) -> None:
    """Restore the timings that were current before `set_current_timings`."""
    _current.reset(token)


def current_timings() -> Timings:
    """The timings of the current request; outside of requests, new ones that are discarded."""
    return _current.get(None) or Timings()


def server_timing(timings: Timings) -> bytes:
    """The stages so far as a `Server-Timing` value, in milliseconds (https://www.w3.org/TR/server-timing/)."""
    stages = [f"{stage};dur={1e3 * spent:.3f}" for stage, spent in timings.seconds().items()]
    return ", ".join(stages).encode()
