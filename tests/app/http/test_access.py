"""API keys, rates and cross-origin access."""

from pathlib import Path

import httpx
import pytest

from tests.app.conftest import Serve
from tests.app.double import write_keys

pytestmark = pytest.mark.anyio
JSON = {"Content-Type": "application/json"}
REQUEST = {"q": "hi", "source": "en", "target": "fr"}


async def ask(
    client: httpx.AsyncClient, authorization: str | None = None, **fields: object
) -> httpx.Response:
    headers = {"Authorization": authorization} if authorization else {}
    return await client.post("/translate", json=REQUEST | fields, headers=headers)


async def test_a_key_is_taken_from_header_body_form_and_query(serve: Serve, tmp_path: Path) -> None:
    async with serve(api_keys_file=write_keys(tmp_path, alice="open sesame")) as client:
        assert (await ask(client, "Bearer open sesame")).status_code == 200
        assert (await ask(client, "bearer open sesame")).status_code == 200
        assert (await ask(client, api_key="open sesame")).status_code == 200
        form = await client.post("/translate", data=REQUEST | {"api_key": "open sesame"})
        assert form.status_code == 200
        for key, status in (("open sesame", 200), ("open", 403), ("", 401)):
            query = await client.post("/translate", params=REQUEST | {"api_key": key})
            assert query.status_code == status
        assert (await client.post("/detect", json={"q": "hi"})).status_code == 401
        assert (await client.get("/languages")).status_code == 200


async def test_a_missing_key_is_401_and_every_wrong_one_the_same_403(serve: Serve, tmp_path: Path) -> None:
    async with serve(api_keys_file=write_keys(tmp_path, alice="open sesame")) as client:
        missing = [await ask(client), await ask(client, api_key=""), await ask(client, "Basic YTpi")]
        assert {response.status_code for response in missing} == {401}
        assert missing[0].headers["WWW-Authenticate"] == "Bearer"
        wrong = [
            await ask(client, "Bearer open"),
            await ask(client, "Bearer open sesame2"),
            await client.post("/translate", content=b'{"q":1,"api_key":"\\ud800"}', headers=JSON),
            await ask(client, api_key="alice", unknown_field=1),
        ]
        assert {response.status_code for response in wrong} == {403}
        assert {response.json()["code"] for response in wrong} == {"key_invalid"}
        assert len({response.json()["error"] for response in wrong}) == 1


async def test_a_revoked_key_stops_working(serve: Serve, tmp_path: Path) -> None:
    path = write_keys(tmp_path, alice="one", bob="two")
    async with serve(api_keys_file=path) as client:
        assert (await ask(client, "Bearer two")).status_code == 200
        write_keys(tmp_path, alice="one")
        assert (await ask(client, "Bearer two")).status_code == 403
        assert (await ask(client, "Bearer one")).status_code == 200


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b'{"q":', "application/json", 422),
        (b"[]", "application/json", 422),
        (b"q=a&q=b&format=text&format=text", "application/x-www-form-urlencoded", 422),
        (b"\xff", "application/json", 400),
        (b"hi", "text/plain", 415),
    ],
)
@pytest.mark.parametrize("path", ["/translate", "/detect"])
async def test_a_bad_body_is_explained_only_to_owners_of_keys(
    serve: Serve, tmp_path: Path, path: str, content: bytes, content_type: str, status: int
) -> None:
    async with serve(api_keys_file=write_keys(tmp_path, alice="open sesame")) as client:
        for authorization, expected in (("", 401), ("Bearer open", 403), ("Bearer open sesame", status)):
            headers = {"Content-Type": content_type, "Authorization": authorization}
            response = await client.post(path, content=content, headers=headers)
            assert response.status_code == expected


async def test_a_body_that_is_too_large_to_hold_a_key_is_413(serve: Serve, tmp_path: Path) -> None:
    async with serve(api_keys_file=write_keys(tmp_path, alice="open sesame"), max_body_bytes=1024) as client:
        assert (await ask(client, q="a" * 1024, api_key="open sesame")).status_code == 413


@pytest.mark.parametrize("host", ["x/livez?", "x/livez#", "livez", "x:80/../livez"])
async def test_no_host_opens_a_path(serve: Serve, tmp_path: Path, host: str) -> None:
    async with serve(api_keys_file=write_keys(tmp_path, alice="open sesame")) as client:
        response = await client.post("/translate", json=REQUEST, headers={"Host": host})
        assert (response.status_code, response.json()["code"]) == (401, "key_missing")


async def test_no_request_is_admitted_while_the_file_of_keys_is_missing(serve: Serve, tmp_path: Path) -> None:
    path = write_keys(tmp_path, alice="one")
    async with serve(api_keys_file=path) as client:
        path.unlink()
        refused = await ask(client, "Bearer one")
        assert (refused.status_code, refused.json()["code"]) == (503, "keys_unreadable")
        assert "Retry-After" in refused.headers
        write_keys(tmp_path, alice="one")
        assert (await ask(client, "Bearer one")).status_code == 200


async def test_a_client_over_its_rate_waits(serve: Serve, tmp_path: Path) -> None:
    keys = write_keys(tmp_path, alice="one", bob="two")
    async with serve(rate_limit="2/minute", api_keys_file=keys) as client:
        assert [(await ask(client, "Bearer one")).status_code for _ in range(3)] == [200, 200, 429]
        refused = await ask(client, "Bearer one")
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert refused.json()["code"] == "rate_limited"
        assert (await ask(client, "Bearer two")).status_code == 200


async def test_browsers_of_other_origins_only_where_allowed(serve: Serve) -> None:
    preflight = {
        "Origin": "https://a.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    async with serve() as client:
        response = await client.options("/translate", headers=preflight)
        assert response.status_code == 405
        assert "access-control-allow-origin" not in response.headers
    async with serve(cors_origins="https://a.example, https://b.example") as client:
        for method in ("POST", "DELETE", "PATCH", "PUT"):
            asked = preflight | {"Access-Control-Request-Method": method}
            response = await client.options("/v3/glossaries/x", headers=asked)
            assert response.headers["access-control-allow-origin"] == "https://a.example"
            assert method in response.headers["access-control-allow-methods"]


@pytest.mark.parametrize(
    "wish",
    [
        {"Origin": "https://c.example"},
        {"Access-Control-Request-Method": "TRACE"},
        {"Access-Control-Request-Headers": "x-zanzibar"},
    ],
)
async def test_a_refused_preflight_has_the_error_body(serve: Serve, wish: dict[str, str]) -> None:
    preflight = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    async with serve(cors_origins="https://a.example") as client:
        response = await client.options("/translate", headers=preflight | wish)
        assert (response.status_code, response.json()["code"]) == (400, "cross_origin_refused")
        assert response.json()["request_id"] == response.headers["X-Request-ID"]
        assert "access-control-allow-origin" not in response.headers
        assert "zanzibar" not in response.text
        assert 'rejected_total{reason="cross_origin_refused"} 1.0' in (await client.get("/metrics")).text


@pytest.mark.parametrize("path", ["/translate", "/detect", "/nothing"])
async def test_a_permitted_page_can_read_a_refusal(serve: Serve, path: str) -> None:
    async with serve(cors_origins="https://a.example") as client:
        response = await client.post(path, json={}, headers={"Origin": "https://a.example"})
        assert response.status_code in (404, 422)
        assert response.headers["access-control-allow-origin"] == "https://a.example"


async def test_requests_are_counted_by_the_name_of_their_key(serve: Serve, tmp_path: Path) -> None:
    sample = 'dragoman_requests_by_key_total{name="%s"} %s.0'
    async with serve(api_keys_file=write_keys(tmp_path, alice="one", bob="two")) as client:
        for key in ("one", "one", "wrong"):
            await ask(client, f"Bearer {key}")
        text = (await client.get("/metrics")).text
        assert sample % ("alice", 2) in text
        assert sample % ("bob", 0) in text
        write_keys(tmp_path, alice="one")
        await ask(client, "Bearer two")
        text = (await client.get("/metrics")).text
        assert '"bob"' not in text
        assert sample % ("alice", 2) in text
