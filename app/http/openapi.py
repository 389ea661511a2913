"""What /docs and /openapi.json say beyond what FastAPI finds out: bodies and errors.

Bodies are read by our own stricter parser, so FastAPI does not see their schemas.

Dependencies, exit stacks and the walk through all routes cost more than everything else that HTTP
costs a short text. FastAPI still documents these routes, and answers what does not match exactly.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from app.http.body import FORM, JSON
from app.http.deepl.schemas import DeepLTranslateRequest
from app.http.errors import ErrorBody, respond
from app.http.schemas import DetectRequest, TranslateRequest
from app.http.streaming import EVENT_STREAM

_REF = "#/components/schemas/{model}"
_FORM = "Form"
_ON_ANY_PATH = {
    "description": "What may happen on any path: 405 for a method that it does not take; 408, 413, 414, 431 "
    "for a request that comes too slowly or in too many pieces, or whose head is too large; 400, 505 for "
    "what is no request; 503 when there are too many connections; 500",
    "content": {JSON: {"schema": {"$ref": _REF.format(model=ErrorBody.__name__)}}},
}
_WHEN = {
    400: "Well-formed, but cannot be served: unknown language, pair or model; or not UTF-8",
    401: "An API key is needed",
    403: "The API key is not valid",
    413: "The body, the number of texts or a text is over a limit, which is named",
    415: "Another content type, encoding or charset than JSON or a form in UTF-8",
    422: "A field is missing, unknown, of the wrong type or out of range",
    429: "This client is over its rate",
    500: "A fault of ours; the log has it under the request id",
    503: "Not now: `code` says why, `Retry-After` when again where that is known",
    504: "The deadline passed; the work was cancelled",
}
_NEED_A_KEY = ("/translate", "/detect", "/v2/")
_SCHEMES = {
    "key": {"type": "http", "scheme": "bearer"},
    "deepl": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "`DeepL-Auth-Key KEY`; `Bearer KEY` does as well",
    },
}

_EVENTS = """event: partial
data: {"index":0,"translatedText":"Où est"}

event: partial
data: {"index":0,"translatedText":"Où est la"}

event: done
data: {"translatedText":"Où est la gare ?","model":"tatoeba-en-fr","model_version":"1+0f3a9c2e"}

"""
_EVENTS_MEAN = (
    "The answer, or with `Accept: text/event-stream` Server-Sent Events: `partial`, what is certain of text "
    "number `index`, whenever it has grown (only ever added to); at last `done`, the answer "
    "as it is without streaming (but no sentence that was shown is translated a second time), or `error`, "
    "an error's body. Lines that begin with a colon only keep the connection alive."
)


def as_events() -> dict[int | str, dict[str, Any]]:
    """The answer of a route that can stream it, for its documentation."""
    content = {"schema": {"type": "string"}, "example": _EVENTS}
    return {200: {"description": _EVENTS_MEAN, "content": {EVENT_STREAM: content}}}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error answers of a route, for its documentation."""
    return {
        status: {"model": ErrorBody, "description": _WHEN[status]} | _headers(status) for status in statuses
    }


def _headers(status: int) -> dict[str, Any]:
    if status not in (429, 503):
        return {}
    description = "Seconds after which trying again makes sense"
    return {"headers": {"Retry-After": {"description": description, "schema": {"type": "integer"}}}}


def body_of(schema: type[BaseModel]) -> dict[str, Any]:
    """The body of a route, for its documentation."""
    name = schema.__name__
    content = {JSON: name, FORM: name + _FORM}
    references = {kind: {"schema": {"$ref": _REF.format(model=name)}} for kind, name in content.items()}
    return {"requestBody": {"required": True, "content": references}}


def install(app: FastAPI) -> None:
    """Let the application describe its bodies too."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _describe(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _describe(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    bodies = [(body, "validation") for body in (TranslateRequest, DetectRequest, DeepLTranslateRequest)]
    _, schemas = models_json_schema(bodies, ref_template=_REF)  # type: ignore[arg-type]
    components = document.setdefault("components", {})
    models = schemas["$defs"]
    forms = {body.__name__ + _FORM: _as_form(models[body.__name__]) for body, _ in bodies}
    components.setdefault("schemas", {}).update(models | forms)
    components["securitySchemes"] = _SCHEMES
    for path, methods in document["paths"].items():
        for method in methods.values():
            method["responses"].setdefault("default", _ON_ANY_PATH)
        scheme = "deepl" if path.startswith("/v2/") else "key"
        for method in methods.values() if path.startswith(_NEED_A_KEY) else ():
            method["security"] = [{}, {scheme: []}]
    return document


def _as_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same fields as a form spells them: nothing is null, and an object is JSON in a text.

    Args:
        schema: Of a JSON body.
    """
    fields = {name: _form_field(field) for name, field in schema["properties"].items()}
    return {key: value for key, value in schema.items() if key != "examples"} | {"properties": fields}


def _form_field(field: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in field.items() if key != "anyOf" and value is not None}
    choices = [choice for choice in field.get("anyOf", ()) if choice.get("type") != "null"]
    spelt = plain | (choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {})
    if "$ref" not in spelt:
        return spelt
    kept = {key: value for key, value in spelt.items() if key not in ("$ref", "default")}
    return {**kept, "type": "string", "contentMediaType": JSON}


Endpoint = Callable[[Request], Awaitable[Response]]


class ShortcutMiddleware:
    """Calls an endpoint at once where that is all its route would do.

    Args:
        app: What answers everything else.
        routes: Those with the signature of an Endpoint are called.
    """

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        self._endpoints: dict[tuple[str, str], Endpoint] = {
            (method, route.path): route.endpoint
            for route in routes
            if isinstance(route, APIRoute) and _takes_only_the_request(route.endpoint)
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, refusals included: what is around has its own to add to every answer."""
        endpoint = self._endpoints.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if endpoint is None:
            await self._app(scope, receive, send)
        else:
            response = await _answer(endpoint, Request(scope, receive, send))
            await response(scope, receive, send)


async def _answer(endpoint: Endpoint, request: Request) -> Response:
    try:
        return await endpoint(request)
    except Exception as fault:
        return respond(fault, request)


def _takes_only_the_request(endpoint: Callable[..., object]) -> bool:
    signature = inspect.signature(endpoint)
    takes = [parameter.annotation for parameter in signature.parameters.values()]
    gives = signature.return_annotation
    return inspect.iscoroutinefunction(endpoint) and takes == [Request] and gives is Response
