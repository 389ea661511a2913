"""⑤ What steps a running batch, behind one protocol, and what observes it. No torch."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from model.decoding.sentence import Sentence
from model.errors import TranslationError
from model.request import Hypothesis


class Interrupt:
    """A flag that any thread may set and that the native library reads where it lies."""

    def __init__(self) -> None:
        self._flag = ctypes.c_int32(0)

    def set(self) -> None:
        """Ask the runner to return after the step it is at."""
        self._flag.value = 1

    def clear(self) -> None:
        """Take the wish back; by the thread that obeyed it."""
        self._flag.value = 0

    def is_set(self) -> bool:
        """Whether somebody asked."""
        return self._flag.value != 0

    @property
    def address(self) -> int:
        """Where the flag lies, an int32, as long as this object lives."""
        return ctypes.addressof(self._flag)


class Observer(Protocol):
    """Told by the engine what it did, on the engine's thread."""

    def encoded(self, seconds: float) -> None:
        """One batch went through the encoder and its decoder state was made."""

    def stepped(self, seconds: float, rows: int, sentences: int) -> None:
        """One decoder step ended.

        Args:
            seconds: Network, search and the host's look at what has finished.
            rows: Lanes that were computed, over all slots.
            sentences: Those that moved on by one target token.
        """

    def first_token(self, seconds: float) -> None:
        """One more sentence is known to have its first token, so long after it was added."""


class SilentObserver:
    """Observes nothing."""

    def encoded(self, seconds: float) -> None:
        """See Observer."""

    def stepped(self, seconds: float, rows: int, sentences: int) -> None:
        """See Observer."""

    def first_token(self, seconds: float) -> None:
        """See Observer."""


Result = list[Hypothesis] | TranslationError


@dataclass(frozen=True)
class StepRecord:
    """One decoder step.

    Attributes:
        seconds: Network, search, and finding out which sentences are done.
        rows: Hypotheses that were computed.
        sentences: They belong to so many.
    """

    seconds: float
    rows: int
    sentences: int


@dataclass(frozen=True)
class Progress:
    """What became of a few steps.

    Attributes:
        finished: Sentences that are done and have left, each with its hypotheses, best first, or
            the error that it alone met.
        steps: Every step, in order.
        started: Sentences that got their first token.
    """

    finished: list[tuple[Sentence, Result]] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    started: list[Sentence] = field(default_factory=list)


class Runner(Protocol):
    """One running batch. Sentences join between two steps and leave when they are done.

    Not thread-safe: one thread drives it; only the interrupt may be set by others.
    """

    @property
    def max_rows(self) -> int:
        """Most hypotheses at once."""

    @property
    def max_positions(self) -> int:
        """Most entries of decoder state; allocated beforehand, never exceeded."""

    def admit(self, sentences: Sequence[Sentence]) -> None:
        """Encode sentences as one batch; they take part from the next step on.

        The caller has made sure that they fit: the sum of their `rows` and `positions` beside those
        that run. If this raises, none of them has joined; where there was no memory, it is MemoryError.
        """

    def advance(self, interrupt: Interrupt, max_steps: int) -> Progress:
        """Do a step, or several: until a sentence has finished, or the interrupt is set, or `max_steps`.

        At least one step is done, unless nothing runs. A sentence whose numbers break, or whose
        options leave no token, finishes with its error. If this raises, what ran is lost: the caller
        drops all of it. Where there was no memory, it is MemoryError.
        """

    def drop(self, sentences: Sequence[Sentence]) -> None:
        """Forget running sentences: gone before the next step, their room given back."""

    def stable_prefix(self, sentence: Sentence) -> tuple[int, ...]:
        """Target tokens that all live hypotheses, and the best finished one, begin with.

        They are never taken back: the sentence's best result begins with them.

        Raises:
            MemoryError: If the device finds no room for it.
        """

    def close(self) -> None:
        """Give back what the runner holds."""
