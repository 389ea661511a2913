"""⑤ What sentences occupy of a runner, and whether that is within a bound. No torch."""

from dataclasses import dataclass
from typing import Self

from model.decoding.sentence import Sentence


@dataclass(frozen=True, kw_only=True)
class Load:
    """An amount of work, or the most of it.

    Attributes:
        rows: Hypotheses alive at once.
        positions: Entries of the decoder state.
        tokens: Source tokens, each counted once for every row of its sentence.
    """

    rows: int = 0
    positions: int = 0
    tokens: int = 0

    @classmethod
    def of(cls, sentence: Sentence) -> Self:
        """What one sentence may come to occupy."""
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
