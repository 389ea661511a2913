"""A disk that is full while a run writes: one clear line, status 1, and what was saved before is whole.

No file may grow past a limit, which is as near to a full disk as a test gets without being root. The
limits are chosen so that something else meets them first each time.
"""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from model.checkpoint.folder import load_checkpoint
from model.training.report.log import RunLog
from model.training.run import open_run
from model.training.run_folder.state import load_run_state
from tests.app.remote import ROOT
from tests.model.training.tiny_runs import tiny_run

PROGRAM = """
import sys
from pathlib import Path
from model.cli.main import main
from model.cli import train
from tests.model.training.tiny_runs import tiny_run
train.load_train_config = lambda *_: tiny_run(Path(sys.argv[1]), run={"max_steps": 20})
main(["train", "--resume"], prog_name="dragoman")
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    run = open_run(tiny_run(folder))
    run.run()
    RunLog(run.folder.log).record("note", 8, {"text": "longer than all that is written before it" * 250})
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "victim", ["checkpoints/last/model.safetensors", "state/tensors.safetensors", "log.jsonl"]
)
def test_the_last_good_state_and_checkpoint_stay_whole(finished: Path, tmp_path: Path, victim: str) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    root = tmp_path / "run"
    kept = {part: files_of(root / part) for part in ("state", "checkpoints")}
    sizes = {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()}
    limit = sizes[victim] if victim == "log.jsonl" else sizes[victim] - 1  # the log is appended to

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ,
        preexec_fn=fill,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("dragoman: cannot ")
    assert "kept" in ended.stderr.splitlines()[-1]
    assert {part: files_of(root / part) for part in kept} == kept
    assert load_run_state(root / "state").step == 8
    assert load_checkpoint(root / "checkpoints/last").provenance["steps"] == 8
