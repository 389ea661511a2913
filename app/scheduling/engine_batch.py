"""④ → ⑤ The sentences of one engine: added, stepped, dropped, and isolated when the engine raises.

When an engine raises, only the sentence at fault fails. The other sentences start again in groups half as
large, until the sentence at fault is alone; meanwhile no other sentence joins them. After a MemoryError the
engine gets less to do for a while (see OomBackoff).
"""

import dataclasses
import logging
import math
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from app.backend import Engine
from app.errors import OutOfMemoryError, ServiceError
from app.scheduling.backlog import SentenceJob
from app.telemetry.metrics import FailureReason
from model.decode_request import DecodeRequest, Hypothesis
from model.decoding.runner import Progress
from model.decoding.sentence import Sentence
from model.errors import (
    DecodingError,
    DeviceLostError,
    InputError,
    NotFiniteError,
    TextTooLongError,
    TranslationError,
)

logger = logging.getLogger(__name__)

Outcome = list[Hypothesis] | TranslationError | ServiceError
"""What became of one sentence: its hypotheses, best first, or why it failed."""

BACKOFF_SECONDS: Final = 30.0
# How long a call of an engine should take. Long enough that Python's work between two calls counts little,
# short enough for a sentence that arrives in the middle: interrupting the engine for each arrival costs more
# than half as long again (docs/journal.md).
_CALL_SECONDS = 0.005
_MAX_STEPS_PER_CALL = 1000


def as_failure(fault: Exception) -> TranslationError | ServiceError:
    """The outcome of the one sentence that made an engine raise."""
    if isinstance(fault, MemoryError):
        return OutOfMemoryError()
    if isinstance(fault, TextTooLongError) and fault.field == "source_ids":
        # Lengths were checked against the checkpoint's limits before; only the decoder state can be short.
        limit_name = "MAX_STATE_BYTES, in positions of the decoder"
        return TextTooLongError("q", limit_name, fault.limit, fault.value)
    if isinstance(fault, TranslationError):
        return fault
    logger.error("decoding failed", exc_info=fault)
    return DecodingError("the sentence could not be decoded")


def failure_reason(outcome: Outcome) -> FailureReason | None:
    """The metric label of a failure; None for a translation, and for an error that the client can mend."""
    if isinstance(outcome, (list, InputError)):
        return None
    if isinstance(outcome, NotFiniteError):
        return "non_finite"
    return "out_of_memory" if isinstance(outcome, OutOfMemoryError) else "fault"


class OomBackoff:
    """For BACKOFF_SECONDS an engine gets at most half of what it had when it ran out of memory.

    Otherwise it would run out again as soon as it was full, and all its sentences would start again each
    time. A single sentence is always tried.
    """

    def __init__(self) -> None:
        self._max_load = math.inf
        self._until = -math.inf

    def start(self, jobs: Iterable[SentenceJob], now: float) -> None:
        """Record that an engine ran out of memory.

        Args:
            jobs: All sentences that it had.
            now: Seconds of the monotonic clock.
        """
        self._max_load = load_of(jobs) / 2
        self._until = now + BACKOFF_SECONDS

    def permits(self, jobs: Collection[SentenceJob], cost: int, now: float) -> bool:
        """Returns whether a sentence may join the sentences of an engine.

        Args:
            jobs: The sentences that the engine has.
            cost: Cost of the sentence that would join.
            now: Seconds of the monotonic clock.
        """
        return not jobs or now >= self._until or load_of(jobs) + cost <= self._max_load


def load_of(jobs: Iterable[SentenceJob]) -> int:
    """Total cost of sentences."""
    return sum(job.cost for job in jobs)


@dataclass(frozen=True)
class StepResults:
    """What came of one call of an engine, which is one or more decoder steps.

    Attributes:
        finished: Sentences that have ended, each with its outcome.
        grown: Streamed sentences of which more tokens are certain than before, each with all certain tokens.
        progress: What the engine reported.
    """

    finished: list[tuple[SentenceJob, Outcome]] = field(default_factory=list)
    grown: list[tuple[SentenceJob, tuple[int, ...]]] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)


class EngineBatch:
    """The sentences of one engine; isolates a sentence that makes the engine raise.

    One thread uses it; only `interrupt` is thread-safe.

    Args:
        engine: Only this batch adds sentences to it.
        backoff: What is known of the engine's memory; nothing by default.
    """

    def __init__(self, engine: Engine, backoff: OomBackoff | None = None) -> None:
        self.interrupt = engine.interrupt
        self._engine = engine
        self._jobs: dict[Sentence, SentenceJob] = {}
        self._sentences: dict[SentenceJob, Sentence] = {}
        # How many tokens of a streamed sentence were reported.
        self._num_shown: dict[SentenceJob, int] = {}
        # Sentences that the engine did not accept; the next step reports them.
        self._rejected: list[tuple[SentenceJob, Outcome]] = []
        self._backoff = backoff or OomBackoff()
        # One of these made the engine raise; they are tried again in groups.
        self._suspects: dict[SentenceJob, DecodeRequest] = {}
        self._groups: list[list[SentenceJob]] = []
        self._steps_per_call = 1

    @property
    def is_idle(self) -> bool:
        """Returns whether there is nothing to decode and nothing to report."""
        return not (self._jobs or self._suspects or self._rejected)

    def fits(self, job: SentenceJob) -> bool:
        """Returns whether one more sentence may join now."""
        if self._suspects or not self._engine.fits(job.request):
            return False
        return self._backoff.permits(self._sentences, job.cost, time.monotonic())

    def add(self, job: SentenceJob) -> None:
        """Add a sentence; if the engine rejects it, the next step reports that."""
        try:
            # A sentence that starts again has the seed that it was given.
            sentence = self._engine.add(self._suspects.get(job, job.request))
        except Exception as fault:
            self._forget(job)
            self._rejected.append((job, as_failure(fault)))
            return
        self._jobs[sentence] = job
        self._sentences[job] = sentence
        if job.is_streamed:
            self._num_shown.setdefault(job, 0)

    def drop(self, job: SentenceJob) -> None:
        """Forget a sentence, wherever it is."""
        self._forget(job)
        if not self._suspects:
            self._groups.clear()
        sentence = self._sentences.pop(job, None)
        if sentence is not None:
            del self._jobs[sentence]
            if not self._cancel(sentence):
                # The engine has forgotten this sentence, but also the others, which are not at fault.
                self._groups.append(self._recall())

    def step(self) -> StepResults:
        """Decode at least one more token of each sentence; blocks for some milliseconds."""
        if not self._jobs:
            self._add_next_group()
        finished, self._rejected = self._rejected, []
        is_joining = self._engine.running < len(self._jobs)
        try:
            # A sentence that waits for the encoder must not wait for a whole call.
            progress = self._engine.step(max_steps=1 if is_joining else self._steps_per_call)
            finished += self._collect(progress)
            return StepResults(finished, self._growth(), progress)
        except DeviceLostError:
            raise
        except Exception as fault:
            # An engine may raise anything else, and its thread must outlive that.
            return StepResults(finished + self._isolate(fault))

    def _collect(self, progress: Progress) -> list[tuple[SentenceJob, Outcome]]:
        if progress.steps:
            step_seconds = sum(step.seconds for step in progress.steps) / len(progress.steps)
            steps = int(_CALL_SECONDS / max(step_seconds, 1e-6))
            self._steps_per_call = min(max(steps, 1), _MAX_STEPS_PER_CALL)
        finished: list[tuple[SentenceJob, Outcome]] = []
        for sentence, result in progress.finished:
            job = self._jobs.pop(sentence)
            del self._sentences[job]
            self._forget(job)
            finished.append((job, result))
        return finished

    def _add_next_group(self) -> None:
        for job in self._groups.pop() if self._groups else ():
            if job in self._suspects:
                self.add(job)

    def _isolate(self, fault: Exception) -> list[tuple[SentenceJob, Outcome]]:
        """Empty the engine; a sentence that was alone in it is at fault, several become two groups."""
        jobs = self._recall()
        if isinstance(fault, MemoryError):
            self._backoff.start(jobs, time.monotonic())
        if len(jobs) > 1:
            middle = len(jobs) // 2
            self._groups += [jobs[middle:], jobs[:middle]]
            return []
        for job in jobs:
            self._forget(job)
        return [(job, as_failure(fault)) for job in jobs]

    def _cancel(self, sentence: Sentence) -> bool:
        """Returns whether the engine gave a sentence back; otherwise it has forgotten all of them."""
        try:
            self._engine.cancel(sentence)
        except Exception as fault:
            logger.error("a sentence could not be cancelled", exc_info=fault)
            return False
        return True

    def _recall(self) -> list[SentenceJob]:
        """Take all sentences back from the engine; they are suspects, and wait to be added again."""
        for sentence in self._jobs:
            self._cancel(sentence)
        jobs = list(self._sentences)
        self._suspects.update({job: _repeatable(sentence) for job, sentence in self._sentences.items()})
        self._jobs.clear()
        self._sentences.clear()
        return jobs

    def _forget(self, job: SentenceJob) -> None:
        """Forget that a sentence is a suspect, and what was reported of its growth."""
        self._suspects.pop(job, None)
        self._num_shown.pop(job, None)

    def _growth(self) -> list[tuple[SentenceJob, tuple[int, ...]]]:
        grown = []
        for job, num_shown in self._num_shown.items():
            ids = self._engine.stable_prefix(self._sentences[job]) if job in self._sentences else ()
            if len(ids) > num_shown:
                self._num_shown[job] = len(ids)
                grown.append((job, ids))
        return grown


def _repeatable(sentence: Sentence) -> DecodeRequest:
    """The same request with the seed that it was given, so that what a client has seen stays true."""
    if sentence.options.strategy != "sample":
        return sentence.request
    options = dataclasses.replace(sentence.options, seed=sentence.seed)
    return dataclasses.replace(sentence.request, options=options)
