import dataclasses

import numpy as np
import pytest

from model.config import TransformerConfig
from model.errors import ConfigError
from tests.model.shortlists import shortlist_of

CONFIG = TransformerConfig(source_vocab_size=4, target_vocab_size=9)
SHORTLIST = shortlist_of([3, 5], [[], [8, 5], [4], [1, 2]])


def test_a_sentence_gets_what_all_get_and_what_its_tokens_have() -> None:
    assert SHORTLIST.choose([0]).tolist() == [3, 5]
    assert SHORTLIST.choose([1, 2, 1]).tolist() == [3, 4, 5, 8]
    assert SHORTLIST.choose([3]).tolist() == [1, 2, 3, 5]
    assert SHORTLIST.choose([3]).dtype == np.int32


def test_what_it_needs_in_any_case_is_added_once() -> None:
    assert SHORTLIST.choose([0], also=[3, 7, 0]).tolist() == [0, 3, 5, 7]
    assert SHORTLIST.choose([0], also=[3]).dtype == np.int32


def test_what_is_chosen_for_one_sentence_is_not_left_for_the_next() -> None:
    assert SHORTLIST.choose([1]).tolist() == [3, 5, 8]
    assert SHORTLIST.choose([2]).tolist() == [3, 4, 5]


def test_one_that_fits_the_network_passes() -> None:
    SHORTLIST.check(CONFIG)


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
    ],
)
def test_one_that_does_not_is_refused(name: str, values: object, requirement: str) -> None:
    wrong = dataclasses.replace(SHORTLIST, **{name: np.array(values, dtype=np.int32)})
    with pytest.raises(ConfigError, match=f"`{name}` must be .*{requirement}"):
        wrong.check(CONFIG)


def test_other_numbers_are_refused() -> None:
    wrong = dataclasses.replace(SHORTLIST, always=np.array([3.0]))
    with pytest.raises(ConfigError, match="float64"):
        wrong.check(CONFIG)
