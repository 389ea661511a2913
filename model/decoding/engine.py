"""⑤ The decoding engine (continuous batching): which sentences run, and when they join. No torch.

    add ──► waiting ──► running batch ──► finished
            (in order)  (the runner's)

A sentence joins between two decoder steps as soon as its load fits, and leaves in the step that
finishes it. It never waits for the other sentences of the batch.
"""

from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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


Load = NDArray[np.int64]
"""Hypotheses alive at once, KV slots, and source tokens, each counted once for every row of its sentence."""


def load_of(sentence: Sentence) -> Load:
    """The most that one sentence can occupy."""
    rows = sentence.rows
    return np.array([rows, sentence.positions, rows * sentence.source_length])


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
        self._most = np.array([runner.max_rows, runner.max_positions, max_batch_tokens])
        self._max_encode_tokens = max_encode_tokens
        self._waiting: dict[Sentence, Load] = {}
        self._running: dict[Sentence, Load] = {}
        self._added, self._occupied = np.zeros((2, len(self._most)), np.int64)
        self._interrupt = Interrupt()
        self._decoding = Lock()
        self._added_at: dict[Sentence, float] = {}

    @property
    def is_idle(self) -> bool:
        """Returns whether every added sentence is finished or cancelled."""
        return not self._waiting and not self._running

    @property
    def has_shortlist(self) -> bool:
        """Returns whether a shortlist limits the target tokens."""
        return self._shortlist is not None

    @property
    def running(self) -> int:
        """Sentences in the running batch."""
        return len(self._running)

    @property
    def rows(self) -> int:
        """Hypotheses in the running batch."""
        return int(self._occupied[0])

    @property
    def load(self) -> float:
        """Load of all added sentences as a share of the engine's bounds; above 1 if some must wait."""
        return self._share(self._added)

    def fits(self, request: DecodeRequest) -> bool:
        """Returns whether a request fits in addition to the added ones; an idle engine accepts any request.

        That includes requests that the engine cannot decode at all: `add` raises the reason.
        """
        load = load_of(Sentence(request, *length_bounds(request, self._config)))
        return self.is_idle or self._share(self._added + load) <= 1

    def add(self, request: DecodeRequest) -> Sentence:
        """Add a request; a later step encodes it, in order of arrival.

        A request that does not fit yet waits until it does, and later requests wait too.

        Raises:
            InputError: If the network cannot read the request.
            TextTooLongError: If the request is over a limit of the network or of the runner.
        """
        sentence = Sentence.admit(request, self._config, self._shortlist)
        self._require_possible(sentence)
        self._waiting[sentence] = load_of(sentence)
        self._added += self._waiting[sentence]
        self._added_at[sentence] = perf_counter()
        return sentence

    def cancel(self, sentence: Sentence) -> None:
        """Remove a sentence, waiting or running; does nothing if it has finished.

        Raises:
            Exception: What the runner raised. All sentences are removed then.
        """
        if sentence not in self._added_at:
            return
        is_running = sentence in self._running
        self._leave(sentence)
        if is_running:
            try:
                self._runner.drop([sentence])
            except Exception:  # whatever it is: the runner is in an unknown state; raised again
                self.reset()
                raise

    def reset(self) -> None:
        """Remove all sentences."""
        running = list(self._running)
        for sentences in (self._waiting, self._running, self._added_at):
            sentences.clear()
        self._added[:] = self._occupied[:] = 0
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
        if sentence not in self._running:
            return ()
        return self._runner.stable_prefix(sentence)[len(sentence.request.start_ids) :]

    def close(self) -> None:
        """Free what the runner holds; the engine must not be used afterwards."""
        self._runner.close()

    def _require_possible(self, sentence: Sentence) -> None:
        most_rows, most_positions = self._runner.max_rows, self._runner.max_positions
        if sentence.rows > most_rows:
            field = "num_hypotheses" if sentence.options.strategy == "sample" else "beam_size"
            raise TextTooLongError(field, "max_rows", most_rows, sentence.rows)
        if sentence.positions > most_positions:
            raise TextTooLongError("source_ids", "decoder positions", most_positions, sentence.positions)

    def _encode_arrivals(self) -> list[float]:
        """Encode the sentences that may join as one batch; returns how long it took, nothing without one."""
        batch = self._next_arrivals()
        if not batch:
            return []
        start = perf_counter()
        self._runner.admit(batch)
        for sentence in batch:
            self._running[sentence] = self._waiting.pop(sentence)
            self._occupied += self._running[sentence]
        return [perf_counter() - start]

    def _next_arrivals(self) -> list[Sentence]:
        """Sentences that may join now; one that does not fit keeps the later ones waiting."""
        batch: list[Sentence] = []
        occupied, encoded = self._occupied, 0
        for sentence, load in self._waiting.items():
            occupied, encoded = occupied + load, encoded + sentence.source_length
            is_first = not batch
            if not (is_first and not self._running) and self._share(occupied) > 1:
                break
            if not is_first and encoded > self._max_encode_tokens:
                break
            batch.append(sentence)
        return batch

    def _leave(self, sentence: Sentence) -> None:
        """Remove a sentence, waiting or running, and its load."""
        del self._added_at[sentence]
        if sentence in self._running:
            self._occupied -= self._running[sentence]
        self._added -= (self._running if sentence in self._running else self._waiting).pop(sentence)

    def _share(self, load: Load) -> float:
        """The largest share that a load takes of the bounds; above 1 where a bound is exceeded."""
        return float((load / self._most).max())

    def _advance(self, max_steps: int) -> Progress:
        progress = self._runner.advance(self._interrupt, max_steps)
        now = perf_counter()
        progress.first_token_seconds.extend(now - self._added_at[sentence] for sentence in progress.started)
        for place, (sentence, result) in enumerate(progress.finished):
            self._leave(sentence)
            if isinstance(result, list):
                progress.finished[place] = sentence, list(map(sentence.without_start, result))
        return progress
