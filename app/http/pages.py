"""⑨ The pages for browsers: the web page and the documentation, with nothing from other hosts."""

import os
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

_WEB: Final = Path(__file__).parents[1] / "web"
_HEADERS: Final = {
    # After an upgrade, a cached old script must not run in the new page.
    "Cache-Control": "no-cache",
    # Nothing inline and nothing from other hosts, so that a translation that is markup does no harm.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    # For browsers without `frame-ancestors`.
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


async def page(_request: Request) -> FileResponse:
    """The web page."""
    return FileResponse(_WEB / "page.html", headers=_HEADERS)


async def docs(_request: Request) -> FileResponse:
    """The documentation in Swagger UI."""
    return FileResponse(_WEB / "docs.html", headers=_HEADERS)


class _Assets(StaticFiles):
    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        # All files get them: a page also has a path by the name of its file.
        response.headers.update(_HEADERS)
        return response


ROUTES: Final = (
    Route("/", page),
    Route("/docs", docs),
    Mount("/web", _Assets(directory=_WEB), name="web"),
    Mount("/swagger", _Assets(packages=[("fastapi_swagger", "resources")]), name="swagger"),
)
