"""When two results are the same: token for token, number for number."""

from collections.abc import Sequence

import pytest

from model.decode_request import Hypothesis
from model.decoding.runner import Result


def assert_same(result: Result, expected: Sequence[Hypothesis]) -> None:
    assert isinstance(result, list), result
    assert [h.token_ids for h in result] == [h.token_ids for h in expected]
    assert [h.finished for h in result] == [h.finished for h in expected]
    for ours, theirs in zip(result, expected, strict=True):
        assert ours.score == pytest.approx(theirs.score, abs=1e-4)
        assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-4)
        assert ours.token_log_probabilities == pytest.approx(theirs.token_log_probabilities, abs=1e-4)
