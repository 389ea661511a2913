import statistics

import pytest

from model.decoding.random_numbers import uniform


def test_the_numbers_are_those_of_splitmix64() -> None:
    """Its first outputs for the seed 1234567, of which the upper 24 bits count."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    drawn = [uniform(1234567, 0, position) for position in range(4)]
    assert drawn == [(number >> 40) / 2**24 for number in published]


def test_each_lane_has_its_own_sequence_and_the_largest_seed_works() -> None:
    places = [(row, position) for row in range(64) for position in range(64)]
    numbers = [uniform(2**63 - 1, *place) for place in places]
    assert len(set(numbers)) > 4090
    assert all(0 <= number < 1 for number in numbers)
    assert statistics.mean(numbers) == pytest.approx(0.5, abs=0.02)
    assert statistics.variance(numbers) == pytest.approx(1 / 12, abs=0.01)
