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
from app.scheduling.backlog import Job
from app.scheduling.dispatcher import Exchange
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


class Ceiling:
    """For half a minute an engine gets at most half of what it had when it ran out of memory.

    Else it would run out again as soon as it was full again, and all its sentences would start anew each
    time. One sentence alone is always worth a try.
    """

    def __init__(self) -> None:
        self._most = math.inf
        self._until = -math.inf

    def lower(self, jobs: Iterable[Job], now: float) -> None:
        """An engine with these sentences found no memory.

        Args:
            jobs: All that it had.
            now: Seconds of the monotonic clock.
        """
        self._most = load_of(jobs) / 2
        self._until = now + SECONDS

    def permits(self, jobs: Collection[Job], cost: int, now: float) -> bool:
        """Whether a sentence may join those that an engine has.

        Args:
            jobs: Those.
            cost: Of the sentence.
            now: Seconds of the monotonic clock.
        """
        return not jobs or now >= self._until or load_of(jobs) + cost <= self._most


def load_of(jobs: Iterable[Job]) -> int:
    """What sentences cost together."""
    return sum(job.cost for job in jobs)


# Long enough for what Python does between two turns to count little, short enough for who comes in the middle
# of one: to interrupt the engine for each costs more than half as long again (docs/journal.md).
_TURN_SECONDS = 0.005
_MOST_STEPS = 1000


@dataclass(frozen=True)
class Turn:
    """What became of a few steps.

    Attributes:
        finished: Jobs that are done, each with its hypotheses or why it alone failed.
        grown: Followed jobs of which more is certain than before, each with all that is.
    """

    finished: list[tuple[Job, Outcome]] = field(default_factory=list)
    grown: list[tuple[Job, tuple[int, ...]]] = field(default_factory=list)


class Driver:
    """Drives an engine; used by one thread, save for `interrupt`.

    Args:
        engine: Nobody else adds to it.
        observer: Is told how long the parts of decoding take.
    """

    def __init__(self, engine: Engine, observer: Observer) -> None:
        self.interrupt = engine.interrupt
        self._engine = engine
        self._observer = observer
        self._jobs: dict[Sentence, Job] = {}
        self._sentences: dict[Job, Sentence] = {}
        self._shown: dict[Job, int] = {}
        self._refused: list[tuple[Job, Outcome]] = []
        self._ceiling = Ceiling()
        self._suspects: dict[Job, DecodeRequest] = {}
        self._groups: list[list[Job]] = []
        self._max_steps = 1

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do and nothing to tell."""
        return not (self._jobs or self._suspects or self._refused)

    def fits(self, job: Job) -> bool:
        """Whether one more sentence may join now."""
        if self._suspects or not self._engine.fits(job.request):
            return False
        return self._ceiling.permits(self._sentences, job.cost, time.monotonic())

    def add(self, job: Job) -> None:
        """Let a job join; the next turn tells if the engine refuses it."""
        self._add(job, job.request)

    def drop(self, job: Job) -> None:
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

    def advance(self) -> Turn:
        """Move everything on by at least one token; blocks for some milliseconds."""
        if not self._jobs:
            self._add_next_group()
        finished, self._refused = self._refused, []
        is_joining = self._engine.running < len(self._jobs)
        try:
            # Who still waits for the encoder must not wait for a whole turn.
            progress = self._engine.step(self._observer, max_steps=1 if is_joining else self._max_steps)
            finished += self._take_back(progress)
            return Turn(finished, self._growth())
        except Exception as fault:
            # Anything may come out of an engine, and its thread must outlive it.
            return Turn(finished + self._blame(fault))

    def _take_back(self, progress: Progress) -> list[tuple[Job, Outcome]]:
        if progress.steps:
            step_seconds = sum(step.seconds for step in progress.steps) / len(progress.steps)
            self._max_steps = min(max(int(_TURN_SECONDS / max(step_seconds, 1e-6)), 1), _MOST_STEPS)
        finished: list[tuple[Job, Outcome]] = []
        for sentence, result in progress.finished:
            finished.append((self._jobs[sentence], result))
            self._forget(sentence)
        return finished

    def _add(self, job: Job, request: DecodeRequest) -> None:
        try:
            sentence = self._engine.add(request)
        except Exception as fault:
            self._clear(job)
            self._refused.append((job, as_failure(fault)))
            return
        self._jobs[sentence] = job
        self._sentences[job] = sentence
        if job.is_followed:
            self._shown.setdefault(job, 0)

    def _add_next_group(self) -> None:
        for job in self._groups.pop() if self._groups else ():
            if job in self._suspects:
                self._add(job, self._suspects[job])

    def _blame(self, fault: Exception) -> list[tuple[Job, Outcome]]:
        """Find out who is at fault; until then the engine has nobody."""
        jobs = self._recall()
        if isinstance(fault, MemoryError):
            self._ceiling.lower(jobs, time.monotonic())
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

    def _recall(self) -> list[Job]:
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

    def _clear(self, job: Job) -> None:
        """Neither suspect nor shown any more."""
        self._suspects.pop(job, None)
        self._shown.pop(job, None)

    def _growth(self) -> list[tuple[Job, tuple[int, ...]]]:
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


class Reports(Protocol):
    """Who hears from the workers, on their threads."""

    def taken(self, job: Job) -> None:
        """A sentence left the backlog for an engine."""

    def advanced(self, turn: Turn, seconds: float) -> None:
        """An engine did a turn in so many seconds."""


class Worker:
    """Owns a thread. Between two turns it drops what nobody wants, takes what fits, hands back what is done.

    Args:
        name: Of the thread.
        drivers: By checkpoint.
        exchange: Where sentences come from.
        reports: Where they go to.
    """

    def __init__(
        self, name: str, drivers: Mapping[str, Driver], exchange: Exchange, reports: Reports
    ) -> None:
        self._drivers = drivers
        self._exchange = exchange
        self._reports = reports
        self._desk = exchange.desk(self._interrupt)
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
        """See Pulse in `app.lifecycle.watchdog`."""
        has_died = self._thread.ident is not None and not (self._thread.is_alive() or self._has_ended)
        return -math.inf if has_died else self._silent_since

    def _interrupt(self) -> None:
        for driver in self._drivers.values():
            driver.interrupt()

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
                self._drivers[job.model].drop(job)
            for model, driver in self._drivers.items():
                self._take(model, driver)
            for driver in self._drivers.values():
                if not driver.is_idle:
                    self._advance(driver)

    def _wait(self) -> list[Job] | None:
        self._silent_since = None
        withdrawn = self._exchange.wait(self._desk)
        self._silent_since = time.monotonic()
        return withdrawn

    def _take(self, model: str, driver: Driver) -> None:
        while (job := self._exchange.take(self._desk, model, driver.fits)) is not None:
            self._reports.taken(job)
            driver.add(job)

    def _advance(self, driver: Driver) -> None:
        self._silent_since = began = time.monotonic()
        turn = driver.advance()
        self._exchange.finish(job for job, _ in turn.finished)
        self._reports.advanced(turn, time.monotonic() - began)
