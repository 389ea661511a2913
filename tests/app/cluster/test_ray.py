"""A local Ray cluster loses no request when replicas are killed."""

import os
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("ray", reason="the extra `ray` is not installed")

_CAN_ISOLATE = os.geteuid() == 0 and shutil.which("unshare") is not None


@pytest.mark.slow
@pytest.mark.skipif(not _CAN_ISOLATE, reason="a network of its own needs root and `unshare`")
def test_a_cluster_serves() -> None:
    command = [sys.executable, "-m", "benchmarks.cluster", "requests", "--count", "300"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=540)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
