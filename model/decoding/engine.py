"""⑤ The decoding engine (continuous batching): which sentences run, and when they join. No torch.

    add ──► arrivals ──► running batch ──► finished
            (in order)   (the runner's)

A sentence joins between two decoder steps as soon as there is room, and leaves in the step that
finishes it: it never waits for those it runs beside.
"""

from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter

from model.checkpoint.shortlist import Shortlist
from model.config import TransformerConfig
from model.decoding.runner import Interrupt, Observer, Progress, Result, Runner, SilentObserver
from model.decoding.sentence import Sentence
from model.decoding.slots import Admission, Load
from model.errors import InputError, TextTooLongError
from model.request import DecodeRequest
from model.validators import require_integer

_UNTIL_ONE_FINISHES = 2**31 - 1
# Encoding a few sentences at once takes hardly longer than encoding one.
_REFILL_BELOW = 0.75
_SILENT = SilentObserver()


class DecodingEngine:
    """Decodes sentences side by side; greedy, sampled and beam requests share the running batch.

    What a sentence becomes does not depend on the others: options, random numbers and stop rules
    are its own, and a sentence whose numbers break fails alone.

    One thread drives it; only `interrupt` may be called from others.

    Args:
        runner: Computes the running batch.
        config: Of its network.
        max_batch_tokens: Bound on rows × source tokens of what runs; a sentence over it runs alone.
        max_encode_tokens: Source tokens that join in one step, but at least one sentence, so that a
            large arrival does not stall those in flight.
        shortlist: Says which target tokens alone a sentence may be translated with; None allows all.

    Raises:
        ConfigError: If the network lacks an encoder or a decoder, or a bound is not positive.
    """

    def __init__(
        self,
        runner: Runner,
        config: TransformerConfig,
        *,
        max_batch_tokens: int = 4096,
        max_encode_tokens: int = 1024,
        shortlist: Shortlist | None = None,
    ) -> None:
        config.require_translator()
        require_integer("max_batch_tokens", max_batch_tokens, 1)
        require_integer("max_encode_tokens", max_encode_tokens, 1)
        self._runner, self._config, self._shortlist = runner, config, shortlist
        self._most = Load(rows=runner.max_rows, positions=runner.max_positions, tokens=max_batch_tokens)
        self._admission = Admission(self._most, max_encode_tokens)
        self._interrupt = Interrupt()
        self._added_at: dict[Sentence, float] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nothing has been added that is not finished or cancelled."""
        return self._admission.is_idle

    @property
    def running(self) -> int:
        """Sentences in the running batch."""
        return len(self._admission.running)

    @property
    def rows(self) -> int:
        """Hypotheses in the running batch."""
        return self._admission.occupied.rows

    @property
    def load(self) -> float:
        """Share of its room that all that was added takes; above 1 if more was added than fits."""
        return self._admission.added.share_of(self._most)

    def fits(self, request: DecodeRequest) -> bool:
        """Whether there is room beside what was added; an idle engine has room for anything.

        So also for what the engine cannot take at all: `add` says why.
        """
        bounds = request.options.length_bounds(len(request.source_ids), self._config.max_positions)
        return self._admission.fits(Load.of(Sentence(request, *bounds)))

    def add(self, request: DecodeRequest) -> Sentence:
        """Take a request; a later step encodes it, in order of arrival.

        A request that does not fit yet waits until it does, and all that come after it wait too.

        Raises:
            InputError: If the network cannot read it.
            TextTooLongError: If it is over a limit of the network, or of the runner.
        """
        sentence = Sentence.admit(request, self._config, self._shortlist)
        self._require_possible(sentence)
        self._admission.add(sentence)
        self._added_at[sentence] = perf_counter()
        return sentence

    def cancel(self, sentence: Sentence) -> None:
        """Forget a sentence wherever it is; one that has finished already is no matter.

        Raises:
            Exception: Whatever the runner met. The engine has forgotten all that was added.
        """
        is_running = self._admission.is_running(sentence)
        self._admission.leave(sentence)
        self._added_at.pop(sentence, None)
        if is_running:
            try:
                self._runner.drop([sentence])
            except Exception:
                self.reset()
                raise

    def reset(self) -> None:
        """Forget all that was added."""
        running = self._admission.running
        self._admission.clear()
        self._added_at.clear()
        self._runner.drop(running)

    def interrupt(self) -> None:
        """Let the step that is going on return soon; may be called from any thread.

        Whoever wants to be noticed leaves word first and interrupts then; the thread that drives the
        engine looks after every step. An interrupt between two steps ends the next one early.
        """
        self._interrupt.set()

    def step(self, observer: Observer = _SILENT, *, max_steps: int = _UNTIL_ONE_FINISHES) -> Progress:
        """Encode arrivals for which there is room, then move the running batch on.

        Args:
            observer: Told of durations and counts.
            max_steps: Most decoder steps; fewer once a sentence finishes, or after an interrupt.

        Raises:
            Exception: Whatever the runner met. The engine has forgotten all that was added and can be
                used again; the caller may add the same requests once more, one at a time to find the
                one at fault.
        """
        try:
            self._encode_arrivals(observer)
            progress = Progress() if self.is_idle else self._advance(observer, max_steps)
        except Exception:
            self.reset()
            raise
        finally:
            self._interrupt.clear()
        return progress

    def decode(
        self,
        requests: Sequence[DecodeRequest],
        *,
        observer: Observer = _SILENT,
        progress: Callable[[int], object] | None = None,
    ) -> list[Result]:
        """Translate every request and return when all are done; the engine must be idle.

        The longest sources go first, so that the batch is full almost to the end.

        Args:
            requests: Any mix of lengths and options.
            observer: Told of durations and counts.
            progress: Called with the number of requests that were done since the last call.

        Returns:
            For each request, in order, its hypotheses, best first; or the InputError or
            DecodingError that this request alone met.
        """
        waiting = deque(sorted(range(len(requests)), key=lambda i: -len(requests[i].source_ids)))
        results: dict[int, Result] = {}
        places: dict[Sentence, int] = {}
        try:
            while len(results) < len(requests):
                done = len(results)
                if self.load <= _REFILL_BELOW:
                    self._fill_up(requests, waiting, places, results)
                for sentence, result in self.step(observer).finished:
                    results[places.pop(sentence)] = result
                if progress is not None and len(results) > done:
                    progress(len(results) - done)
        except BaseException:
            self.reset()
            raise
        return [results[index] for index in range(len(requests))]

    def _fill_up(
        self,
        requests: Sequence[DecodeRequest],
        waiting: deque[int],
        places: dict[Sentence, int],
        results: dict[int, Result],
    ) -> None:
        while waiting and self.fits(requests[waiting[0]]):
            index = waiting.popleft()
            try:
                places[self.add(requests[index])] = index
            except InputError as error:
                results[index] = error

    def stable_prefix(self, sentence: Sentence) -> tuple[int, ...]:
        """Target tokens that every result of a sentence is sure to begin with; none unless it runs."""
        return self._runner.stable_prefix(sentence) if self._admission.is_running(sentence) else ()

    def close(self) -> None:
        """Give back what the runner holds; the engine is of no use afterwards."""
        self._runner.close()

    def _require_possible(self, sentence: Sentence) -> None:
        most = self._most
        if sentence.rows > most.rows:
            field = "num_hypotheses" if sentence.options.strategy == "sample" else "beam_size"
            raise TextTooLongError(field, "max_rows", most.rows, sentence.rows)
        if sentence.positions > most.positions:
            raise TextTooLongError("source_ids", "decoder positions", most.positions, sentence.positions)

    def _encode_arrivals(self, observer: Observer) -> None:
        batch = self._admission.next_arrivals()
        if batch:
            start = perf_counter()
            self._runner.admit(batch)
            self._admission.join(batch)
            observer.encoded(perf_counter() - start)

    def _advance(self, observer: Observer, max_steps: int) -> Progress:
        progress = self._runner.advance(self._interrupt, max_steps)
        now = perf_counter()
        for record in progress.steps:
            observer.stepped(record.seconds, record.rows, record.sentences)
        for sentence in progress.started:
            observer.first_token(now - self._added_at[sentence])
        for sentence, _ in progress.finished:
            self._admission.leave(sentence)
            del self._added_at[sentence]
        return progress
