"""② A way from one language into another: a checkpoint, or two and the language between them."""

from dataclasses import dataclass
from functools import cached_property

from app.backend import LoadedModel
from model.card import Pair


@dataclass(frozen=True)
class Leg:
    """One translation on the way: which checkpoint, and from which language into which."""

    model: LoadedModel
    pair: Pair


@dataclass(frozen=True)
class Route:
    """A way from one language into another.

    Attributes:
        legs: In order of use, at least one; each begins in the language that the one before ends in.
    """

    legs: tuple[Leg, ...]

    @cached_property
    def models(self) -> str:
        """Names of the checkpoints in order of use: `de-en>en-fr`."""
        return ">".join(leg.model.card.name for leg in self.legs)

    @cached_property
    def versions(self) -> str:
        """Which weights those are, in the same form."""
        return ">".join(leg.model.version for leg in self.legs)

    @cached_property
    def pivot(self) -> str | None:
        """The language on the way; None on a direct one."""
        return ">".join(leg.pair[0] for leg in self.legs[1:]) or None
