"""The cost of a request without decoding and with it, from the command line to the report."""

from pathlib import Path

from benchmarks.overhead import main
from tests.benchmarks.conftest import run


def test_the_cost_of_a_request_is_compared_with_an_echo_and_the_engine(tmp_path: Path) -> None:
    options = ["--checkpoint", "checkpoints", "--seconds", "0.5", "--concurrency", "3"]
    ratios = run(main, tmp_path, *options, name="overhead")["tables"][1]["rows"]
    assert len(ratios) == 2
    assert all(float(each["ratio"].split()[0]) > 0 for each in ratios)
