"""The page and the documentation: whole, and without any other host."""

import re
from pathlib import Path

import httpx
import pytest

import app.http.routes

pytestmark = pytest.mark.anyio
WEB = Path(app.http.routes.__file__).parents[1] / "web"
SCRIPTS = (".css", ".js")
PAGES = pytest.mark.parametrize("path", ["/", "/docs"])


@PAGES
async def test_a_page_names_no_other_host_and_all_its_parts_are_there(
    client: httpx.AsyncClient, path: str
) -> None:
    page = await client.get(path)
    assert page.headers["content-type"].startswith("text/html")
    assert "//" not in page.text.replace("<!doctype html>", "")
    parts = re.findall(r"""(?:src|href)="([^"]+)""", page.text)
    assert len(parts) >= 3
    for part in set(parts) - {"data:,"}:
        assert (await client.get("/" + part)).status_code == 200


@PAGES
async def test_a_page_may_load_nothing_from_elsewhere(client: httpx.AsyncClient, path: str) -> None:
    page = await client.get(path)
    directives = dict(
        directive.split(maxsplit=1) for directive in page.headers["Content-Security-Policy"].split("; ")
    )
    assert directives["default-src"] == "'none'"
    assert {source for sources in directives.values() for source in sources.split()} == {
        "'none'",
        "'self'",
        "data:",
    }
    # What the policy forbids must not be there either.
    assert not re.search(r"<style|\bstyle=|\bon[a-z]+=|<script>", page.text)


@pytest.mark.parametrize("path", [f"/web/{file.name}" for file in WEB.iterdir() if file.suffix in SCRIPTS])
async def test_scripts_and_styles_use_no_other_host(client: httpx.AsyncClient, path: str) -> None:
    text = (await client.get(path)).text
    assert text
    assert not re.search(r"https?://|@import|url\(", text)


@pytest.mark.parametrize("path", ["/", "/docs", "/web/page.html", "/web/page.js", "/swagger/swagger-ui.css"])
async def test_pages_cannot_be_framed_and_types_are_not_sniffed(client: httpx.AsyncClient, path: str) -> None:
    headers = (await client.get(path)).headers
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-cache", "nothing is kept over an upgrade"


async def test_the_documentation_is_drawn_from_our_description(client: httpx.AsyncClient) -> None:
    assert 'url: "openapi.json"' in (await client.get("/web/docs.js")).text
    assert "SwaggerUIBundle" in (await client.get("/swagger/swagger-ui-bundle.js")).text


async def test_the_page_has_the_same_words_in_every_language(client: httpx.AsyncClient) -> None:
    script = (await client.get("/web/words.js")).text
    blocks = re.findall(r"^  ([a-z]{2}): \{(.*?)^  \},", script, re.MULTILINE | re.DOTALL)
    names = {language: re.findall(r"(?:^|, |\s)(\w+): \"", block) for language, block in blocks}
    assert set(names) == {"en", "fr", "de", "es", "zh"}
    assert all(sorted(each) == sorted(names["en"]) for each in names.values())
    page = "".join(file.read_text("utf-8") for file in WEB.iterdir() if file.suffix in (".html", ".js"))
    used = re.findall(r"data-(?:words|label|hint)=\"(\w+)\"", page) + re.findall(r"words\(\"(\w+)\"\)", page)
    assert set(used) <= set(names["en"])
