"""ⓔ What training minimises. No torch."""

from dataclasses import dataclass

from model.checks import require_number


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """What training minimises.

    Attributes:
        label_smoothing: ε: probability taken from the reference token and spread over the others
            (Szegedy et al. 2015, https://arxiv.org/abs/1512.00567); 0 is plain cross entropy.
    """

    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        require_number("label_smoothing", self.label_smoothing, 0, 0.99)
