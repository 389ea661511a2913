"""A runner without a network: each sentence takes as many steps as its longest translation has tokens."""

from collections.abc import Sequence

from model.decode_request import Hypothesis
from model.decoding.runner import Interrupt, Progress, Result, StepRecord
from model.decoding.sentence import Sentence


class ScriptedRunner:
    """Keeps a record of what the engine asks, and refuses what a real runner could not hold.

    Attributes:
        admitted: Batches, in order.
        dropped: Sentences, in order.
        broken: When set, `admit` or `advance` of a batch with this source id raises.
        interrupt_after: Steps until the runner sets the interrupt, counted down.
    """

    def __init__(self, max_rows: int = 8, max_kv_slots: int = 1000) -> None:
        self.max_rows, self.max_kv_slots = max_rows, max_kv_slots
        self.admitted: list[list[Sentence]] = []
        self.dropped: list[Sentence] = []
        self.broken: tuple[str, int] | None = None
        self.interrupt_after = -1
        self.is_closed = False
        self.produced: dict[Sentence, int] = {}

    def admit(self, sentences: Sequence[Sentence]) -> None:
        self._break_if("admit", sentences)
        self.admitted.append(list(sentences))
        self.produced.update(dict.fromkeys(sentences, 0))
        assert sum(s.rows for s in self.produced) <= self.max_rows
        assert sum(s.kv_slots for s in self.produced) <= self.max_kv_slots

    def advance(self, interrupt: Interrupt, max_steps: int) -> Progress:
        self._break_if("advance", list(self.produced))
        assert self.produced, "an empty batch is not stepped"
        started = [sentence for sentence, count in self.produced.items() if count == 0]
        steps: list[StepRecord] = []
        finished: list[tuple[Sentence, Result]] = []
        while not finished and len(steps) < max_steps and not (steps and interrupt.is_set()):
            rows = sum(s.rows for s in self.produced)
            steps.append(StepRecord(0.5, rows, len(self.produced)))
            finished = self._step()
            self.interrupt_after -= 1
            if self.interrupt_after == 0:
                interrupt.set()
        return Progress(finished, steps, started)

    def _step(self) -> list[tuple[Sentence, Result]]:
        for sentence in self.produced:
            self.produced[sentence] += 1
        done = [sentence for sentence, count in self.produced.items() if count == sentence.longest]
        for sentence in done:
            del self.produced[sentence]
        return [(sentence, [echo(sentence.request.source_ids)]) for sentence in done]

    def drop(self, sentences: Sequence[Sentence]) -> None:
        for sentence in sentences:
            self.dropped.append(sentence)
            del self.produced[sentence]

    def stable_prefix(self, sentence: Sentence) -> tuple[int, ...]:
        return sentence.request.source_ids[: self.produced[sentence]]

    def close(self) -> None:
        self.is_closed = True

    def _break_if(self, where: str, sentences: Sequence[Sentence]) -> None:
        if self.broken is None or self.broken[0] != where:
            return
        if any(self.broken[1] in sentence.request.source_ids for sentence in sentences):
            raise RuntimeError("out of luck")


def echo(source_ids: Sequence[int]) -> Hypothesis:
    """What the scripted runner makes of a source."""
    return Hypothesis(tuple(source_ids), 0.0, 0.0, (), finished=True)
