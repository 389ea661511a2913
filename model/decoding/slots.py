"""⑤ The engine's slots: which sentences wait, which run, and how much they occupy. No torch."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from model.decoding.sentence import Sentence


@dataclass(frozen=True, kw_only=True)
class Load:
    """An amount of work, or a bound on it.

    Attributes:
        rows: Hypotheses alive at once.
        positions: KV slots.
        tokens: Source tokens, each counted once for every row of its sentence.
    """

    rows: int = 0
    positions: int = 0
    tokens: int = 0

    @classmethod
    def of(cls, sentence: Sentence) -> Self:
        """The most that one sentence can occupy."""
        rows = sentence.rows
        return cls(rows=rows, positions=sentence.positions, tokens=rows * sentence.source_length)

    def __add__(self, other: "Load") -> "Load":
        return Load(
            rows=self.rows + other.rows,
            positions=self.positions + other.positions,
            tokens=self.tokens + other.tokens,
        )

    def __sub__(self, other: "Load") -> "Load":
        return Load(
            rows=self.rows - other.rows,
            positions=self.positions - other.positions,
            tokens=self.tokens - other.tokens,
        )

    def share_of(self, most: "Load") -> float:
        """The largest of the three shares; above 1 where a bound is exceeded."""
        return max(self.rows / most.rows, self.positions / most.positions, self.tokens / most.tokens)


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
        """Whether there is no sentence."""
        return not self._arrivals and not self._running

    @property
    def running(self) -> Sequence[Sentence]:
        """Sentences that have joined, in order of arrival."""
        return tuple(self._running)

    def is_running(self, sentence: Sentence) -> bool:
        """Whether a sentence has joined and not left."""
        return sentence in self._running

    def fits(self, load: Load) -> bool:
        """Whether a load fits in addition to the added sentences; if there are none, any load fits."""
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
