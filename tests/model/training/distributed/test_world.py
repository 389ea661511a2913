from pathlib import Path

import pytest
import torch

from model.errors import ConfigError
from model.training.config_sections import RunConfig
from model.training.distributed import is_distributed
from model.training.distributed.world import (
    SINGLE_PROCESS,
    World,
    choose_device,
    require_batches_for_all,
    tuned_cpu,
)
from model.training.run import open_run
from tests.model.training.tiny_runs import tiny_run


def test_alone_gradients_are_untouched_and_missing_ones_are_zero() -> None:
    used, dropped = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    (used * 2).sum().backward()
    SINGLE_PROCESS.sum_gradients([used, dropped])
    assert [weight.grad.tolist() for weight in (used, dropped) if weight.grad is not None] == [
        [2, 2],
        [0, 0, 0],
    ]


def test_every_item_is_in_one_shard_and_shards_may_be_empty() -> None:
    worlds = [World() for _ in range(3)]
    for rank, world in enumerate(worlds):
        world.rank, world.size = rank, len(worlds)
    assert [list(world.shard("abcdefg")) for world in worlds] == [["a", "d", "g"], ["b", "e"], ["c", "f"]]
    assert [list(world.shard("a")) for world in worlds] == [["a"], [], []]
    assert list(SINGLE_PROCESS.shard("abc")) == SINGLE_PROCESS.gather(["a", "b", "c"]) == ["a", "b", "c"]


@pytest.mark.parametrize(("size", "among_others"), [(None, False), ("1", False), ("2", True)])
def test_a_process_knows_whether_there_are_others(
    size: str | None, among_others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if size is not None:
        monkeypatch.setenv("WORLD_SIZE", size)
    assert is_distributed() == among_others


class Three(World):
    """One of three processes."""

    size = 3


def test_more_processes_than_batches_are_refused(tmp_path: Path) -> None:
    message = r"`optimisation\.accumulate` must be at least 3: a batch for each process, but is 2 instead"
    with pytest.raises(ConfigError, match=message):
        require_batches_for_all(tiny_run(tmp_path, optimisation={"accumulate": 2}), Three())


@pytest.mark.parametrize(("batches", "warns"), [(3, False), (4, True), (6, False)])
def test_batches_that_cannot_be_divided_evenly_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, batches: int, warns: bool
) -> None:
    require_batches_for_all(tiny_run(tmp_path, optimisation={"accumulate": batches}), Three())
    assert ("leave some of 3 processes waiting" in caplog.text) is warns


def test_attention_kernels_are_chosen_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[object] = []
    monkeypatch.setattr("model.training.distributed.world.choose_attention_kernels", chosen.append)
    found = choose_device(RunConfig(max_steps=1, device="cpu"), SINGLE_PROCESS)
    assert chosen == [found]


def test_a_precision_that_the_processor_lacks_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`run\.precision` must be float32 or bfloat16 on a CPU"):
        open_run(tiny_run(tmp_path, run={"precision": "float16"}))
    assert not (tmp_path / "run").exists()


TINY = torch.finfo(torch.float32).tiny


def halved() -> float:
    """Half of the smallest normal number: a denormal, unless those are flushed to zero."""
    return float(torch.tensor([TINY]) / 2)


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot flush denormals")
def test_denormals_are_flushed_inside_only() -> None:
    assert halved() > 0
    with tuned_cpu(0):
        assert halved() == 0
    assert halved() > 0


def test_threads_are_as_before_afterwards() -> None:
    before = torch.get_num_threads()
    with tuned_cpu(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
