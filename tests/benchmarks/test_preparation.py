import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.preparation import main
from benchmarks.preparation_work import write_made_up_pairs


def test_made_up_pairs_are_as_many_as_asked_for_and_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_made_up_pairs(tmp_path / name, 1000)
    lines = (tmp_path / "a").read_text().splitlines()
    assert len(lines) == 1000
    assert len(set(lines)) > 990
    assert all(line.count("\t") == 1 and line.endswith(".") for line in lines)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("sizes", [("1500", "2500")])
def test_stages_are_measured_for_each_number(tmp_path: Path, sizes: tuple[str, ...]) -> None:
    options = [part for size in sizes for part in ("--pairs", size)]
    run = CliRunner().invoke(main, [*options, "--output", str(tmp_path)], catch_exceptions=False)
    assert run.exit_code == 0
    results = json.loads((tmp_path / "preparation.json").read_text())["results"]
    stages = [(result["stage"], result["pairs"]) for result in results]
    assert stages == [(stage, int(size)) for size in sizes for stage in ("vocabulary", "tokenise")]
    assert all(result["peak"] >= result["start"] > 0 for result in results)
    assert "### Growth" in (tmp_path / "preparation.md").read_text()
