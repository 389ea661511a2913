"""Logs: one JSON line an event, never what a user sent."""

import asyncio
import io
import json
import logging
from pathlib import Path

import httpx
import pytest

from app.telemetry.logs import BufferedHandler, Event, JsonFormatter, request_id
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


def test_the_lines_of_an_iteration_are_written_together_and_in_order() -> None:
    stream = io.StringIO()
    handler = BufferedHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.Logger("app.test")
    logger.addHandler(handler)

    async def log() -> tuple[str, str]:
        token = request_id.set("r-1")
        logger.handle(Event(logger.name, logging.INFO, "first", {"status": 200}))
        request_id.reset(token)
        logger.info("second", extra={"path": "/"})
        before = stream.getvalue()
        await asyncio.sleep(0)
        return before, stream.getvalue()

    before, after = asyncio.run(log())
    logger.info("third")
    first, second, third = map(json.loads, stream.getvalue().splitlines())
    assert (before, after.count("\n")) == ("", 2)
    assert (first["event"], first["request_id"], first["status"]) == ("first", "r-1", 200)
    assert (second["event"], second["path"], "request_id" in second) == ("second", "/", False)
    assert third["event"] == "third"


def test_a_stream_that_nothing_reads_does_not_occupy_the_event_loop(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Broken(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    handler = BufferedHandler(Broken())
    handler.setFormatter(JsonFormatter())
    logger = logging.Logger("app.test")
    logger.addHandler(handler)
    faults: list[object] = []

    async def log() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        logger.info("first")
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(log())
    assert faults == []
    assert "BrokenPipeError" in capsys.readouterr().err
