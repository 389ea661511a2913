"""④ → ⑤ One engine in one worker's hands: jobs in, turns of a few steps, outcomes out.

A turn that raises takes nothing with it but the sentence at fault: the others start again in groups
half as large, until it is alone. Meanwhile no other sentence joins them. If what was raised is
MemoryError, the engine gets less to do for a while (see ceiling).
"""

import dataclasses
import logging
import time
from dataclasses import dataclass, field

from app.backend import Engine
from app.scheduling.backlog import Job
from app.scheduling.ceiling import Ceiling
from app.scheduling.failures import Outcome, as_failure
from model.decoding.observer import Observer
from model.decoding.runner import Progress
from model.decoding.sentence import Sentence
from model.request import DecodeRequest

logger = logging.getLogger(__name__)

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
