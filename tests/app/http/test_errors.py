"""One error body everywhere, and nothing internal in it."""

import logging
import pickle
import re
from pathlib import Path

import httpx
import pytest

import app
from app.errors import ModelUnavailableError, OutOfMemoryError, ServiceError
from app.http.errors import _WIRE_REASONS, STATUSES, as_request_error
from model import errors as core
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio
SOURCE = "\n".join(path.read_text("utf-8") for path in Path(app.__file__).parent.rglob("*.py"))
REQUEST = {"q": "secret text", "source": "en", "target": "fr"}


async def test_unknown_paths_and_methods(client: httpx.AsyncClient) -> None:
    missing = await client.get("/no/such/path")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    wrong = await client.put("/translate", json=REQUEST)
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")
    assert wrong.headers["Allow"] == "POST"
    both = await client.put("/v2/languages")
    assert (both.status_code, both.headers["Allow"]) == (405, "GET, HEAD, POST")
    assert (await client.put("/docs")).headers["Allow"] == "GET, HEAD"
    for response in (missing, wrong, both):
        assert response.json()["request_id"] == response.headers["X-Request-ID"]


async def test_an_internal_error_shows_nothing_internal(
    client: httpx.AsyncClient, backend: DoubleBackend, caplog: pytest.LogCaptureFixture
) -> None:
    backend.poison = "secret"
    with caplog.at_level(logging.ERROR):
        response = await client.post("/translate", json=REQUEST)
    assert (response.status_code, response.json()["code"]) == (500, "internal_error")
    assert "secret" not in response.text
    assert any(record.exc_info for record in caplog.records)
    backend.poison = None
    assert (await client.post("/translate", json=REQUEST)).status_code == 200


async def test_an_unforeseen_exception_gets_the_same_body(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_args: object) -> None:
        raise ZeroDivisionError("secret text")

    monkeypatch.setattr("app.http.receiving.deadline_of", break_down)
    response = await client.post("/translate", json=REQUEST)
    assert (response.status_code, response.json()["code"]) == (500, "internal_error")
    assert "secret" not in response.text


@pytest.mark.parametrize("given", ["abc-123", "0" * 128])
async def test_a_sane_request_id_is_echoed(client: httpx.AsyncClient, given: str) -> None:
    response = await client.get("/livez", headers={"X-Request-ID": given})
    assert response.headers["X-Request-ID"] == given


@pytest.mark.parametrize("given", ["", "a b", "x" * 10_000, "é", "<script>", 'a"b'])
async def test_another_request_id_is_replaced(client: httpx.AsyncClient, given: str) -> None:
    headers = [(b"X-Request-ID", given.encode())]
    response = await client.get("/livez", headers=headers)
    assert response.headers["X-Request-ID"] != given
    assert len(response.headers["X-Request-ID"]) == 32


def _descendants(kind: type[Exception]) -> list[type[Exception]]:
    return [kind, *(leaf for child in kind.__subclasses__() for leaf in _descendants(child))]


def test_every_refusal_of_the_service_has_a_status() -> None:
    """No error of ours falls through to 500 by accident."""
    for kind in _descendants(ServiceError):
        if not kind.__subclasses__():
            error = kind.__new__(kind)
            error.__dict__["retry_after"] = 1
            assert as_request_error(error).status < 500 or as_request_error(error).status in (503, 504)


@pytest.mark.parametrize(
    "error",
    [
        ModelUnavailableError("everyday", 2.5),
        core.ConfigError("port", "free", 80, is_missing=True),
        core.ForeignTextError("q[3]", "xh", ("fr", "en")),
        core.TextTooLongError("q", "MAX_CHARS", 10, 11),
    ],
)
def test_an_error_of_another_process_is_the_same(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_no_memory_is_something_to_come_back_for_wherever_it_was_lacking() -> None:
    for error in (OutOfMemoryError(), MemoryError("0x7f")):
        refusal = as_request_error(error)
        assert (refusal.status, refusal.code) == (503, "out_of_memory")
        assert int(refusal.headers["Retry-After"]) >= 1
        assert "0x7f" not in str(refusal)


@pytest.mark.parametrize("code", STATUSES)
def test_a_code_is_used(code: str) -> None:
    """Its status is one place that names it; whatever raises it or answers with it is another."""
    assert len(re.findall(f'"{code}"', SOURCE)) >= 2


def test_a_connection_answers_codes_with_their_statuses() -> None:
    assert {code: status for status, (code, _) in _WIRE_REASONS.items()}.items() <= STATUSES.items()


def test_errors_of_the_core() -> None:
    language = core.UnsupportedLanguageError("target", "zanzibar", ("fr", "en"))
    assert str(as_request_error(language)) == "`target` must be one of en, fr"
    assert as_request_error(core.DecodingError("nan")).status == 500
    assert "nan" not in str(as_request_error(core.DecodingError("nan")))
