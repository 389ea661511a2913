"""`dragoman train` as a process of its own: options, one-line errors, kill -9 and --resume."""

import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from model.cli.train import nested, train_options
from model.training.config.train_config import TrainConfig
from tests.model.cli.conftest import Run
from tests.model.training.parallel_text import write_corpus
from tests.model.training.several_processes import write_toml
from tests.model.training.tiny_runs import tiny_values
from tests.model.training.waiting import PATIENCE_SECONDS, saved_step, wait_for_step


@pytest.fixture
def config(tmp_path: Path) -> Path:
    steps = {"max_steps": 20, "save_every": 5, "log_every": 1, "threads": 1}
    values = tiny_values(tmp_path, run=steps) | {"validation_corpora": []}
    write_toml(TrainConfig.from_dict(values), tmp_path / "tiny.toml")
    return tmp_path / "tiny.toml"


STOPS_AT_STEP_12 = """
import os, signal, sys, time
from pathlib import Path
from model.training.optimisation.step import Updater
from tests.model.training.waiting import saved_step

def update(self, step, batches, **progress):
    if step == 12:
        # A thread writes the state of step 10, and the signal would stop it too.
        while saved_step(Path(sys.argv[-1])) < 10:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGSTOP)
    return work(self, step, batches, **progress)

work, Updater.update = Updater.update, update
"""


def start(*arguments: str | Path, first: str = "") -> subprocess.Popen[str]:
    program = f"{first}\nfrom model.cli import main; main()"
    command = [sys.executable, "-c", program, "train", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_kill_9_and_resume_give_the_bits_of_an_uninterrupted_run(
    run: Run, config: Path, tmp_path: Path
) -> None:
    """Every point of a kill is tested in `tests/faults/test_killed_trainer.py`."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert "Ended by max_steps at step 20" in run("train", "--config", config, "--run.folder", whole).stdout
    process = start("--config", config, "--run.folder", killed, first=STOPS_AT_STEP_12)
    wait_for_step(process, killed, 10)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert saved_step(killed) == 10
    assert "at step 20" in run("train", "--config", config, "--run.folder", killed, "--resume").stdout
    for name in ("state/tensors.safetensors", "checkpoints/last/model.safetensors"):
        assert (whole / name).read_bytes() == (killed / name).read_bytes()


@pytest.mark.slow
def test_a_polite_signal_saves_first(config: Path, tmp_path: Path) -> None:
    process = start("--config", config, "--run.max-steps", "1000000")
    wait_for_step(process, tmp_path / "run", 5)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert errors.splitlines()[-1].startswith("dragoman: interrupted at step")
    assert f"at step {saved_step(tmp_path / 'run')}, whose state is saved" in errors


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ([], "checkpoints"),
        (["--validation-corpora", "{corpora}"], "checkpoints and scores"),
        (["--run.plots", "true"], "checkpoints and report"),
        (["--validation-corpora", "{corpora}", "--run.plots", "true"], "checkpoints, scores and report"),
    ],
)
def test_only_what_there_is_is_named_at_the_end(
    run: Run, config: Path, tmp_path: Path, options: list[str], named: str
) -> None:
    path = write_corpus(tmp_path / "valid.tsv", 2, seed=1).path
    corpora = f'[{{path = "{path}", source_language = "en", target_language = "fr"}}]'
    filled = [option.format(corpora=corpora) for option in options]
    result = run("train", "--config", config, "--run.max-steps", "1", "--validation.heat-maps", "0", *filled)
    assert result.stdout == f"Ended by max_steps at step 1; {named} are in {tmp_path / 'run'}\n"


def flags() -> Iterable[str]:
    return (option.opts[0] for option in train_options())


def test_every_value_is_an_option(run: Run) -> None:
    shown = run("train", "--help").output
    assert all(flag in shown for flag in flags())
    expected = {"--corpora", "--optimisation.learning-rate", "--network.ffn-dim", "--decoding.beam-size"}
    assert expected <= set(flags())


def test_options_take_the_shape_of_the_file() -> None:
    options = {"run__max_steps": 3, "network__ffn_dim": None, "validation_corpora": [{"path": "x"}]}
    assert nested(options) == {"run": {"max_steps": 3}, "validation_corpora": [{"path": "x"}]}


@pytest.mark.parametrize(
    ("arguments", "line", "status"),
    [
        (["--config", "{folder}"], "`config` must be a readable TOML file (Is a directory)", 2),
        (["--config", "{folder}/none.toml"], "`config` must be a readable TOML file (No such file", 2),
        ([], "`corpora` must be given, at least one", 2),
        (["--batches.max-tokens", "many"], "Invalid value for '--batches.max-tokens'", 2),
        (["--config", "{config}", "--schedule.form", "linear"], "Invalid value for '--schedule.form'", 2),
        (["--config", "{config}", "--network.num-heads", "3"], "`network.num_heads` must be a divisor", 2),
        (["--corpora", "[{"], "'[{' is not a value in TOML's syntax", 2),
        (["--config", "{config}", "--corpora", "{corpora}"], "none.tsv: no such file", 1),
        (["--config", "{config}", "--corpora", "{directory}"], "is a folder", 1),
        (["--config", "{config}", "--corpora", "{empty}"], "empty.tsv: empty, no sentence pair to read", 1),
    ],
)
def test_what_cannot_work_is_one_clear_line(
    run: Run,
    config: Path,
    tmp_path: Path,
    arguments: list[str],
    line: str,
    status: int,
) -> None:
    (tmp_path / "empty.tsv").touch()
    names = {"corpora": "none.tsv", "directory": ".", "empty": "empty.tsv"}
    tables = {
        key: f'[{{path = "{tmp_path / name}", source_language = "en", target_language = "fr"}}]'
        for key, name in names.items()
    }
    places = {"folder": tmp_path, "config": config, **tables}
    filled = [argument.format(**places) if argument != "[{" else argument for argument in arguments]
    result = run("train", *filled)
    assert result.exit_code == status
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("dragoman: ")
    assert line in last
