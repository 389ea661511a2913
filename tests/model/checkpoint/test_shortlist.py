"""Shortlists: the target tokens of a sentence, and their file in a checkpoint."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors.numpy import load_file, save_file

from model.checkpoint.editing import add_shortlist
from model.checkpoint.folder import load_checkpoint
from model.checkpoint.shortlist import SHORTLIST, Shortlist
from model.config import TransformerConfig
from model.errors import CheckpointError, ConfigError
from tests.model.checkpoint.test_folder import resign
from tests.model.shortlists import shortlist_of


@pytest.fixture
def shortlist(folder: Path) -> Shortlist:
    config = load_checkpoint(folder).config
    return shortlist_of([config.eos_id, 7], [[8, 9]] * config.source_vocab_size)


def test_a_checkpoint_has_none_unless_it_is_given_one(folder: Path, shortlist: Shortlist) -> None:
    before = load_checkpoint(folder)
    assert before.shortlist is None
    always = [before.config.eos_id, 7]
    for replaced, expected in ((shortlist, [*always, 8, 9]), (everything_of(shortlist, 20), [*always, 20])):
        add_shortlist(folder, replaced, {"per_token": 2})
        after = load_checkpoint(folder)
        assert after.shortlist is not None
        assert after.shortlist.choose([5]).tolist() == expected
        assert after.provenance["shortlist"] == {"per_token": 2}
        assert after.checksum != before.checksum


def everything_of(shortlist: Shortlist, more: int) -> Shortlist:
    """A shortlist whose candidates are the same for all tokens."""
    return shortlist_of([*shortlist.always.tolist(), more], [[]] * (len(shortlist.offsets) - 1))


def test_damage_is_refused_by_name(folder: Path, shortlist: Shortlist) -> None:
    add_shortlist(folder, shortlist, {})
    path = folder / SHORTLIST
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(CheckpointError, match=f"{SHORTLIST} is corrupt"):
        load_checkpoint(folder)
    resign(folder)
    with pytest.raises(CheckpointError, match=f"{SHORTLIST} cannot be used"):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"always": np.array([10_000], dtype=np.int32)}, "`always` must be ids below"),
        ({"offsets": np.array([0], dtype=np.int32)}, "`offsets` must be"),
        ({"more": np.array([0], dtype=np.int32)}, "must hold always, offsets, candidates"),
    ],
)
def test_one_of_another_network_is_refused(
    folder: Path, shortlist: Shortlist, changes: dict[str, np.ndarray], words: str
) -> None:
    add_shortlist(folder, shortlist, {})
    save_file({**load_file(folder / SHORTLIST), **changes}, folder / SHORTLIST)
    resign(folder)
    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(folder)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float8_e4m3fn])
def test_one_of_numbers_that_numpy_lacks_is_refused(
    folder: Path, shortlist: Shortlist, kind: torch.dtype
) -> None:
    add_shortlist(folder, shortlist, {})
    tensors = {name: torch.zeros(2, dtype=kind) for name in ("always", "offsets", "candidates")}
    safetensors.torch.save_file(tensors, folder / SHORTLIST)
    resign(folder)
    with pytest.raises(CheckpointError, match="cannot be used"):
        load_checkpoint(folder)


CONFIG = TransformerConfig(source_vocab_size=4, target_vocab_size=9)
SOUND = shortlist_of([3, 5], [[], [8, 5], [4], [1, 2]])


def test_a_sentence_gets_what_all_get_and_what_its_tokens_have() -> None:
    assert SOUND.choose([0]).tolist() == [3, 5]
    assert SOUND.choose([1, 2, 1]).tolist() == [3, 4, 5, 8]
    assert SOUND.choose([3]).tolist() == [1, 2, 3, 5]
    assert SOUND.choose([3]).dtype == np.int32


def test_what_it_needs_in_any_case_is_added_once() -> None:
    assert SOUND.choose([0], also=[3, 7, 0]).tolist() == [0, 3, 5, 7]
    assert SOUND.choose([0], also=[3]).dtype == np.int32


@pytest.mark.parametrize(
    ("name", "values", "requirement"),
    [
        ("always", [5], "EOS"),
        ("always", [3, 9], "below 9"),
        ("candidates", [8, 5, 4, 1, -2], "below 9"),
        ("offsets", [0, 0, 2, 3], "5 numbers"),
        ("offsets", [0, 2, 1, 3, 5], "ascending from 0 to 5"),
        ("offsets", [1, 1, 2, 3, 5], "ascending from 0 to 5"),
        ("offsets", [0, 0, 2, 3, 6], "ascending from 0 to 5"),
        ("always", [[3]], "a vector of int32"),
        ("always", [3.0], "a vector of int32, but is 'float64"),
    ],
)
def test_one_that_does_not_is_refused(name: str, values: object, requirement: str) -> None:
    SOUND.check(CONFIG)
    array = np.array(values)
    wrong = dataclasses.replace(SOUND, **{name: array if array.dtype == float else array.astype(np.int32)})
    with pytest.raises(ConfigError, match=f"`{name}` must be .*{requirement}"):
        wrong.check(CONFIG)
