"""The log line of a finished request."""

import logging

import pytest

from app.telemetry.access_record import AccessRecord


def record(*, endpoint: str = "/translate", status: int = 200) -> AccessRecord:
    found = AccessRecord("a" * 32, "POST", [])
    found.endpoint, found.status, found.outcome = endpoint, status, "answered"
    found.ended = found.began + 0.25
    return found


@pytest.mark.parametrize(
    ("endpoint", "status", "level"),
    [
        ("/livez", 200, logging.DEBUG),
        ("/readyz", 200, logging.DEBUG),
        ("/health", 200, logging.DEBUG),
        ("/metrics", 200, logging.DEBUG),
        ("/readyz", 503, logging.INFO),
        ("/translate", 200, logging.INFO),
        ("unmatched", 404, logging.INFO),
    ],
)
def test_probes_and_scrapes_that_succeed_are_logged_at_debug(endpoint: str, status: int, level: int) -> None:
    assert record(endpoint=endpoint, status=status).level == level
