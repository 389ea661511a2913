from hypothesis import given
from hypothesis import strategies as st

from model.training.data.cleaning import FingerprintSet


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9)), st.integers(1, 8))
def test_behaves_as_a_set(numbers: list[int], recent_limit: int) -> None:
    fingerprints = FingerprintSet(recent_limit=recent_limit)
    expected: set[int] = set()
    for number in numbers:
        assert fingerprints.add(number) is (number not in expected)
        expected.add(number)
        assert len(fingerprints) == len(expected)
