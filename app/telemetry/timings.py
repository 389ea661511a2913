"""① … ⑨ Where one request's time goes; told in `Server-Timing`, in its log line and in its trace.

    read = split + encode → queue → decode → finish

The request at hand is found through a context variable, so nobody has to pass it on.
"""

import time
from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import Final, Literal, NamedTuple

Stage = Literal["split", "encode", "queue", "decode", "finish"]
MIXED: Final = "mixed"

_current: ContextVar["Timings"] = ContextVar("stages")

clock: Final = time.monotonic
"""Seconds that never go back."""


class Span(NamedTuple):
    """One stage of a request, once it is over; seconds of the clock."""

    began: float
    ended: float
    stage: Stage


class Timings:
    """One request's way through the service, as far as it came.

    Attributes:
        spans: In the order in which they ended. A stage may come more than once: a text that goes by way
            of a third language is decoded twice, and second attempts at sentences run side by side.
        items: Its texts.
        characters: Of all of them.
        source_tokens: That were translated.
        target_tokens: That came of it.
    """

    __slots__ = ("_pair", "characters", "items", "source_tokens", "spans", "target_tokens")

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.items = 0
        self.characters = 0
        self.source_tokens = 0
        self.target_tokens = 0
        self._pair = ""

    def passed(self, stage: Stage, began: float, ended: float) -> None:
        """A stage is over."""
        self.spans.append(Span(began, ended, stage))

    def during(self, stage: Stage) -> "StageTimer":
        """A stage lasts as long as the block, however that ends."""
        return StageTimer(self, stage)

    def split_off(self, stage: Stage, seconds: float) -> None:
        """So much of the last stage was another one, a bit now and then; told as if it had come behind."""
        began, ended, last = self.spans.pop()
        between = max(ended - seconds, began)
        self.passed(last, began, between)
        self.passed(stage, between, ended)

    def has_decoded(self, began: float, taken: float | None, ended: float) -> None:
        """Sentences have left the scheduler.

        Args:
            began: When they came.
            taken: When the first reached an engine; None if none did.
            ended: When they were done, or given up.
        """
        self.passed("queue", began, ended if taken is None else taken)
        if taken is not None:
            self.passed("decode", taken, ended)

    def count(self, pair: str, source_tokens: int, target_tokens: int) -> None:
        """A text was translated."""
        self._pair = pair if self._pair in ("", pair) else MIXED
        self.source_tokens += source_tokens
        self.target_tokens += target_tokens

    def seconds(self) -> dict[Stage, float]:
        """How long each stage took, in the order in which they began; what ran side by side counts once."""
        totals: dict[Stage, float] = {}
        reached: dict[Stage, float] = {}
        for began, ended, stage in sorted(self.spans):
            known = reached.get(stage, began)
            if ended >= known:
                totals[stage] = totals.get(stage, 0.0) + ended - max(began, known)
                reached[stage] = ended
        return totals

    def facts(self) -> Mapping[str, int | str]:
        """How much there was to do, where there was anything; bounded, and nothing of a text."""
        if not self.items:
            return {}
        return {
            "items": self.items,
            "characters": self.characters,
            "source_tokens": self.source_tokens,
            "target_tokens": self.target_tokens,
            "pair": self._pair,
        }


class StageTimer:
    """See `Timings.during`; a third of what a generator would cost."""

    __slots__ = ("_began", "_stage", "_stages")

    def __init__(self, timings: Timings, stage: Stage) -> None:
        self._stages = timings
        self._stage = stage

    def __enter__(self) -> None:
        self._began = clock()

    def __exit__(self, *_fault: object) -> None:
        self._stages.passed(self._stage, self._began, clock())


def begin(timings: Timings) -> Token[Timings]:
    """A request is at hand until `end`."""
    return _current.set(timings)


def end(token: Token[Timings]) -> None:
    """The request is over."""
    _current.reset(token)


def current() -> Timings:
    """The request at hand; outside any, one that nobody will read."""
    return _current.get(None) or Timings()


def server_timing(timings: Timings) -> bytes:
    """What passed so far, for the header, in milliseconds (https://www.w3.org/TR/server-timing/)."""
    return ", ".join(f"{stage};dur={1e3 * spent:.3f}" for stage, spent in timings.seconds().items()).encode()
