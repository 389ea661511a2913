import math

import pytest
import torch
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.t5.modeling_t5 import T5Attention

from model.network.positions import relative_bucket, rotate, rotations, sinusoids
from tests.model.tiny_networks import noise, tiny_network

CLOSE = {"atol": 1e-5, "rtol": 0}


def test_sinusoids_at_known_positions() -> None:
    table_TM = sinusoids(torch.arange(2), 512)
    assert table_TM[0].tolist() == [0.0, 1.0] * 256
    assert table_TM[1, 0].item() == pytest.approx(0.8415, abs=5e-5)
    assert table_TM[1, 1].item() == pytest.approx(0.5403, abs=5e-5)


def test_the_4_by_4_table_with_base_100() -> None:
    table = torch.tensor(
        [
            [0.0, 1.0, 0.0, 1.0],
            [0.84147098, 0.54030231, 0.09983342, 0.99500417],
            [0.90929743, -0.41614684, 0.19866933, 0.98006658],
            [0.14112001, -0.9899925, 0.29552021, 0.95533649],
        ]
    )
    torch.testing.assert_close(sinusoids(torch.arange(4), 4, base=100), table, **CLOSE)


@pytest.mark.parametrize("endpoint", [False, True])
def test_frequencies_end_at_the_reciprocal_of_the_base_or_just_before(endpoint: bool) -> None:
    table_TM = sinusoids(torch.arange(3), 12, endpoint=endpoint, halves=True)
    frequencies = [10000 ** (-i / (5 if endpoint else 6)) for i in range(6)]
    assert table_TM[1].tolist() == pytest.approx([*map(math.sin, frequencies), *map(math.cos, frequencies)])


@torch.inference_mode()
def test_sinusoids_of_m2m100() -> None:
    theirs = M2M100SinusoidalPositionalEmbedding(20, 16, padding_idx=1)
    network = tiny_network(sinusoid_layout="halves", sinusoid_endpoint=True, sinusoid_offset=2)
    ours = network.source_embedding.added_positions(9, torch.device("cpu"))
    torch.testing.assert_close(ours, theirs(torch.full((1, 9), 5))[0], **CLOSE)


@pytest.mark.parametrize("shift", [1, 7, 100])
def test_a_later_position_is_a_rotation_of_an_earlier_one(shift: int) -> None:
    """PE[p + k] is linear in PE[p]: each (sine, cosine) pair turns by an angle that only k decides."""
    dim, earlier = 8, torch.arange(20)
    pairs = sinusoids(earlier, dim).unflatten(-1, (-1, 2)).double()
    angles = shift * 10000.0 ** (-torch.arange(0, dim, 2).double() / dim)
    turn = torch.stack([angles.cos(), angles.sin(), -angles.sin(), angles.cos()], -1).view(-1, 2, 2)
    turned = torch.einsum("pij,tpj->tpi", turn, pairs).flatten(-2).float()
    torch.testing.assert_close(turned, sinusoids(earlier + shift, dim), **CLOSE)


def test_rotation_is_a_product_of_complex_numbers() -> None:
    states_TD = noise(6, 8)
    angles = torch.arange(6)[:, None] * 10000.0 ** (-torch.arange(0, 8, 2) / 8)
    by_hand = torch.view_as_complex(states_TD.unflatten(-1, (-1, 2))) * torch.polar(torch.ones(6, 4), angles)
    turned_TD = rotate(states_TD, rotations(torch.arange(6), 8))
    torch.testing.assert_close(turned_TD, torch.view_as_real(by_hand).flatten(-2), **CLOSE)


BUCKETS = pytest.mark.parametrize(
    ("buckets", "max_distance"), [(32, 128), (8, 12), (4, 4), (5, 9), (16, 999)]
)
DIRECTIONS = pytest.mark.parametrize("bidirectional", [True, False])


@BUCKETS
@DIRECTIONS
def test_buckets_are_t5s(buckets: int, max_distance: int, bidirectional: bool) -> None:
    distances = torch.arange(-300, 301)
    ours = relative_bucket(distances, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional)
    theirs = T5Attention._relative_position_bucket(distances, bidirectional, buckets, max_distance)
    assert torch.equal(ours, theirs)
