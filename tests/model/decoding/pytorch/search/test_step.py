import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.decoding.pytorch.search.step import coverage_cost, length_divisor, take_rows
from tests.model.decoding.slots import admitted, option_rows


def test_each_slot_has_its_own_length_penalty() -> None:
    options = option_rows(
        [
            admitted(length_penalty=0.0),
            admitted(length_penalty=1.0),
            admitted(length_penalty=0.75),
            admitted(length_penalty=0.6, length_penalty_form="gnmt"),
        ]
    )
    lengths_KN = torch.tensor([[7, 7, 7, 7], [1, 2, 3, 13]])
    divisors_KN = length_divisor(lengths_KN, options)
    assert divisors_KN[0].tolist() == pytest.approx([1.0, 7.0, 7**0.75, 2**0.6])
    assert divisors_KN[1].tolist() == pytest.approx([1.0, 2.0, 3**0.75, 3**0.6])


@given(st.floats(0, 10), st.sampled_from(["power", "gnmt"]), st.integers(1, 5000))
def test_the_divisor_never_falls_as_length_grows(alpha: float, form: str, length: int) -> None:
    options = option_rows([admitted(length_penalty=alpha, length_penalty_form=form)])
    shorter, longer = (length_divisor(torch.tensor([n]), options).item() for n in (length, length + 1))
    assert 1 <= shorter <= longer < math.inf


def test_coverage_follows_its_equation_and_is_each_slots_own() -> None:
    sums_NKS = torch.tensor([[[1.5, 0.5, 9.0], [0.75, 1.25, 9.0]]]).repeat(2, 1, 1)
    is_source_NS = torch.tensor([[True, True, False]] * 2)
    options = option_rows([admitted(coverage_penalty=0.5), admitted()])
    costs = coverage_cost(sums_NKS, is_source_NS, options)
    assert costs[0].tolist() == pytest.approx([0.5 * math.log(0.5), 0.5 * math.log(0.75)])
    assert costs[1].tolist() == [0, 0]


def test_an_ignored_source_token_costs_much_but_not_everything() -> None:
    options = option_rows([admitted(coverage_penalty=1.0)])
    cost = coverage_cost(torch.tensor([[[1.0, 0.0]]]), torch.ones(1, 2, dtype=torch.bool), options)
    assert -100 < cost.item() < -50


def test_lanes_are_taken_within_their_slot() -> None:
    values_NKX = torch.arange(8).view(2, 2, 2)
    taken = take_rows(values_NKX, torch.tensor([[1, 1], [1, 0]]))
    assert taken.tolist() == [[[2, 3], [2, 3]], [[6, 7], [4, 5]]]
