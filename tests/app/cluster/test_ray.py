"""A local Ray cluster: requests survive the end of their replica. It takes two minutes and needs Ray."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytest.importorskip("ray", reason="the extra `ray` is not installed")

_CLUSTER = Path(__file__).parent / "local_cluster.py"
_CAN_ISOLATE = os.geteuid() == 0 and shutil.which("unshare") is not None


@pytest.mark.slow
@pytest.mark.skipif(not _CAN_ISOLATE, reason="a network of its own needs root and `unshare`")
def test_no_request_is_lost_when_replicas_are_killed() -> None:
    # Ray takes 127.0.0.1 for all its parts only where there is no other network.
    command = f"ip link set lo up && exec {sys.executable} {_CLUSTER} 300"
    isolated = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", command]
    # The path of a socket has at most 107 characters, and Ray's own part has 80.
    with TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        run = subprocess.run(
            isolated, env={**os.environ, "RAY_TMPDIR": folder}, capture_output=True, text=True, timeout=540
        )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    assert "300 of 300 answered rightly" in run.stdout
