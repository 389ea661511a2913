import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.errors import ConfigError, CorpusError, TrainingError
from model.training.data.dataset import PairDataset
from model.training.data.preparation import prepare_data, text_fingerprints
from model.training.distributed.world import World
from model.training.run import open_run
from model.training.run_folder.folder import RunFolder
from model.training.run_folder.state import (
    capture_random_state,
    check_unchanged,
    has_run_state,
    load_run_state,
    restore_random_state,
    save_run_state,
    seed_everything,
    seed_rank,
)
from tests.full_disk import largest_file
from tests.model.training.tiny_runs import tiny_run


def save(folder: Path, step: int, size: int = 10) -> None:
    tensors = {"weights": torch.full((size,), float(step)), "count": torch.tensor(step)}
    save_run_state(folder / "state", step, tensors, {"data": {"epoch": 2, "text": "né"}})


def test_a_full_disk_at_the_first_state_leaves_nothing(tmp_path: Path) -> None:
    with largest_file(50_000), pytest.raises(TrainingError, match="none was saved before"):
        save(tmp_path, 2, size=100_000)
    assert not has_run_state(tmp_path / "state")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("tensors.safetensors", "\0damaged", r"tensors\.safetensors cannot be read"),
        ("state.json", "\0damaged", r"state\.json cannot be read"),
        ("state.json", "[]", "must hold a JSON object"),
        ("state.json", '{"format_version": 2, "step": 1}', "has format version 2; this .+ from version 1"),
        ("state.json", None, "there is nothing to resume"),
    ],
)
def test_a_state_that_cannot_be_used_is_refused_with_the_reason(
    tmp_path: Path, file: str, content: str | None, message: str
) -> None:
    save(tmp_path, 1)
    path = tmp_path / "state" / file
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(TrainingError, match=message):
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


def check(folder: Path, **changes: dict[str, Any]) -> None:
    check_unchanged(tiny_run(folder).to_dict(), tiny_run(folder, **changes).to_dict())


def test_limits_intervals_and_validation_may_change(tmp_path: Path) -> None:
    check(
        tmp_path,
        run={"max_steps": 99, "max_minutes": 3.0, "folder": "other", "log_every": 1, "threads": 2},
        validation={"patience": 3, "keep_best": 1},
        card={"version": "2"},
        batches={"prefetch": 1},
    )


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("batches", "max_tokens", 900),
        ("network", "ffn_dim", 32),
        ("optimisation", "learning_rate", 0.5),
        ("run", "seed", 6),
        ("run", "precision", "bfloat16"),
        ("vocabulary", "size", 65),
        ("validation", "metric", "chrf"),
        ("validation", "max_sentences", 3),
        ("decoding", "beam_size", 7),
    ],
)
def test_what_shaped_the_weights_may_not(tmp_path: Path, section: str, name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"`{section}\.{name}` must be .*, as when the run began, but is"):
        check(tmp_path, **{section: {name: value}})


COSINE: dict[str, Any] = {"schedule": {"form": "cosine"}}


@pytest.mark.parametrize(
    ("begun", "now", "message"),
    [
        (
            COSINE,
            COSINE | {"run": {"max_steps": 99}},
            r"`run\.max_steps` must be 8, as when the run began: its cosine ends there, but is 99",
        ),
        (
            COSINE | {"run": {"max_steps": 0, "max_minutes": 5}},
            COSINE | {"run": {"max_steps": 0, "max_minutes": 9}},
            r"`run\.max_minutes` must be 5, as when the run began",
        ),
        (
            {"network": {"norm_position": "post"}},
            {},
            r"`network\.norm_position` must be 'post', as when the run began",
        ),
    ],
)
def test_the_end_of_a_cosine_and_what_is_no_longer_given_may_not_either(
    tmp_path: Path, begun: dict[str, Any], now: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_unchanged(tiny_run(tmp_path, **begun).to_dict(), tiny_run(tmp_path, **now).to_dict())


def test_corpora_may_move_but_not_change_their_meaning(tmp_path: Path) -> None:
    begun, now = tiny_run(tmp_path).to_dict(), tiny_run(tmp_path).to_dict()
    now["corpora"][0]["path"] = "moved.tsv"
    check_unchanged(begun, now)
    now["corpora"][0]["weight"] = 2.0
    with pytest.raises(ConfigError, match=r"corpora\.0\.weight"):
        check_unchanged(begun, now)
    with pytest.raises(ConfigError, match=r"corpora\.length"):
        check_unchanged(begun, now | {"corpora": begun["corpora"] * 2})


@pytest.mark.parametrize(("name", "which"), [("train.tsv", "train"), ("valid.tsv", "validation")])
def test_other_text_does_not_resume_and_replaces_nothing(copied_run: Path, name: str, which: str) -> None:
    root = copied_run / "run"
    with (copied_run / name).open("a") as file:
        file.write("a new dog\tun chien nouveau\n")
    kept = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    with pytest.raises(CorpusError, match=f"cannot resume: the {which} text, or the tokenizer, has changed"):
        open_run(tiny_run(copied_run, run={"log_every": 1}), resume=True)
    assert {file: file.read_bytes() for file in root.rglob("*") if file.is_file()} == kept


class Second(World):
    """The second of two processes, the first of which does nothing any more."""

    rank, size = 1, 2


def test_a_process_that_sees_other_text_makes_nothing_of_it(tmp_path: Path) -> None:
    config, folder = tiny_run(tmp_path), RunFolder(tmp_path / "run")
    folder.tokenizer.mkdir(parents=True)
    prepared = prepare_data(config, folder)
    assert prepare_data(config, folder, world=Second()).fingerprints == prepared.fingerprints
    (tmp_path / "train.tsv").write_text("a new dog\tun chien nouveau\n")
    with pytest.raises(CorpusError, match="is not made of what is here: the processes see other files"):
        prepare_data(config, folder, world=Second())
    assert text_fingerprints(tiny_run(tmp_path), folder) != prepared.fingerprints
    assert PairDataset(folder.data / "train").index.fingerprint == prepared.fingerprints["train"]
