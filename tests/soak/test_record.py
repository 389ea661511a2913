"""What a process takes, over time."""

import os

import pytest

from tests.soak.record import Moment, growth, look_at


def moments(*resident: int) -> list[Moment]:
    return [Moment(10.0 * number, value, 5, 1) for number, value in enumerate(resident)]


def test_growth_is_that_of_the_line_and_not_of_the_ends() -> None:
    assert growth(moments(100, 110, 120, 130), [100, 110, 120, 130]) == pytest.approx(30)
    assert growth(moments(0, 0, 0), [5, 5, 5]) == 0
    restless = [100, 130, 100, 130, 100, 130, 100, 130, 100]
    assert growth(moments(*restless), restless) == pytest.approx(0)


def test_this_process_has_memory_descriptors_and_threads() -> None:
    before = look_at(os.getpid(), 0.0)
    assert before.resident > 2**20
    with open(os.devnull) as _file:
        assert look_at(os.getpid(), 1.0).descriptors == before.descriptors + 1
    assert before.threads >= 1
