"""⑤ Which KV slots of the pool a sentence may fill while it runs, and which are free.

Shapes: N slots, K hypotheses, C positions, S source positions.
"""

from collections.abc import Sequence

from model.decoding.sentence import Sentence
from model.errors import DecodingError
from model.network.decoder_state import FIRST_KV_SLOT, ZERO_KV_SLOT


class KvAllocator:
    """Allocates to each sentence what it may need, anywhere in a pool that several batches share.

    Args:
        num_kv_slots: KV slots of the pool; the last ones given back are taken first, while they are in the
            caches.
    """

    def __init__(self, num_kv_slots: int) -> None:
        self._free = list(range(FIRST_KV_SLOT + num_kv_slots - 1, FIRST_KV_SLOT - 1, -1))
        self._allocated: dict[Sentence, list[int]] = {}

    @property
    def num_free(self) -> int:
        """The number of free KV slots."""
        return len(self._free)

    def allocate(
        self, sentences: Sequence[Sentence], longest: int, source_length: int
    ) -> tuple[list[list[list[int]]], list[list[int]]]:
        """KV slots for the hypotheses of new sentences, N × K × C, and for their sources, N × S.

        Args:
            sentences: Of one number of hypotheses.
            longest: C, at least the length of each translation; ZERO_KV_SLOT is beyond it.
            source_length: S, at least the length of each source; ZERO_KV_SLOT is beyond it.

        Raises:
            DecodingError: If too few are free, and none is allocated; the engine admits within the budget.
        """
        needed = sum(sentence.positions for sentence in sentences)
        if needed > self.num_free:
            raise DecodingError(f"the decoder state can take {self.num_free} more KV slots, not {needed}")
        targets, sources = [], []
        for sentence in sentences:
            cut = len(self._free) - sentence.positions
            own = self._allocated[sentence] = self._free[cut:][::-1]
            del self._free[cut:]
            length, each = sentence.source_length, sentence.longest
            sources.append(_filled_up(own[:length], source_length))
            starts = range(length, len(own), each)
            targets.append([_filled_up(own[start : start + each], longest) for start in starts])
        return targets, sources

    def free(self, sentence: Sentence) -> None:
        """Free the KV slots of a sentence; the next sentence that has one fills it before it is read."""
        self._free += self._allocated.pop(sentence)


def _filled_up(kv_slots: list[int], length: int) -> list[int]:
    return kv_slots + [ZERO_KV_SLOT] * (length - len(kv_slots))
