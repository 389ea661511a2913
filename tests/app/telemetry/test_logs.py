"""Logs: one JSON line an event, never what a user sent."""

import json
import logging
from pathlib import Path

import httpx
import pytest

from app.telemetry.logs import request_id
from tests.app.conftest import Lines

CANARY = "zanzibar"


def test_an_event_is_one_line_with_its_extras(lines: Lines) -> None:
    token = request_id.set("r-1")
    logging.getLogger("app.test").info("some\nthing", extra={"endpoint": "/translate"})
    request_id.reset(token)
    event = lines()[-1]
    assert (event["event"], event["request_id"], event["endpoint"]) == ("some\nthing", "r-1", "/translate")
    assert (event["level"], event["logger"]) == ("info", "app.test")


def test_a_fault_is_logged_with_its_place_but_without_its_message(lines: Lines) -> None:
    try:
        raise ValueError(CANARY)
    except ValueError as fault:
        logging.getLogger("app.test").error("failed", exc_info=fault)
    event = lines()[-1]
    assert event["fault"] == "ValueError"
    assert "test_logs.py" in event["trace"][0]
    assert CANARY not in json.dumps(event)


def test_an_error_of_the_system_is_named(lines: Lines) -> None:
    try:
        Path("/dev/null", CANARY).touch()
    except OSError as fault:
        logging.getLogger("app.test").error("failed", exc_info=fault)
    event = lines()[-1]
    assert (event["fault"], event["errno"]) == ("NotADirectoryError", "ENOTDIR")
    assert CANARY not in json.dumps(event)


@pytest.mark.anyio
async def test_probes_are_logged_at_debug_and_translations_at_info(
    client: httpx.AsyncClient, lines: Lines
) -> None:
    probe = await client.get("/livez")
    answer = await client.post("/translate", json={"q": "one", "source": "en", "target": "fr"})
    logged = [(event["level"], event["request_id"]) for event in lines() if event["event"] == "request"]
    assert logged == [("debug", probe.headers["X-Request-ID"]), ("info", answer.headers["X-Request-ID"])]
