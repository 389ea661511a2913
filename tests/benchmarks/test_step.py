"""The step benchmark from its command line to its report."""

from pathlib import Path

from tests.benchmarks.commands import run


def test_a_step_is_compared_with_the_limits_of_the_machine(tmp_path: Path) -> None:
    chosen = ["--engine", "dragoman-torch-float32", "--engine", "ctranslate2-int8"]
    results = run("step", tmp_path, "--shape", "tiny", "--batch-size", "4", *chosen)["results"]
    steps = [result for result in results if result["kind"] == "step"]
    assert [step["engine"] for step in steps] == ["dragoman-torch", "ctranslate2"]
    assert all(len(step["seconds"]) == 2 and step["floor_seconds"] > 0 for step in steps)
    (limits,) = (result for result in results if result["kind"] == "limits")
    assert len(limits["bandwidth"]) == 2
