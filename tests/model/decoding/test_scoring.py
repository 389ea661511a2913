import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.decoding.scoring import Coverage, LengthPenalty, take_lanes
from model.request import DecodeOptions

CPU = torch.device("cpu")


def test_each_slot_has_its_own_length_penalty() -> None:
    options = [
        DecodeOptions(length_penalty=0.0),
        DecodeOptions(length_penalty=1.0),
        DecodeOptions(length_penalty=0.75),
        DecodeOptions(length_penalty=0.6, length_penalty_form="gnmt"),
    ]
    penalty = LengthPenalty(options, CPU)
    assert penalty.divisor(7).tolist() == pytest.approx([1.0, 7.0, 7**0.75, 2**0.6])
    lengths_KN = torch.tensor([[1, 2, 3, 13]] * 2)
    assert penalty.divisor(lengths_KN)[1].tolist() == pytest.approx([1.0, 2.0, 3**0.75, 3**0.6])
    penalty.keep(torch.tensor([3, 1]))
    assert penalty.divisor(7).tolist() == pytest.approx([2**0.6, 7.0])


@given(st.floats(0, 10), st.sampled_from(["power", "gnmt"]), st.integers(1, 5000))
def test_the_divisor_never_falls_as_length_grows(alpha: float, form: str, length: int) -> None:
    penalty = LengthPenalty(
        [DecodeOptions.from_dict({"length_penalty": alpha, "length_penalty_form": form})], CPU
    )
    assert 1 <= penalty.divisor(length).item() <= penalty.divisor(length + 1).item() < math.inf


def test_coverage_follows_its_equation() -> None:
    coverage = Coverage([DecodeOptions(coverage_penalty=0.5)], CPU)
    mask_NS = torch.tensor([[True, True, False]])
    coverage.add(torch.tensor([[[0.75, 0.25, 0.0], [0.5, 0.5, 0.0]]]), mask_NS)
    coverage.add(torch.tensor([[[0.75, 0.25, 0.0], [0.25, 0.75, 0.0]]]), mask_NS)
    expected = [0.5 * math.log(0.5), 0.5 * math.log(0.75)]
    assert coverage.penalty()[0].tolist() == pytest.approx(expected)
    coverage.reorder(torch.tensor([[1, 1]]))
    assert coverage.penalty()[0].tolist() == pytest.approx([expected[1]] * 2)


def test_coverage_is_each_slots_own_and_finite() -> None:
    coverage = Coverage([DecodeOptions(), DecodeOptions(coverage_penalty=1.0)], CPU)
    coverage.add(torch.tensor([[[1.0, 0.0]], [[1.0, 0.0]]]), torch.ones(2, 2, dtype=torch.bool))
    free, costly = coverage.penalty()[:, 0].tolist()
    assert free == 0
    assert -100 < costly < -50
    coverage.keep(torch.tensor([1]))
    assert coverage.penalty().tolist() == [[costly]]


def test_lanes_are_taken_within_their_slot() -> None:
    values_NKX = torch.arange(8).view(2, 2, 2)
    taken = take_lanes(values_NKX, torch.tensor([[1, 1], [1, 0]]))
    assert taken.tolist() == [[[2, 3], [2, 3]], [[6, 7], [4, 5]]]
