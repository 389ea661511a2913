import json
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from model.errors import TrainingError
from model.training.run_folder.state import (
    capture_random_state,
    has_run_state,
    load_run_state,
    restore_random_state,
    save_run_state,
    seed_everything,
    seed_rank,
)


def save(folder: Path, step: int, size: int = 10) -> None:
    tensors = {"weights": torch.full((size,), float(step)), "count": torch.tensor(step)}
    save_run_state(folder / "state", step, tensors, {"data": {"epoch": 2, "text": "né"}})


@contextmanager
def room_for(num_bytes: int) -> Iterator[None]:
    """Every file ends at so many bytes, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_new_state_takes_the_old_ones_place(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    assert load_run_state(tmp_path / "state")[0] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_full_disk_leaves_the_last_good_state_and_says_so(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with room_for(50_000), pytest.raises(TrainingError) as caught:
        save(tmp_path, 2, size=100_000)
    message = str(caught.value)
    assert "\n" not in message
    assert "state of step 2" in message
    assert "the one of step 1 is kept" in message
    assert load_run_state(tmp_path / "state")[0] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_full_disk_at_the_first_state_leaves_nothing(tmp_path: Path) -> None:
    with room_for(50_000), pytest.raises(TrainingError, match="none was saved before"):
        save(tmp_path, 2, size=100_000)
    assert not has_run_state(tmp_path / "state")


def test_nothing_to_resume_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="nothing to resume"):
        load_run_state(tmp_path / "state")


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    save(tmp_path, 1)
    (tmp_path / "state" / name).write_bytes(b"\x00damaged")
    with pytest.raises(TrainingError, match=name):
        load_run_state(tmp_path / "state")


def edit(folder: Path, **values: object) -> None:
    file = folder / "state.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_a_state_of_another_format_is_refused_by_its_version(tmp_path: Path) -> None:
    save(tmp_path, 1)
    edit(tmp_path / "state", format_version=2)
    with pytest.raises(TrainingError, match="has format version 2; this release goes on from version 1"):
        load_run_state(tmp_path / "state")


def test_a_state_from_before_formats_had_a_number_loads(tmp_path: Path) -> None:
    save(tmp_path, 3)
    file = tmp_path / "state" / "state.json"
    values = json.loads(file.read_text())
    del values["format_version"]
    file.write_text(json.dumps(values))
    assert load_run_state(tmp_path / "state")[0] == 3


@pytest.mark.parametrize("content", ["[]", '"text"', "3"])
def test_a_state_that_is_no_object_is_refused(tmp_path: Path, content: str) -> None:
    save(tmp_path, 1)
    (tmp_path / "state" / "state.json").write_text(content)
    with pytest.raises(TrainingError, match="must hold a JSON object"):
        load_run_state(tmp_path / "state")


def draws() -> tuple[float, float, float, float, float]:
    return (
        random.random(),
        random.gauss(0, 1),
        float(np.random.random()),
        float(np.random.normal()),
        float(torch.randn(())),
    )


def test_every_generator_goes_on_as_it_would_have() -> None:
    seed_everything(3)
    draws()  # leaves half of a pair of normal draws in the Gaussian generators
    tensors, plain = capture_random_state()
    expected = [draws() for _ in range(3)]
    seed_everything(99)
    restore_random_state(tensors, json.loads(json.dumps(plain)))
    assert [draws() for _ in range(3)] == expected


def test_shares_of_an_update_draw_differently_and_again_the_same() -> None:
    def draw(seed: int, rank: int, step: int) -> float:
        seed_rank(seed, rank, step)
        return float(torch.rand(()))

    shares = [(seed, rank, step) for seed in (1, 2) for rank in (0, 1) for step in (1, 2)]
    draws = [draw(*share) for share in shares]
    assert len(set(draws)) == len(draws)
    assert draws == [draw(*share) for share in shares]
