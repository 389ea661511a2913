"""⑤ Who waits, who runs, and how much room that leaves: the engine's bookkeeping, pure policy. No torch."""

from collections.abc import Iterable, Sequence

from model.decoding.load import Load
from model.decoding.sentence import Sentence


class Admission:
    """Lets sentences into the running batch in order of arrival, within its bounds.

    Args:
        most: What the running batch may occupy; a sentence over `most.tokens` runs alone.
        max_encode_tokens: Source tokens that join at once, but at least one sentence.

    Attributes:
        added: What all sentences occupy or will occupy.
        occupied: What the running ones do.
    """

    def __init__(self, most: Load, max_encode_tokens: int) -> None:
        self._most = most
        self._max_encode_tokens = max_encode_tokens
        self._arrivals: dict[Sentence, None] = {}
        self._running: dict[Sentence, None] = {}
        self.added, self.occupied = Load(), Load()

    @property
    def is_idle(self) -> bool:
        """Whether there is no sentence."""
        return not self._arrivals and not self._running

    @property
    def running(self) -> Sequence[Sentence]:
        """Those that have joined, in order of arrival."""
        return tuple(self._running)

    def is_running(self, sentence: Sentence) -> bool:
        """Whether it has joined and not left."""
        return sentence in self._running

    def fits(self, load: Load) -> bool:
        """Whether there is room beside what was added; if that is nothing, for anything."""
        return self.is_idle or self._is_room(self.added, load)

    def add(self, sentence: Sentence) -> None:
        """Let a sentence wait; its room counts as taken from now on."""
        self._arrivals[sentence] = None
        self.added += Load.of(sentence)

    def next_arrivals(self) -> list[Sentence]:
        """Those that may join now; one that finds no room keeps those behind it waiting."""
        batch: list[Sentence] = []
        occupied, encoded = self.occupied, 0
        for sentence in self._arrivals:
            load = Load.of(sentence)
            encoded += sentence.source_length
            is_alone = not batch and not self._running
            if not (is_alone or self._is_room(occupied, load)):
                break
            if batch and encoded > self._max_encode_tokens:
                break
            batch.append(sentence)
            occupied += load
        return batch

    def join(self, batch: Iterable[Sentence]) -> None:
        """These have joined the running batch."""
        for sentence in batch:
            del self._arrivals[sentence]
            self._running[sentence] = None
            self.occupied += Load.of(sentence)

    def leave(self, sentence: Sentence) -> None:
        """This one is gone, whether it waited or ran; its room is free."""
        load = Load.of(sentence)
        if sentence in self._running:
            del self._running[sentence]
            self.occupied -= load
        elif sentence in self._arrivals:
            del self._arrivals[sentence]
        else:
            return
        self.added -= load

    def clear(self) -> None:
        """All are gone."""
        self._arrivals.clear()
        self._running.clear()
        self.added, self.occupied = Load(), Load()

    def _is_room(self, taken: Load, wanted: Load) -> bool:
        return (taken + wanted).share_of(self._most) <= 1
