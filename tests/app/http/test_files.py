"""Files over HTTP: LibreTranslate's two paths, and DeepL's three."""

import asyncio
import stat
from errno import ENOSPC
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest
from starlette.applications import Starlette

from app.errors import DrainingError
from app.main import create_app
from app.settings import Settings
from app.translation.file_jobs import FileJob, FileStore
from tests.app.conftest import Serve, serving, until
from tests.app.double import DoubleBackend, write_keys

pytestmark = pytest.mark.anyio
FORM = {"source": "en", "target": "fr"}


async def translated(client: httpx.AsyncClient, name: str, content: bytes, **form: str) -> httpx.Response:
    return await client.post("/translate_file", files={"file": (name, content)}, data=FORM | form)


async def send_document(client: httpx.AsyncClient, content: bytes) -> tuple[str, dict[str, str]]:
    """Begin the translation of a document; returns its path and its key."""
    form = {"source_lang": "EN", "target_lang": "FR"}
    answer = await client.post("/v2/document", files={"file": ("a.txt", content)}, data=form)
    sent = answer.json()
    return f"/v2/document/{sent['document_id']}", {"document_key": sent["document_key"]}


async def test_a_file_is_translated_and_fetched(client: httpx.AsyncClient) -> None:
    answer = await translated(client, "a.TXT", b"one two.\n\nthree\n")
    url = answer.json()["translatedFileUrl"]
    assert url.startswith("http://dragoman/download_file/")
    for _ in range(2):
        fetched = await client.get(url)
        assert fetched.text == "ONE TWO.\n\nTHREE\n"
        assert fetched.headers["Content-Disposition"].startswith("attachment")
    assert (await client.get("/download_file/x.txt")).json()["code"] == "not_found"
    assert (await client.get("/download_file/..%2Fx")).status_code == 404
    text = (await client.get("/metrics")).text
    assert 'endpoint="/download_file/{name}",status="200"} 2.0' in text
    assert url.rpartition("/")[2] not in text


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [("a.txt", "", "\n\n"), ("a.txt", "", ". "), ("a.txt", "", " "), ("a.html", "<p>", "</p>")],
)
async def test_long_files_are_translated_in_portions(
    serve: Serve, name: str, before: str, after: str
) -> None:
    """Even a single line or sentence may have more tokens than the queue takes at a time."""
    lines = [f"word {i} of many" for i in range(400)]
    async with serve(max_queued_tokens=2500) as client:
        content = "".join(f"{before}{line}{after}" for line in lines)
        url = (await translated(client, name, content.encode())).json()["translatedFileUrl"]
        expected = "".join(f"{before}{line.upper()}{after}" for line in lines)
        assert (await client.get(url)).text == expected


async def test_the_language_of_a_file_is_detected(client: httpx.AsyncClient) -> None:
    text = "# Où est la gare ?\n\nJe suis perdu, aidez-moi."
    answer = await translated(client, "a.md", text.encode(), source="auto", target="en")
    assert (await client.get(answer.json()["translatedFileUrl"])).text == text.upper()
    unchanged = await translated(client, "a.md", text.encode(), source="auto", target="fr")
    assert (await client.get(unchanged.json()["translatedFileUrl"])).text == text


@pytest.mark.parametrize(
    ("name", "content", "form", "status", "code"),
    [
        ("a.exe", b"one", {}, 400, "unsupported_file"),
        ("a.docx", b"one", {}, 400, "unsupported_file"),
        ("a.txt", b"\xff\xff", {}, 400, "unsupported_file"),
        ("a.txt", b"one", {"target": "xx"}, 400, "unsupported_language"),
        ("a.txt", b"", {"target": "xx"}, 400, "unsupported_language"),
        ("a.txt", b"one", {"targt": "fr"}, 422, "unknown_field"),
        ("a.txt", b"a" * 5000, {}, 413, "body_too_large"),
    ],
)
async def test_other_files_are_refused(
    serve: Serve, name: str, content: bytes, form: dict[str, str], status: int, code: str
) -> None:
    async with serve(max_file_bytes=4096) as client:
        answer = await translated(client, name, content, **form)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    if code == "body_too_large":
        assert "MAX_FILE_BYTES" in answer.json()["error"]


async def test_a_file_needs_multipart(client: httpx.AsyncClient) -> None:
    for body in ({"json": FORM | {"file": "a"}}, {"data": FORM | {"file": "a"}}, {"data": FORM}):
        answer = await client.post("/translate_file", **body)
        assert (answer.status_code, answer.json()["field"]) == (422, "file")


async def test_files_are_private_and_deleted(backend: DoubleBackend, tmp_path: Path) -> None:
    keys = write_keys(tmp_path, ali="sesame")
    app: Starlette = create_app(Settings(_env_file=None, file_seconds=1, api_keys_file=keys), backend)
    files = app.state.context.files
    async with serving(app) as client:
        assert (await translated(client, "a.txt", b"one")).status_code == 401
        answer = await translated(client, "a.txt", b"one", api_key="sesame")
        path = files.path(answer.json()["translatedFileUrl"].rpartition("/")[2])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        await until(lambda: not path.exists())
        await translated(client, "a.txt", b"one", api_key="sesame")
        assert list(path.parent.iterdir())
    assert not path.parent.exists()


async def test_a_document_is_translated_in_the_background(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    backend.gate.clear()
    path, key = await send_document(client, b"one")
    assert (await client.post(path, json=key)).json()["status"] in ("queued", "translating")
    early = await client.post(f"{path}/result", json=key)
    assert (early.status_code, early.json()["code"]) == (503, "file_not_ready")
    assert int(early.headers["Retry-After"]) >= 1
    assert (await client.post(path, json={"document_key": "x"})).status_code == 404
    backend.gate.set()
    async with asyncio.timeout(20):
        while (found := (await client.post(path, json=key)).json())["status"] != "done":
            await asyncio.sleep(0.01)
    assert found["billed_characters"] == 3
    assert (await client.post(f"{path}/result", data=key)).text == "ONE"
    assert (await client.post(f"{path}/result", data=key)).status_code == 404
    metrics = (await client.get("/metrics")).text
    assert path.rpartition("/")[2] not in metrics


async def test_a_document_whose_outcome_cannot_be_written_is_not_asked_for_forever(
    client: httpx.AsyncClient, backend: DoubleBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.gate.clear()
    path, key = await send_document(client, b"one")
    monkeypatch.setattr(Path, "write_bytes", Mock(side_effect=OSError(ENOSPC, "No space left on device")))
    backend.gate.set()
    async with asyncio.timeout(20):
        while (await client.post(path, json=key)).status_code != 404:
            await asyncio.sleep(0.01)


async def test_a_state_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "replace", Mock(side_effect=OSError(ENOSPC, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        FileJob("client", "key", ".txt", 0.0, tmp_path / "job").save()
    assert list(tmp_path.iterdir()) == []


async def test_a_full_disk_is_something_to_come_back_for(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full = OSError(ENOSPC, "No space left on device")
    monkeypatch.setattr("app.translation.file_jobs._write", Mock(side_effect=full))
    monkeypatch.setattr(FileJob, "save", Mock(side_effect=full))
    for path, form in (("/translate_file", FORM), ("/v2/document", {"target_lang": "FR"})):
        refused = await client.post(path, files={"file": ("a.txt", b"one")}, data=form)
        assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
        assert "no space" in refused.json()["error"]
        assert int(refused.headers["Retry-After"]) >= 1
    assert sum(record.levelname == "ERROR" for record in caplog.records) == 2


async def test_a_closed_store_keeps_no_file() -> None:
    store = FileStore(10**6, 60)
    kept = store.path(await store.add(b"one", ".txt", "client"))
    assert kept is not None
    store.close()
    with pytest.raises(DrainingError):
        await store.add(b"two", ".txt", "client")
    assert not kept.parents[2].exists()


async def test_a_document_can_be_cancelled(client: httpx.AsyncClient, backend: DoubleBackend) -> None:
    backend.gate.clear()
    path, key = await send_document(client, b"one " * 30)
    async with asyncio.timeout(60):
        await asyncio.to_thread(backend.entered.wait)
    found = (await client.post(path, json=key)).json()
    assert found.items() >= {"translated_characters": 0, "total_characters": 119}.items()
    assert (await client.post(f"{path}/cancel", json={"document_key": "x"})).status_code == 404
    assert (await client.post(f"{path}/cancel", json=key)).json()["error_message"]
    assert (await client.post(path, json=key)).status_code == 404
    backend.gate.set()
    await until(lambda: backend.cancelled)


async def test_documents_are_refused_by_name(client: httpx.AsyncClient) -> None:
    for form, field in (
        ({"glossary_id": "x"}, "glossary_id"),
        ({"output_format": "pdf"}, "output_format"),
        ({"target_lang": "xx"}, "target_lang"),
        ({"traget_lang": "fr"}, "traget_lang"),
    ):
        answer = await client.post(
            "/v2/document", files={"file": ("a.txt", b"a")}, data={"target_lang": "fr"} | form
        )
        assert (answer.status_code, answer.json()["field"]) == (400, field)
    refused = await client.post("/v2/write/rephrase", json={"text": ["a"]})
    assert (refused.status_code, refused.json()["code"]) == (400, "unsupported_request")
    assert "rephras" in refused.json()["message"]


async def test_one_client_cannot_take_all_of_the_disk(serve: Serve) -> None:
    async with serve(max_held_bytes=5 * 4096, max_body_bytes=4096) as client:
        statuses = [(await translated(client, "a.txt", b"one")).status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 200, 503]
