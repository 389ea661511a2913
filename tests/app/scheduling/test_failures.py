"""What a failure is called, to the client and in the metrics."""

import pytest

from app.errors import OutOfMemoryError
from app.scheduling.engine_worker import Outcome, as_failure, failure_reason
from model.errors import DecodingError, InputError, NotFiniteError, TextTooLongError


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ([], None),
        (InputError("no"), None),
        (TextTooLongError("q", "MAX_CHARS", 1, 2), None),
        (NotFiniteError(), "non_finite"),
        (OutOfMemoryError(), "out_of_memory"),
        (DecodingError("nothing left"), "fault"),
    ],
)
def test_every_outcome_has_its_reason(outcome: Outcome, reason: str | None) -> None:
    assert failure_reason(outcome) == reason


def test_no_memory_is_something_to_come_back_for() -> None:
    failure = as_failure(MemoryError("at 0x7f"))
    assert isinstance(failure, OutOfMemoryError)
    assert failure.retry_after >= 1
    assert "0x7f" not in str(failure)


def test_a_fault_of_ours_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    failure = as_failure(ValueError("internals"))
    assert isinstance(failure, DecodingError)
    assert "internals" not in str(failure)
    assert "internals" in caplog.text
