import json
from pathlib import Path
from typing import Any

import pytest

from model.errors import ConfigError, CorpusError
from model.training.data.dataset import PairDataset
from model.training.data.preparation import prepare_data, text_fingerprints
from model.training.distributed.world import World
from model.training.run import open_run
from model.training.run_folder.folder import RunFolder
from model.training.run_folder.resume_checks import check_unchanged
from tests.model.training.tiny_runs import tiny_run


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


def test_a_cosine_as_long_as_the_run_fixes_its_length(tmp_path: Path) -> None:
    cosine = {"form": "cosine"}
    begun = tiny_run(tmp_path, schedule=cosine).to_dict()
    message = r"`run\.max_steps` must be 8, as when the run began: its cosine ends there, but is 99"
    with pytest.raises(ConfigError, match=message):
        check_unchanged(begun, tiny_run(tmp_path, schedule=cosine, run={"max_steps": 99}).to_dict())


def test_a_cosine_that_ends_with_the_time_fixes_the_minutes(tmp_path: Path) -> None:
    cosine, limits = {"form": "cosine"}, {"max_steps": 0, "max_minutes": 5}
    begun = tiny_run(tmp_path, schedule=cosine, run=limits).to_dict()
    with pytest.raises(ConfigError, match=r"`run\.max_minutes` must be 5, as when the run began"):
        check_unchanged(begun, tiny_run(tmp_path, schedule=cosine, run=limits | {"max_minutes": 9}).to_dict())


def test_a_value_that_is_no_longer_given_is_noticed(tmp_path: Path) -> None:
    begun, now = tiny_run(tmp_path, network={"norm_position": "post"}).to_dict(), tiny_run(tmp_path).to_dict()
    with pytest.raises(ConfigError, match=r"`network\.norm_position` must be 'post', as when the run began"):
        check_unchanged(begun, now)


def test_corpora_may_move_but_not_change_their_meaning(tmp_path: Path) -> None:
    begun, now = tiny_run(tmp_path).to_dict(), tiny_run(tmp_path).to_dict()
    now["corpora"][0]["path"] = "moved.tsv"
    check_unchanged(begun, now)
    now["corpora"][0]["weight"] = 2.0
    with pytest.raises(ConfigError, match=r"corpora\.0\.weight"):
        check_unchanged(begun, now)


@pytest.mark.parametrize(("name", "which"), [("train.tsv", "train"), ("valid.tsv", "validation")])
def test_other_text_does_not_resume_and_replaces_nothing(copied_run: Path, name: str, which: str) -> None:
    root = copied_run / "run"
    with (copied_run / name).open("a") as file:
        file.write("a new dog\tun chien nouveau\n")
    kept = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    with pytest.raises(CorpusError, match=f"cannot resume: the {which} text, or the tokenizer, has changed"):
        open_run(tiny_run(copied_run, run={"log_every": 1}), resume=True)
    assert {file: file.read_bytes() for file in root.rglob("*") if file.is_file()} == kept


def test_a_state_without_fingerprints_resumes(copied_run: Path) -> None:
    file = copied_run / "run/state/state.json"
    values = json.loads(file.read_text())
    del values["text"]
    file.write_text(json.dumps(values))
    assert open_run(tiny_run(copied_run), resume=True).run() == "max_steps"


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


def test_another_number_of_corpora_is_refused(tmp_path: Path) -> None:
    begun, now = tiny_run(tmp_path).to_dict(), tiny_run(tmp_path).to_dict()
    now["corpora"] = now["corpora"] * 2
    with pytest.raises(ConfigError, match="corpora"):
        check_unchanged(begun, now)
