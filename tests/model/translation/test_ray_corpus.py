"""A corpus on a local Ray cluster is the same as on one machine. It takes a minute and needs Ray."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.embedded import EMBEDDED

pytest.importorskip("ray", reason="the extra `ray` is not installed")

_CAN_ISOLATE = os.geteuid() == 0 and shutil.which("unshare") is not None
_LINES = 40


@pytest.mark.slow
@pytest.mark.skipif(not _CAN_ISOLATE, reason="a network of its own needs root and `unshare`")
def test_a_cluster_writes_what_one_machine_writes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a.txt", "b.txt"):
        (source / name).write_text("".join(f"There are {n} cats.\n" for n in range(_LINES)))
    program = Path(sys.executable).with_name("dragoman")
    command = [program, "translate", "-s", "en", "-t", "fr", "--checkpoint", EMBEDDED, source, "--output"]
    subprocess.run([*command, tmp_path / "one"], check=True, capture_output=True)
    # Ray takes 127.0.0.1 for all its parts only where there is no other network.
    script = 'ip link set lo up && exec "$@" --on local'
    isolated = [
        "unshare",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
        script,
        "sh",
    ]
    with TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        environment = {**os.environ, "RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}
        run = [*isolated, *command, tmp_path / "many"]
        ended = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=540)
    assert ended.returncode == 0, ended.stderr[-2000:]
    for name in ("a.txt", "b.txt"):
        assert (tmp_path / "many" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
