"""Routes that only take the request are called without FastAPI; everything else goes its usual way."""

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from app.http.openapi import ShortcutMiddleware
from app.main import create_app
from app.settings import Settings
from tests.app.conftest import client_of
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio
router = APIRouter()


@router.post("/direct")
async def direct(request: Request) -> Response:
    return Response(await request.body())


@router.get("/model", response_model=None)
async def with_a_parameter(request: Request, name: str = "x") -> Response:
    return PlainTextResponse(name)


@router.get("/plain")
def on_a_thread(request: Request) -> Response:
    return PlainTextResponse("plain")


async def usual_way(_scope: Scope, _receive: Receive, send: Send) -> None:
    await PlainTextResponse("usual way")(_scope, _receive, send)


@pytest.mark.parametrize(
    ("method", "path", "answer"),
    [
        ("POST", "/direct", "body"),
        ("POST", "/direct/", "usual way"),
        ("GET", "/direct", "usual way"),
        ("POST", "/other", "usual way"),
        ("GET", "/model", "usual way"),
        ("GET", "/plain", "usual way"),
    ],
)
async def test_only_an_exact_match_is_short(method: str, path: str, answer: str) -> None:
    transport = httpx.ASGITransport(ShortcutMiddleware(usual_way, router.routes))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        assert (await client.request(method, path, content=b"body")).text == answer


async def test_translating_does_not_walk_through_the_routes(
    backend: DoubleBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(Settings(_env_file=None), backend)

    async def unexpected(*_: object) -> None:
        raise AssertionError("the router was asked")

    async with app.router.lifespan_context(app):
        monkeypatch.setattr(app.router, "middleware_stack", unexpected)
        async with client_of(app) as client:
            response = await client.post("/translate", json={"q": "one", "source": "en", "target": "fr"})
            assert (response.status_code, response.json()["translatedText"]) == (200, "ONE")
            assert (await client.post("/detect", json={"q": "Où est-ce ?"})).status_code == 200
            assert (await client.get("/livez")).status_code == 500


def test_the_documentation_still_knows_them() -> None:
    app = FastAPI()
    app.include_router(router)
    assert "/direct" in app.openapi()["paths"]
