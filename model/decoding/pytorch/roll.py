"""⑤ How far every slot's sentence is: what the host knows without asking the device.

Shapes: N slots.
"""

import torch
from torch import Tensor

from model.columns import Columns
from model.decoding.sentence import Sentence
from model.state import Extent


class Roll(Columns):
    """Columns of the host's; an empty slot has zeros.

    Args:
        slots: Rows to begin with.
    """

    def __init__(self, slots: int) -> None:
        self._lengths_N = torch.zeros(slots, dtype=torch.int64)
        self._longest_N = torch.zeros(slots, dtype=torch.int64)
        self._source_lengths_N = torch.zeros(slots, dtype=torch.int64)

    @property
    def device(self) -> torch.device:
        """The host."""
        return self._lengths_N.device

    def enter(self, slot: int, sentence: Sentence) -> None:
        """A sentence begins."""
        self._lengths_N[slot] = 0
        self._longest_N[slot] = sentence.longest
        self._source_lengths_N[slot] = sentence.source_length

    def leave(self, slot: int) -> None:
        """The slot is empty."""
        for _, column in self.columns():
            column[slot] = 0

    def advance(self, flags_N2: Tensor) -> list[int]:
        """Count one more token in each of the first slots.

        Args:
            flags_N2: Whether a slot is settled, and whether its numbers are broken.

        Returns:
            Those that are done: settled, broken, or as long as they may become.
        """
        slots = len(flags_N2)
        lengths_N, longest_N = self._lengths_N[:slots], self._longest_N[:slots]
        is_taken_N = longest_N > 0
        lengths_N += is_taken_N
        is_done_N = (flags_N2.any(1) | (lengths_N >= longest_N)) & is_taken_N
        done: list[int] = is_done_N.nonzero().flatten().tolist()
        return done

    def length(self, slot: int) -> int:
        """Tokens that its sentence has produced."""
        return int(self._lengths_N[slot])

    def extent(self, slots: int) -> Extent:
        """What the next step of the first slots must look at."""
        length = int(self._lengths_N[:slots].max()) + 1
        return Extent(slots, length, int(self._source_lengths_N[:slots].max()))
