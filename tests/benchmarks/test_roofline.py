"""What a decoder step needs at least, and the benchmark from its command line to its report."""

from pathlib import Path

import pytest

from benchmarks.engines.weights import SHAPES
from benchmarks.roofline import Limits, StepCost, main, measure_limits, step_cost
from model.network.transformer import Transformer
from tests.benchmarks.conftest import run

LIMITS = Limits(operations={"int8": 100.0, "float32": 10.0}, bandwidth={1000: 50.0})


def test_the_cost_counts_the_decoders_weights_once_and_multiplies_them_by_the_rows() -> None:
    config = SHAPES["tiny"]
    network = Transformer(config)
    read_once_a_sentence = (
        config.num_decoder_layers * 2 * config.model_dim**2
    )  # keys and values of the source
    matrices = [p for name, p in network.decoder.named_parameters() if p.dim() == 2]
    weights = sum(p.numel() for p in matrices) + network.output.weight.numel() - read_once_a_sentence
    assert step_cost(config, 1, "float32") == StepCost(read_bytes=4 * weights, operations=2 * weights)
    assert step_cost(config, 32, "int8") == StepCost(read_bytes=weights, operations=64 * weights)


@pytest.mark.parametrize(("operations", "seconds"), [(100, 20.0), (10_000, 100.0)])
def test_the_slower_of_reading_and_computing_counts(operations: int, seconds: float) -> None:
    cost = StepCost(read_bytes=1000, operations=operations)
    assert cost.least_seconds(LIMITS, "int8") == seconds


def test_a_machine_can_be_measured() -> None:
    limits = measure_limits([2**14, 2**20], ["float32", "bfloat16", "int8"])
    assert set(limits.operations) == {"float32", "bfloat16", "int8"}
    assert min(limits.operations.values()) > 1e8
    assert list(limits.bandwidth) == [2**14, 2**20]
    assert min(limits.bandwidth.values()) > 1e8


@pytest.mark.usefixtures("here")
def test_a_step_is_compared_with_the_limits_of_the_machine(tmp_path: Path) -> None:
    chosen = ["--engine", "dragoman-torch-float32", "--engine", "ctranslate2-int8"]
    results = run(main, tmp_path, "--shape", "tiny", "--batch-size", "4", *chosen, name="roofline")["results"]
    steps = [result for result in results if result["kind"] == "step"]
    assert [step["engine"] for step in steps] == ["dragoman-torch-float32", "ctranslate2-int8"]
    assert all(len(step["seconds"]) == 1 and step["least_seconds"] > 0 for step in steps)
    (limits,) = (result for result in results if result["kind"] == "limits")
    assert len(limits["bandwidth"]) == 2
