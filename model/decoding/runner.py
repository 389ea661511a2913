"""⑤ What steps a running batch, behind one protocol, and what it reports. No torch."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from model.decode_request import Hypothesis
from model.decoding.sentence import Sentence
from model.errors import TranslationError

Result = list[Hypothesis] | TranslationError


class Interrupt:
    """A flag that any thread may set; the native library reads it at its address."""

    def __init__(self) -> None:
        self._flag = ctypes.c_int32(0)

    def set(self) -> None:
        """Ask the runner to return after its current step."""
        self._flag.value = 1

    def clear(self) -> None:
        """Reset the flag; called by the thread that drives the runner."""
        self._flag.value = 0

    def is_set(self) -> bool:
        """Returns whether the flag is set."""
        return self._flag.value != 0

    @property
    def address(self) -> int:
        """Address of the flag, an int32, valid as long as this object lives."""
        return ctypes.addressof(self._flag)


@dataclass(frozen=True)
class StepRecord:
    """One decoder step.

    Attributes:
        seconds: Network, search, and finding out which sentences are done.
        rows: Hypotheses that were computed.
        sentences: Number of sentences that they belong to.
    """

    seconds: float
    rows: int
    sentences: int


@dataclass(frozen=True)
class Progress:
    """The outcome of a few steps.

    Attributes:
        finished: Sentences that are done and have left, each with its hypotheses, best first, or
            its error.
        steps: Every step, in order.
        started: Sentences that got their first token.
        first_token_seconds: Time from their arrival to their first token; the engine adds it.
        encoder_seconds: Time to encode each batch of sentences that joined; the engine adds it.
    """

    finished: list[tuple[Sentence, Result]] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    started: list[Sentence] = field(default_factory=list)
    first_token_seconds: list[float] = field(default_factory=list)
    encoder_seconds: list[float] = field(default_factory=list)


class Runner(Protocol):
    """One running batch. Sentences join between two steps and leave when they are done.

    Not thread-safe: one thread drives it; only the interrupt may be set by others.
    """

    @property
    def max_rows(self) -> int:
        """Most hypotheses at once."""

    @property
    def max_kv_slots(self) -> int:
        """Most KV slots; allocated beforehand, never exceeded."""

    def admit(self, sentences: Sequence[Sentence]) -> None:
        """Encode sentences as one batch; they take part from the next step on.

        The caller makes sure that the sums of `rows` and `kv_slots` fit in addition to the running
        sentences. If this raises, none of them has joined; MemoryError means that memory ran out.
        """

    def advance(self, interrupt: Interrupt, max_steps: int) -> Progress:
        """Do steps until a sentence has finished, the interrupt is set, or `max_steps` are done.

        A runner on a GPU may report a sentence one step after it has finished.
        At least one step is done, unless nothing runs. A sentence with NaN or infinity, or whose options
        leave no token, finishes with its error. If this raises, the running batch is lost and the caller
        drops all of its sentences; MemoryError means that memory ran out.
        """

    def drop(self, sentences: Sequence[Sentence]) -> None:
        """Remove running sentences before the next step and free what they occupy."""

    def stable_prefix(self, sentence: Sentence) -> tuple[int, ...]:
        """Target tokens that all live hypotheses, and the best finished one, begin with.

        They are final: the sentence's best result begins with them.

        Raises:
            MemoryError: If the device has no memory for the computation.
        """

    def close(self) -> None:
        """Free what the runner holds."""
