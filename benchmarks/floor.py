"""The least time that one decoder step can take on one core, from what it must read and compute."""

from dataclasses import dataclass

from benchmarks.limits import Limits
from model.config import TransformerConfig

_BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """What a step of some rows needs, attention over what came before left out.

    Attributes:
        weight_bytes: Read once, however many rows there are.
        operations: Multiplications and additions of all rows.
    """

    weight_bytes: int
    operations: int


def step_cost(config: TransformerConfig, rows: int, precision: str) -> StepCost:
    """Cost of one more token in every row.

    A layer has four projections for attention to the target, two for the source (keys and values are
    projected once a sentence) and two of its feed-forward block; then comes the vocabulary.

    Args:
        config: Shape of the network.
        rows: Hypotheses in the batch.
        precision: Of the weights.
    """
    dim = config.model_dim
    layer = 6 * dim * dim + 2 * dim * config.ffn_dim
    weights = config.num_decoder_layers * layer + dim * config.target_vocab_size
    return StepCost(weight_bytes=weights * _BYTES[precision], operations=2 * weights * rows)


def floor_seconds(cost: StepCost, limits: Limits, precision: str) -> float:
    """Reading and computing may overlap, so the slower of the two."""
    reading = cost.weight_bytes / limits.bandwidth[cost.weight_bytes]
    return max(reading, cost.operations / limits.operations[precision])
