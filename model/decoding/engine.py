"""⑤ The decoding engine (continuous batching): which sentences run, and when they join. No torch.

    add ──► arrivals ──► running batch ──► finished
            (in order)   (the runner's)

A sentence joins between two decoder steps as soon as its load fits, and leaves in the step that
finishes it. It never waits for the other sentences of the batch.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Self

from model.config import TransformerConfig
from model.decode_request import DecodeRequest
from model.decoding.runner import Interrupt, Progress, Result, Runner
from model.decoding.sentence import Sentence, length_bounds
from model.errors import InputError, TextTooLongError
from model.validators import require_integer

if TYPE_CHECKING:
    from model.checkpoint.shortlist import Shortlist

_UNTIL_ONE_FINISHES = 2**31 - 1
# Encoding a few sentences at once takes hardly longer than encoding one.
_REFILL_BELOW = 0.75


@dataclass(frozen=True, kw_only=True)
class Load:
    """An amount of work, or a bound on it.

    Attributes:
        rows: Hypotheses alive at once.
        kv_slots: KV slots, one for the keys and values of each position.
        tokens: Source tokens, each counted once for every row of its sentence.
    """

    rows: int = 0
    kv_slots: int = 0
    tokens: int = 0

    @classmethod
    def of(cls, sentence: Sentence) -> Self:
        """The most that one sentence can occupy."""
        rows = sentence.rows
        return cls(rows=rows, kv_slots=sentence.kv_slots, tokens=rows * sentence.source_length)

    def __add__(self, other: "Load") -> "Load":
        return Load(
            rows=self.rows + other.rows,
            kv_slots=self.kv_slots + other.kv_slots,
            tokens=self.tokens + other.tokens,
        )

    def __sub__(self, other: "Load") -> "Load":
        return Load(
            rows=self.rows - other.rows,
            kv_slots=self.kv_slots - other.kv_slots,
            tokens=self.tokens - other.tokens,
        )

    def share_of(self, most: "Load") -> float:
        """The largest of the three shares; above 1 where a bound is exceeded."""
        return max(self.rows / most.rows, self.kv_slots / most.kv_slots, self.tokens / most.tokens)


class SlotAdmission:
    """Lets sentences into the running batch in order of arrival, within its bounds.

    Args:
        most: Bounds of the running batch; a sentence over `most.tokens` runs alone.
        max_encode_tokens: Source tokens that join at once, but at least one sentence.

    Attributes:
        added: Load of all sentences, waiting and running.
        occupied: Load of the running sentences.
    """

    def __init__(self, most: Load, max_encode_tokens: int) -> None:
        self._most = most
        self._max_encode_tokens = max_encode_tokens
        self._arrivals: dict[Sentence, Load] = {}
        self._running: dict[Sentence, Load] = {}
        self.added, self.occupied = Load(), Load()

    @property
    def is_idle(self) -> bool:
        """Returns whether there is no sentence."""
        return not self._arrivals and not self._running

    @property
    def running(self) -> Sequence[Sentence]:
        """Sentences that have joined, in order of arrival."""
        return tuple(self._running)

    def is_running(self, sentence: Sentence) -> bool:
        """Returns whether a sentence has joined and not left."""
        return sentence in self._running

    def fits(self, load: Load) -> bool:
        """Returns whether a load fits in addition to the added sentences; alone, any load fits."""
        return self.is_idle or self._within_bounds(self.added, load)

    def add(self, sentence: Sentence) -> None:
        """Let a sentence wait; its load counts from now on."""
        self._arrivals[sentence] = Load.of(sentence)
        self.added += self._arrivals[sentence]

    def next_arrivals(self) -> list[Sentence]:
        """Sentences that may join now; one that does not fit keeps the later ones waiting."""
        batch: list[Sentence] = []
        occupied, encoded = self.occupied, 0
        for sentence, load in self._arrivals.items():
            encoded += sentence.source_length
            is_alone = not batch and not self._running
            if not (is_alone or self._within_bounds(occupied, load)):
                break
            if batch and encoded > self._max_encode_tokens:
                break
            batch.append(sentence)
            occupied += load
        return batch

    def join(self, batch: Iterable[Sentence]) -> None:
        """Move sentences to the running batch."""
        for sentence in batch:
            self._running[sentence] = self._arrivals.pop(sentence)
            self.occupied += self._running[sentence]

    def leave(self, sentence: Sentence) -> None:
        """Remove a sentence, waiting or running, and its load."""
        if sentence in self._running:
            load = self._running.pop(sentence)
            self.occupied -= load
            self.added -= load
        elif sentence in self._arrivals:
            self.added -= self._arrivals.pop(sentence)

    def clear(self) -> None:
        """Remove all sentences."""
        self._arrivals.clear()
        self._running.clear()
        self.added, self.occupied = Load(), Load()

    def _within_bounds(self, taken: Load, wanted: Load) -> bool:
        return (taken + wanted).share_of(self._most) <= 1


class DecodingEngine:
    """Decodes many sentences at once; greedy, sampled and beam requests share the running batch.

    The translation of a sentence does not depend on the others: options, random numbers and stop rules
    are its own, and a sentence with NaN or infinity fails alone.

    One thread drives the engine; only `interrupt` may be called from other threads. Calls of `decode`
    wait for each other.

    Args:
        runner: Computes the running batch.
        config: Configuration of its network.
        max_batch_tokens: Bound on rows × source tokens of the running batch; a sentence over the bound
            runs alone.
        max_encode_tokens: Source tokens that join in one step, but at least one sentence, so that a
            large arrival does not stall the running sentences.
        shortlist: Limits the target tokens of each sentence to its candidates; None allows all.

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
        shortlist: "Shortlist | None" = None,
    ) -> None:
        config.require_translator()
        require_integer("max_batch_tokens", max_batch_tokens, 1)
        require_integer("max_encode_tokens", max_encode_tokens, 1)
        self._runner, self._config, self._shortlist = runner, config, shortlist
        self._most = Load(rows=runner.max_rows, kv_slots=runner.max_kv_slots, tokens=max_batch_tokens)
        self._admission = SlotAdmission(self._most, max_encode_tokens)
        self._interrupt = Interrupt()
        self._decoding = Lock()
        self._added_at: dict[Sentence, float] = {}

    @property
    def is_idle(self) -> bool:
        """Returns whether every added sentence is finished or cancelled."""
        return self._admission.is_idle

    @property
    def has_shortlist(self) -> bool:
        """Returns whether a shortlist limits the target tokens."""
        return self._shortlist is not None

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
        """Load of all added sentences as a share of the engine's bounds; above 1 if some must wait."""
        return self._admission.added.share_of(self._most)

    def fits(self, request: DecodeRequest) -> bool:
        """Returns whether a request fits in addition to the added ones; an idle engine accepts any request.

        That includes requests that the engine cannot decode at all: `add` raises the reason.
        """
        sentence = Sentence(request, *length_bounds(request, self._config))
        return self._admission.fits(Load.of(sentence))

    def add(self, request: DecodeRequest) -> Sentence:
        """Add a request; a later step encodes it, in order of arrival.

        A request that does not fit yet waits until it does, and later requests wait too.

        Raises:
            InputError: If the network cannot read the request.
            TextTooLongError: If the request is over a limit of the network or of the runner.
        """
        sentence = Sentence.admit(request, self._config, self._shortlist)
        self._require_possible(sentence)
        self._admission.add(sentence)
        self._added_at[sentence] = perf_counter()
        return sentence

    def cancel(self, sentence: Sentence) -> None:
        """Remove a sentence, waiting or running; does nothing if it has finished.

        Raises:
            Exception: What the runner raised. All sentences are removed then.
        """
        is_running = self._admission.is_running(sentence)
        self._admission.leave(sentence)
        self._added_at.pop(sentence, None)
        if is_running:
            try:
                self._runner.drop([sentence])
            except Exception:  # whatever it is: the runner is in an unknown state; raised again
                self.reset()
                raise

    def reset(self) -> None:
        """Remove all sentences."""
        running = self._admission.running
        self._admission.clear()
        self._added_at.clear()
        self._runner.drop(running)

    def interrupt(self) -> None:
        """Make the running `step` return soon; may be called from any thread.

        A thread that has work for the driving thread first stores the work and then interrupts; the
        driving thread looks for work after every step. An interrupt between two calls of `step` ends the
        next one early.
        """
        self._interrupt.set()

    def step(self, *, max_steps: int = _UNTIL_ONE_FINISHES) -> Progress:
        """Encode arrivals that fit, then advance the running batch.

        Args:
            max_steps: Most decoder steps; fewer once a sentence finishes, or after an interrupt.

        Raises:
            Exception: What the runner raised. All sentences are removed and the engine can be used
                again; the caller may add the same requests one at a time to find the faulty one.
        """
        try:
            encoder_seconds = self._encode_arrivals()
            progress = Progress() if self.is_idle else self._advance(max_steps)
            progress.encoder_seconds.extend(encoder_seconds)
        except Exception:  # whatever it is: the runner is in an unknown state; raised again
            self.reset()
            raise
        finally:
            self._interrupt.clear()
        return progress

    def decode(
        self,
        requests: Sequence[DecodeRequest],
        *,
        progress: Callable[[int], object] | None = None,
    ) -> list[Result]:
        """Translate every request and return when all are done; nothing else may drive the engine.

        The longest sources go first, so that the batch is full almost to the end.

        Args:
            requests: Any mix of lengths and options.
            progress: Called with the number of requests that were done since the last call.

        Returns:
            For each request, in order, its hypotheses, best first; or the InputError or
            DecodingError of this request.
        """
        waiting = deque(sorted(range(len(requests)), key=lambda i: -len(requests[i].source_ids)))
        results: dict[int, Result] = {}
        index_of: dict[Sentence, int] = {}
        with self._decoding:
            try:
                while len(results) < len(requests):
                    done = len(results)
                    if self.load <= _REFILL_BELOW:
                        self._fill_up(requests, waiting, index_of, results)
                    for sentence, result in self.step().finished:
                        results[index_of.pop(sentence)] = result
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
        index_of: dict[Sentence, int],
        results: dict[int, Result],
    ) -> None:
        while waiting and self.fits(requests[waiting[0]]):
            index = waiting.popleft()
            try:
                index_of[self.add(requests[index])] = index
            except InputError as error:
                results[index] = error

    def stable_prefix(self, sentence: Sentence) -> tuple[int, ...]:
        """Target tokens that the best result of a sentence will begin with; none unless it runs."""
        if not self._admission.is_running(sentence):
            return ()
        return self._runner.stable_prefix(sentence)[len(sentence.request.start_ids) :]

    def close(self) -> None:
        """Free what the runner holds; the engine must not be used afterwards."""
        self._runner.close()

    def _require_possible(self, sentence: Sentence) -> None:
        most = self._most
        if sentence.rows > most.rows:
            field = "num_hypotheses" if sentence.options.strategy == "sample" else "beam_size"
            raise TextTooLongError(field, "max_rows", most.rows, sentence.rows)
        if sentence.kv_slots > most.kv_slots:
            raise TextTooLongError("source_ids", "decoder positions", most.kv_slots, sentence.kv_slots)

    def _encode_arrivals(self) -> list[float]:
        """Encode the sentences that may join as one batch; returns how long it took, nothing without one."""
        batch = self._admission.next_arrivals()
        if not batch:
            return []
        start = perf_counter()
        self._runner.admit(batch)
        self._admission.join(batch)
        return [perf_counter() - start]

    def _advance(self, max_steps: int) -> Progress:
        progress = self._runner.advance(self._interrupt, max_steps)
        now = perf_counter()
        progress.first_token_seconds.extend(now - self._added_at[sentence] for sentence in progress.started)
        for place, (sentence, result) in enumerate(progress.finished):
            self._admission.leave(sentence)
            del self._added_at[sentence]
            if isinstance(result, list):
                progress.finished[place] = sentence, list(map(sentence.without_start, result))
        return progress
