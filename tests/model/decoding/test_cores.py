import os
from pathlib import Path

import pytest

from model.decoding.device import available_cores

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000\n", CORES),
        ("100000 100000\n", 1),
        ("50000 100000\n", 1),
        (f"{(CORES + 3) * 100000} 100000\n", CORES),
        ("strange", CORES),
    ],
)
def test_a_containers_quota_counts(tmp_path: Path, quota: str, expected: int) -> None:
    path = tmp_path / "cpu.max"
    path.write_text(quota)
    assert available_cores(path) == expected


def test_without_a_quota_the_process_may_use_what_it_runs_on(tmp_path: Path) -> None:
    assert available_cores(tmp_path / "missing") == CORES
