import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from model.decoding.pytorch.search.step import coverage_cost, length_divisor
from tests.model.decoding.slots import admitted, option_rows


@given(st.floats(0, 10), st.sampled_from(["power", "gnmt"]), st.integers(1, 5000))
def test_the_divisor_never_falls_as_length_grows(alpha: float, form: str, length: int) -> None:
    options = option_rows([admitted(length_penalty=alpha, length_penalty_form=form)])
    shorter, longer = (length_divisor(torch.tensor([n]), options).item() for n in (length, length + 1))
    assert 1 <= shorter <= longer < math.inf


def test_an_ignored_source_token_costs_much_but_not_everything() -> None:
    options = option_rows([admitted(coverage_penalty=1.0)])
    cost = coverage_cost(torch.tensor([[[1.0, 0.0]]]), torch.ones(1, 2, dtype=torch.bool), options)
    assert -100 < cost.item() < -50
