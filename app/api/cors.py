"""① Browsers of other origins: nobody by default; who is refused hears it in our words."""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from app.api.account import REQUEST_ID_HEADER
from app.api.errors import RequestError


class CrossOriginMiddleware(CORSMiddleware):
    """Lets the pages of some origins ask; no cookies are involved.

    Args:
        app: What answers.
        origins: Such as `https://example.org`, or `*` alone.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", REQUEST_ID_HEADER],
            expose_headers=["Retry-After", "Server-Timing", REQUEST_ID_HEADER],
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """What a browser hears before it asks.

        Raises:
            RequestError: If its page may not ask, or not so.
        """
        response = super().preflight_response(request_headers)
        if response.status_code >= 400:
            message = "this origin may not ask, or not with this method or these headers (CORS_ORIGINS)"
            raise RequestError("cross_origin_refused", message, headers={"Vary": "Origin"})
        return response
