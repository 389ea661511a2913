"""What a decoder step needs at least."""

import pytest

from benchmarks.floor import StepCost, floor_seconds, step_cost
from benchmarks.limits import Limits, measure_limits
from benchmarks.shapes import SHAPES
from model.network.transformer import Transformer

LIMITS = Limits(operations={"int8": 100.0, "float32": 10.0}, bandwidth={1000: 50.0})


def test_the_cost_counts_the_decoders_weights_once_and_multiplies_them_by_the_rows() -> None:
    config = SHAPES["tiny"]
    network = Transformer(config)
    read_once_a_sentence = (
        config.num_decoder_layers * 2 * config.model_dim**2
    )  # keys and values of the source
    matrices = [p for name, p in network.decoder.named_parameters() if p.dim() == 2]
    weights = sum(p.numel() for p in matrices) + network.output.weight.numel() - read_once_a_sentence
    assert step_cost(config, 1, "float32") == StepCost(weight_bytes=4 * weights, operations=2 * weights)
    assert step_cost(config, 32, "int8") == StepCost(weight_bytes=weights, operations=64 * weights)


@pytest.mark.parametrize(("operations", "seconds"), [(100, 20.0), (10_000, 100.0)])
def test_the_slower_of_reading_and_computing_counts(operations: int, seconds: float) -> None:
    assert floor_seconds(StepCost(weight_bytes=1000, operations=operations), LIMITS, "int8") == seconds


def test_a_machine_can_be_measured() -> None:
    limits = measure_limits([2**14, 2**20])
    assert set(limits.operations) == {"float32", "bfloat16", "int8"}
    assert min(limits.operations.values()) > 1e8
    assert list(limits.bandwidth) == [2**14, 2**20]
    assert min(limits.bandwidth.values()) > 1e8
