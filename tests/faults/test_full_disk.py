"""A disk that is full while a run writes: one clear line, status 1, and what was saved before is whole.

No file may grow past a limit, which is as near to a full disk as a test gets without being root. The
limits are chosen so that something else meets them first each time.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from model.checkpoint.folder import load_checkpoint
from model.training.run import open_run
from model.training.run_folder.folder import RunLog
from model.training.run_folder.state import load_run_state
from tests.app.remote import ROOT
from tests.model.training.tiny_runs import tiny_run

VICTIMS = ("checkpoints/last/model.safetensors", "state/tensors.safetensors", "log.jsonl")
# Resumes each run in a fork with its limit: standard error goes into its folder, statuses are told as JSON.
PROGRAM = """
import json, os, resource, sys
import model.training.run  # once, before the forks
from pathlib import Path
from model.cli import train
from model.cli.main import main
from tests.model.training.tiny_runs import tiny_run

def resume(folder, limit):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT), 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        train.load_train_config = lambda *_: tiny_run(folder, run={"max_steps": 20})
        main(["train", "--resume"], prog_name="dragoman")
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

print(json.dumps([resume(Path(folder), limit) for folder, limit in json.loads(sys.argv[1])]))
"""


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_last_good_state_and_checkpoint_stay_whole(tmp_path: Path) -> None:
    (tmp_path / "finished").mkdir()
    run = open_run(tiny_run(tmp_path / "finished"))
    run.run()
    RunLog(run.folder).record("note", 8, {"text": "longer than all that is written before it" * 250})
    finished = files_of(tmp_path / "finished/run")
    folders = [shutil.copytree(tmp_path / "finished", tmp_path / str(n)) for n in range(len(VICTIMS))]
    # The log is appended to; other files are written anew.
    limits = [len(finished[victim]) - (victim != "log.jsonl") for victim in VICTIMS]
    command = [sys.executable, "-c", PROGRAM, json.dumps(list(zip(map(str, folders), limits, strict=True)))]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    assert json.loads(ended.stdout) == [1] * len(VICTIMS)
    for folder, victim in zip(folders, VICTIMS, strict=True):
        told = (folder / "stderr").read_text()
        assert "Traceback" not in told, victim
        assert told.splitlines()[-1].startswith("dragoman: cannot "), victim
        assert "kept" in told.splitlines()[-1], victim
        for part in ("state", "checkpoints"):
            assert files_of(folder / "run" / part) == files_of(tmp_path / "finished/run" / part), victim
        assert load_run_state(folder / "run/state")[0] == 8
        assert load_checkpoint(folder / "run/checkpoints/last").provenance["steps"] == 8
