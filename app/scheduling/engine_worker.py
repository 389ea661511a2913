"""④ → ⑤ One thread that steps the engines of its worker: jobs in, steps, outcomes out.

A turn that raises takes nothing with it but the sentence at fault: the others start again in groups
half as large, until it is alone. Meanwhile no other sentence joins them. If what was raised is
MemoryError, the engine gets less to do for a while (see ceiling).
"""

import dataclasses
import logging
import math
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from app.backend import Engine
from app.errors import OutOfMemoryError, ServiceError
from app.scheduling.backlog import SentenceJob
from app.scheduling.dispatcher import Dispatcher
from app.telemetry.metrics import FailureReason
from model.decoding.runner import Observer, Progress
from model.decoding.sentence import Sentence
from model.errors import DecodingError, InputError, NotFiniteError, TextTooLongError, TranslationError
from model.request import DecodeRequest, Hypothesis

logger = logging.getLogger(__name__)

Outcome = list[Hypothesis] | TranslationError | ServiceError
"""Of one sentence: its hypotheses, best first, or why it failed."""


def as_failure(fault: Exception) -> TranslationError | ServiceError:
    """What became of the one sentence that is to blame for what an engine raised."""
    if isinstance(fault, MemoryError):
        return OutOfMemoryError()
    if isinstance(fault, TextTooLongError) and fault.field == "source_ids":
        # Lengths were checked against the checkpoint's before; what is left is room for its hypotheses.
        limit_name = "MAX_STATE_BYTES, in positions of the decoder"
        return TextTooLongError("q", limit_name, fault.limit, fault.value)
    if isinstance(fault, TranslationError):
        return fault
    logger.error("decoding failed", exc_info=fault)
    return DecodingError("the sentence could not be decoded")


def failure_reason(outcome: Outcome) -> FailureReason | None:
    """What a failure counts as; None of a translation, and of what the client can mend."""
    if isinstance(outcome, (list, InputError)):
        return None
    if isinstance(outcome, NotFiniteError):
        return "non_finite"
    return "out_of_memory" if isinstance(outcome, OutOfMemoryError) else "fault"


SECONDS: Final = 30.0


class OomBackoff:
    """For half a minute an engine gets at most half of what it had when it ran out of memory.

    Else it would run out again as soon as it was full again, and all its sentences would start anew each
    time. One sentence alone is always worth a try.
    """

    def __init__(self) -> None:
        self._most = math.inf
        self._until = -math.inf

    def lower(self, jobs: Iterable[SentenceJob], now: float) -> None:
        """An engine with these sentences found no memory.

        Args:
            jobs: All that it had.
            now: Seconds of the monotonic clock.
        """
        self._most = load_of(jobs) / 2
        self._until = now + SECONDS

    def permits(self, jobs: Collection[SentenceJob], cost: int, now: float) -> bool:
        """Whether a sentence may join those that an engine has.

        Args:
            jobs: Those.
            cost: Of the sentence.
            now: Seconds of the monotonic clock.
        """
        return not jobs or now >= self._until or load_of(jobs) + cost <= self._most


def load_of(jobs: Iterable[SentenceJob]) -> int:
    """What sentences cost together."""
    return sum(job.cost for job in jobs)


# Long enough for what Python does between two turns to count little, short enough for who comes in the middle
# of one: to interrupt the engine for each costs more than half as long again (docs/journal.md).
_TURN_SECONDS = 0.005
_MOST_STEPS = 1000


@dataclass(frozen=True)
class StepResults:
    """What became of a few steps.

    Attributes:
        finished: Jobs that are done, each with its hypotheses or why it alone failed.
        grown: Followed jobs of which more is certain than before, each with all that is.
    """

    finished: list[tuple[SentenceJob, Outcome]] = field(default_factory=list)
    grown: list[tuple[SentenceJob, tuple[int, ...]]] = field(default_factory=list)


class EngineBatch:
    """Drives an engine; used by one thread, save for `interrupt`.

    Args:
        engine: Nobody else adds to it.
        observer: Is told how long the parts of decoding take.
    """

    def __init__(self, engine: Engine, observer: Observer) -> None:
        self.interrupt = engine.interrupt
        self._engine = engine
        self._observer = observer
        self._jobs: dict[Sentence, SentenceJob] = {}
        self._sentences: dict[SentenceJob, Sentence] = {}
        self._shown: dict[SentenceJob, int] = {}
        self._refused: list[tuple[SentenceJob, Outcome]] = []
        self._backoff = OomBackoff()
        self._suspects: dict[SentenceJob, DecodeRequest] = {}
        self._groups: list[list[SentenceJob]] = []
        self._max_steps = 1

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do and nothing to tell."""
        return not (self._jobs or self._suspects or self._refused)

    def fits(self, job: SentenceJob) -> bool:
        """Whether one more sentence may join now."""
        if self._suspects or not self._engine.fits(job.request):
            return False
        return self._backoff.permits(self._sentences, job.cost, time.monotonic())

    def add(self, job: SentenceJob) -> None:
        """Let a job join; the next turn tells if the engine refuses it."""
        self._add(job, job.request)

    def drop(self, job: SentenceJob) -> None:
        """Forget a job, wherever it is."""
        self._clear(job)
        if not self._suspects:
            self._groups.clear()
        sentence = self._sentences.pop(job, None)
        if sentence is not None:
            del self._jobs[sentence]
            if not self._cancel(sentence):
                # It is gone all the same, but so are the others, who are not to blame.
                self._groups.append(self._recall())

    def advance(self) -> StepResults:
        """Move everything on by at least one token; blocks for some milliseconds."""
        if not self._jobs:
            self._add_next_group()
        finished, self._refused = self._refused, []
        is_joining = self._engine.running < len(self._jobs)
        try:
            # Who still waits for the encoder must not wait for a whole turn.
            progress = self._engine.step(self._observer, max_steps=1 if is_joining else self._max_steps)
            finished += self._take_back(progress)
            return StepResults(finished, self._growth())
        except Exception as fault:
            # Anything may come out of an engine, and its thread must outlive it.
            return StepResults(finished + self._blame(fault))

    def _take_back(self, progress: Progress) -> list[tuple[SentenceJob, Outcome]]:
        if progress.steps:
            step_seconds = sum(step.seconds for step in progress.steps) / len(progress.steps)
            self._max_steps = min(max(int(_TURN_SECONDS / max(step_seconds, 1e-6)), 1), _MOST_STEPS)
        finished: list[tuple[SentenceJob, Outcome]] = []
        for sentence, result in progress.finished:
            finished.append((self._jobs[sentence], result))
            self._forget(sentence)
        return finished

    def _add(self, job: SentenceJob, request: DecodeRequest) -> None:
        try:
            sentence = self._engine.add(request)
        except Exception as fault:
            self._clear(job)
            self._refused.append((job, as_failure(fault)))
            return
        self._jobs[sentence] = job
        self._sentences[job] = sentence
        if job.is_streamed:
            self._shown.setdefault(job, 0)

    def _add_next_group(self) -> None:
        for job in self._groups.pop() if self._groups else ():
            if job in self._suspects:
                self._add(job, self._suspects[job])

    def _blame(self, fault: Exception) -> list[tuple[SentenceJob, Outcome]]:
        """Find out who is at fault; until then the engine has nobody."""
        jobs = self._recall()
        if isinstance(fault, MemoryError):
            self._backoff.lower(jobs, time.monotonic())
        if len(jobs) > 1:
            middle = len(jobs) // 2
            self._groups += [jobs[middle:], jobs[:middle]]
            return []
        for job in jobs:
            self._clear(job)
        return [(job, as_failure(fault)) for job in jobs]

    def _cancel(self, sentence: Sentence) -> bool:
        """Whether the engine could take it back; otherwise it has forgotten everybody."""
        try:
            self._engine.cancel(sentence)
        except Exception as fault:
            logger.error("a sentence could not be taken back", exc_info=fault)
            return False
        return True

    def _recall(self) -> list[SentenceJob]:
        """Take everybody back from the engine, to be added again."""
        for sentence in self._jobs:
            self._cancel(sentence)
        jobs = list(self._sentences)
        self._suspects.update({job: _repeatable(sentence) for job, sentence in self._sentences.items()})
        self._jobs.clear()
        self._sentences.clear()
        return jobs

    def _forget(self, sentence: Sentence) -> None:
        job = self._jobs.pop(sentence)
        del self._sentences[job]
        self._clear(job)

    def _clear(self, job: SentenceJob) -> None:
        """Neither suspect nor shown any more."""
        self._suspects.pop(job, None)
        self._shown.pop(job, None)

    def _growth(self) -> list[tuple[SentenceJob, tuple[int, ...]]]:
        grown = []
        for job, shown in self._shown.items():
            ids = self._engine.agreed(self._sentences[job]) if job in self._sentences else ()
            if len(ids) > shown:
                self._shown[job] = len(ids)
                grown.append((job, ids))
        return grown


def _repeatable(sentence: Sentence) -> DecodeRequest:
    """The same request with the random numbers it was given: what a client has seen stays true."""
    if sentence.options.strategy != "sample":
        return sentence.request
    options = dataclasses.replace(sentence.options, seed=sentence.seed)
    return dataclasses.replace(sentence.request, options=options)


class WorkerCallbacks(Protocol):
    """Who hears from the workers, on their threads."""

    def taken(self, job: SentenceJob) -> None:
        """A sentence left the backlog for an engine."""

    def advanced(self, turn: StepResults, seconds: float) -> None:
        """An engine did a turn in so many seconds."""


class EngineWorker:
    """Owns a thread. Between two turns it drops what nobody wants, takes what fits, hands back what is done.

    Args:
        name: Of the thread.
        drivers: By checkpoint.
        exchange: Where sentences come from.
        reports: Where they go to.
    """

    def __init__(
        self, name: str, batches: Mapping[str, EngineBatch], dispatcher: Dispatcher, reports: WorkerCallbacks
    ) -> None:
        self._batches = batches
        self._dispatcher = dispatcher
        self._reports = reports
        self._slot = dispatcher.slot(self._interrupt)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._has_ended = False
        self._silent_since: float | None = None

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the thread to end, at most this long if that is given.

        Returns:
            Whether it has, or has never begun.
        """
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def name(self) -> str:
        """Of the thread."""
        return self._thread.name

    def silent_since(self) -> float | None:
        """See WatchedWorker in `app.lifecycle.watchdog`."""
        has_died = self._thread.ident is not None and not (self._thread.is_alive() or self._has_ended)
        return -math.inf if has_died else self._silent_since

    def _interrupt(self) -> None:
        for batch in self._batches.values():
            batch.interrupt()

    def _run(self) -> None:
        try:
            self._work()
        except Exception as fault:
            # The watchdog tells of it too; a traceback of the thread's own would show what somebody sent.
            logger.error("worker died", extra={"worker": self.name}, exc_info=fault)
        else:
            self._silent_since, self._has_ended = None, True

    def _work(self) -> None:
        while (withdrawn := self._wait()) is not None:
            for job in withdrawn:
                self._batches[job.model].drop(job)
            for model, batch in self._batches.items():
                self._take(model, batch)
            for batch in self._batches.values():
                if not batch.is_idle:
                    self._advance(batch)

    def _wait(self) -> list[SentenceJob] | None:
        self._silent_since = None
        withdrawn = self._dispatcher.wait(self._slot)
        self._silent_since = time.monotonic()
        return withdrawn

    def _take(self, model: str, batch: EngineBatch) -> None:
        while (job := self._dispatcher.take(self._slot, model, batch.fits)) is not None:
            self._reports.taken(job)
            batch.add(job)

    def _advance(self, batch: EngineBatch) -> None:
        self._silent_since = began = time.monotonic()
        turn = batch.advance()
        self._dispatcher.finish(job for job, _ in turn.finished)
        self._reports.advanced(turn, time.monotonic() - began)
