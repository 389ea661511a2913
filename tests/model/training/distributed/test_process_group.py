import json
import os
import shutil
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from torch.distributed import HashStore, PrefixStore

from model.training.data import tokenisation
from model.training.distributed import process_group
from model.training.distributed.process_group import DistributedWorld, rendezvous_prefix
from model.training.run import open_run
from model.training.run_folder.folder import RunLog
from model.training.train_config import TrainConfig
from tests.app.remote import wait_for
from tests.model.training.several_processes import (
    SMALL_CHUNK,
    STOPS_AT,
    UNDER_TORCHRUN,
    outcome_of,
    started,
    train_together,
    write_toml,
)
from tests.model.training.tiny_runs import tiny_run
from tests.model.training.waiting import saved_step, wait_for_step

SHARED: dict[str, Any] = {
    "optimisation": {"accumulate": 3, "ema_decay": 0.9, "average_last": 2, "weight_decay": 0.1},
    "batches": {"max_tokens": 1600},
    "run": {"max_steps": 7, "save_every": 2, "log_every": 1},
    "validation": {"every": 3},
}
"""Three batches an update for two processes, over the ends of epochs of about 9 batches."""

ALWAYS = 1 - 1e-9
"""A rate that no draw of torch's reaches."""


def shared_run(
    folder: Path, *, dropout: float = 0.1, layer_drop: float = 0.0, sentences: int = 3, **limits: int
) -> TrainConfig:
    folder.mkdir()
    rates = dict.fromkeys(("embedding_dropout", "residual_dropout"), dropout) | {"layer_drop": layer_drop}
    validation = SHARED["validation"] | {"max_sentences": sentences, "samples": sentences}
    changes = {"network": rates, "validation": validation, "run": SHARED["run"] | limits}
    return tiny_run(folder, **{**SHARED, **changes})


def events(config: TrainConfig) -> list[dict[str, Any]]:
    lines = (Path(config.run.folder) / "log.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def translated(config: TrainConfig) -> list[int]:
    """Sentences of a direction, at each validation."""
    validations = [event for event in events(config) if event["kind"] == "validation"]
    return [len(event["directions"]["en-fr"]["samples"]) for event in validations]


def state_of(config: TrainConfig) -> bytes:
    return (Path(config.run.folder) / "state/tensors.safetensors").read_bytes()


def command(config: TrainConfig, *arguments: str) -> list[str]:
    """Of `dragoman`, after its name."""
    file = Path(config.run.folder).with_suffix(".toml")
    write_toml(config, file)
    return ["train", "--config", str(file), *arguments]


def errors(said: str) -> list[str]:
    """Errors, without the log."""
    return [line for line in said.splitlines() if "dragoman:" in line]


def data_of(config: TrainConfig) -> dict[str, bytes]:
    """The prepared text, which both processes tokenised."""
    folder = Path(config.run.folder) / "data"
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


class Together(NamedTuple):
    """Finished runs of two processes.

    Attributes:
        configs: Of a run without dropout; of one with dropout and fewer validation sentences than processes;
            and of one that drops every layer in every update.
        said: Standard error of both processes.
    """

    configs: Sequence[TrainConfig]
    said: str


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Together:
    folder = tmp_path_factory.mktemp("together")
    configs = [
        shared_run(folder / "still", dropout=0.0),
        shared_run(folder / "dropping", sentences=1),
        shared_run(folder / "skipping", dropout=0.0, layer_drop=ALWAYS),
    ]
    return Together(configs, train_together(configs, folder))


@pytest.mark.parametrize(("place", "layer_drop"), [(0, 0.0), (2, ALWAYS)])
def test_the_loss_curve_is_that_of_one_process(
    together: Together, tmp_path: Path, place: int, layer_drop: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenisation, "CHUNK_SIZE", SMALL_CHUNK)
    alone = shared_run(tmp_path / "alone", dropout=0.0, layer_drop=layer_drop)
    open_run(alone).run()
    expected, found = events(alone), events(together.configs[place])
    assert found[-1]["epoch"] > 2
    assert data_of(alone) == data_of(together.configs[place])
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        for name in ("kind", "step", "epoch", "tokens"):
            assert ours.get(name) == theirs.get(name)
        for name in {"loss", "cross_entropy", "gradient_norm"} & theirs.keys():
            assert ours[name] == pytest.approx(theirs[name], rel=1e-5)
        assert ours.get("directions") == theirs.get("directions")
    assert translated(together.configs[place]) == [3] * 3


def test_few_sentences_leave_a_process_without_one(together: Together) -> None:
    assert translated(together.configs[1]) == [1] * 3


def test_one_process_goes_on_where_two_were(together: Together, tmp_path: Path) -> None:
    longer = {"max_steps": 9}
    alone = open_run(shared_run(tmp_path / "alone", dropout=0.0, **longer))
    alone.run()
    begun = shared_run(tmp_path / "begun", dropout=0.0, **longer)
    shutil.copytree(together.configs[0].run.folder, begun.run.folder)
    resumed = open_run(begun, resume=True)
    assert resumed.trainer.position.step == 7
    resumed.run()
    expected, found = (RunLog(run.folder).events("update")[-1] for run in (alone, resumed))
    assert (found["step"], found["tokens"]) == (9, expected["tokens"])
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-5)


def test_training_leaves_torchs_compiler_alone(together: Together) -> None:
    assert together.said.count("at the end: compiler False") == 2


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are found by Linux' /proc")
def test_no_thread_outlives_the_process_group(together: Together) -> None:
    """A thread that frees a tensor while Python shuts down can end the process by SIGABRT."""
    assert together.said.count("at the end: ") == 2
    assert "pt_gloo" not in together.said.partition("at the end: ")[2]  # the threads that hold tensors


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_all_goes_on_to_the_same_bits(
    together: Together, tmp_path: Path
) -> None:
    config, stopped = shared_run(tmp_path / "killed", sentences=1), tmp_path / "stopped"
    with started([[UNDER_TORCHRUN, str(stopped), *command(config, "--resume")]]) as ranks:
        wait_for_step(ranks, Path(config.run.folder), STOPS_AT - 1)
        wait_for(lambda: stopped.read_text())
        os.kill(int(stopped.read_text()), signal.SIGKILL)
        statuses, said = ranks.outcome()
    assert statuses == [0], said
    assert "dragoman: another process of this run has ended (" in said
    assert "; what was saved before is kept, continue it with --resume" in said
    assert "resuming at step" in said
    assert state_of(config) == state_of(together.configs[1])
    losses, expected = (
        [event.get("loss") for event in events(each)] for each in (config, together.configs[1])
    )
    assert losses == expected


def test_an_error_of_one_ends_all_and_is_printed_once(tmp_path: Path) -> None:
    config = shared_run(tmp_path / "unwritable")
    (tmp_path / "file").touch()
    statuses, said = outcome_of([command(config, "--run.folder", str(tmp_path / "file/run"))] * 2)
    assert statuses == [1, 1]
    (line,) = errors(said)
    assert line.startswith("dragoman: cannot write to ")


def test_an_error_of_all_is_printed_once(tmp_path: Path) -> None:
    config = shared_run(tmp_path / "different")
    statuses, said = outcome_of([command(config, "--run.seed", str(rank)) for rank in range(2)])
    assert statuses == [1, 1]
    assert errors(said) == ["dragoman: the 2 processes of this run do not see the same configuration"]


@pytest.mark.slow
def test_sigterm_to_one_saves_and_ends_all(tmp_path: Path) -> None:
    config = shared_run(tmp_path / "interrupted")
    with started([command(config, "--run.max-steps", "1000000")] * 2) as ranks:
        wait_for_step(ranks, Path(config.run.folder), 4)
        os.kill(ranks.pids[1], signal.SIGTERM)
        statuses, said = ranks.outcome()
    assert statuses == [1, 1]
    message = f"dragoman: interrupted at step {saved_step(Path(config.run.folder))}, whose state is saved"
    assert errors(said) == [f"{message}; continue with --resume"]


def meet(store: HashStore, size: int) -> set[str]:
    """The names that so many processes agree on."""
    with ThreadPoolExecutor(size) as threads:
        return set(threads.map(lambda rank: rendezvous_prefix(store, rank, size), range(size)))


def test_all_of_one_start_have_the_same_name_and_no_other_start_has_it() -> None:
    store = HashStore()
    names = [meet(store, 3), meet(store, 3), meet(store, 2), meet(store, 3)]
    assert [len(found) for found in names] == [1, 1, 1, 1]
    assert len(set.union(*names)) == 4


def test_a_process_that_died_while_it_asked_is_ignored() -> None:
    store = HashStore()
    store.set("question/1", "asked before torchrun replaced it")
    assert len(meet(store, 2)) == 1


def test_a_process_that_does_not_join_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_group, "_RENDEZVOUS_TIMEOUT", timedelta(seconds=0.2))
    store = HashStore()
    store.set("question/2", "asked before")
    with pytest.raises(RuntimeError, match="2 of 3 have not come"):
        rendezvous_prefix(PrefixStore("run", store), 0, 3)


def test_gradients_of_gpus_have_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL's threads wait for a lost process; the default of the group is thirty days."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(DistributedWorld, "require_same", lambda *_: None)
    monkeypatch.setattr(DistributedWorld, "all_max", lambda world, value: value)
    monkeypatch.setattr(process_group.torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(process_group.torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(process_group.dist, "new_group", lambda **options: asked.append(options))
    device = DistributedWorld(HashStore(), 1, 2, 1).device("cuda")
    (options,) = asked
    assert (options["backend"], options["device_id"]) == ("nccl", device)
    assert timedelta(minutes=10) < options["timeout"] <= timedelta(hours=1)
