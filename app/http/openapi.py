"""The OpenAPI document: an operation is a Starlette route together with what the document says about it."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any, Final, Literal, NoReturn

from pydantic import BaseModel, TypeAdapter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.http.body import FORM, JSON, MULTIPART, TEXTS
from app.http.errors import ErrorBody, error_response
from app.http.streaming import EVENT_STREAM

ENDPOINT: Final = "endpoint"
"""Key in `scope["state"]`: the path of the operation, with the names of its parameters."""
Endpoint = Callable[[Request], Awaitable[object]]

_DESCRIPTION: Final = (
    "Translates text with models you own. Programs written for LibreTranslate or DeepL work unchanged."
)
_REF: Final = "#/components/schemas/{model}"
_FORM: Final = "Form"
_CHOICES: Final = ("anyOf", "oneOf")
_ON_ANY_PATH: Final = (
    "What may happen on any path: 405 for a method that it does not take; 408, 413, 414, 431 "
    "for a request that comes too slowly or in too many pieces, or whose head is too large; 400, 505 for "
    "what is no request; 503 when there are too many connections; 500"
)
_WHEN: Final = {
    400: "Well-formed, but cannot be served: unknown language, pair or model; or not UTF-8",
    401: "An API key is needed",
    403: "The API key is not valid",
    404: "There is no glossary, document or file of this id or name",
    413: "The body, the number of texts or a text is over a limit, which is named",
    415: "Another content type, encoding or charset than JSON or a form in UTF-8",
    422: "A field is missing, unknown, of the wrong type or out of range",
    429: "This client is over its rate",
    500: "A fault of ours; the log has it under the request id",
    503: "Not now: `code` says why, `Retry-After` when again where that is known",
    504: "The deadline passed; the work was cancelled",
}
_RETRY_AFTER: Final = {
    "Retry-After": {
        "description": "Seconds after which trying again makes sense",
        "schema": {"type": "integer"},
    }
}
_NEED_A_KEY: Final = ("/translate", "/detect", "/suggest", "/translate_file", "/v2/", "/v3/")
_SECURITY: Final = {
    "key": {"type": "http", "scheme": "bearer"},
    "deepl": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "`DeepL-Auth-Key KEY`; `Bearer KEY` does as well",
    },
}
_EVENTS: Final = """event: partial
data: {"index":0,"translatedText":"Où est"}

event: partial
data: {"index":0,"translatedText":"Où est la"}

event: done
data: {"translatedText":"Où est la gare ?","model":"tatoeba-en-fr","model_version":"1+0f3a9c2e"}

"""
_EVENTS_MEAN: Final = (
    "The answer, or with `Accept: text/event-stream` Server-Sent Events: `partial`, what is certain of text "
    "number `index`, whenever it has grown (only ever added to); at last `done`, the answer "
    "as it is without streaming (but no sentence that was shown is translated a second time), or `error`, "
    "an error's body. Lines that begin with a colon only keep the connection alive."
)


class Operation(Route):
    """A route that is part of the API; the docstring of its endpoint is its description.

    Args:
        path: Path that is matched exactly.
        endpoint: Answers a request with a response, or with what the JSON answer is made from.
        methods: HTTP methods that the path takes; HEAD comes with GET.
        tag: Group of operations that it belongs to.
        summary: Its title.
        answer: Type of the JSON answer, or the media type of another one; None if it has no body. NoReturn
            if each request is refused.
        body: Schema of the body, which may also come as a form.
        errors: Statuses of error answers that are specific to it.
        parameters: Query parameters, as OpenAPI describes them.
        can_stream: Whether the answer may come as Server-Sent Events.
    """

    def __init__(
        self,
        path: str,
        endpoint: Endpoint,
        *methods: str,
        tag: str,
        summary: str,
        answer: object = None,
        body: type[BaseModel] | None = None,
        errors: Sequence[int] = (),
        parameters: Sequence[Mapping[str, object]] = (),
        can_stream: bool = False,
    ) -> None:
        super().__init__(path, endpoint, methods=methods)
        self.verbs = methods
        self.tag = tag
        self.summary = summary
        self.answer: Any = answer
        self.body = body
        self.errors = errors
        self.parameters = parameters
        self.can_stream = can_stream

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for this path, also with the error that the endpoint raises."""
        request = Request(scope, receive, send)
        scope.setdefault("state", {})[ENDPOINT] = self.path
        try:
            if scope["method"] not in self.verbs:
                routes = (each for each in scope["app"].routes if getattr(each, "path", "") == self.path)
                methods = {method for each in routes for method in each.methods or ()}
                raise HTTPException(405, headers={"Allow": ", ".join(methods)})
            answer = await self.endpoint(request)
            response = answer if isinstance(answer, Response) else self._rendered(answer)
        except Exception as error:
            response = error_response(error, request)
        await response(scope, receive, send)

    def _rendered(self, answer: object) -> Response:
        """Returns an answer of status 200 without the fields that were not set."""
        return Response(self._adapter.dump_json(answer, exclude_unset=True), media_type=JSON)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.answer)


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Returns the OpenAPI document of some operations."""
    bodies = {each.body.__name__: each.body for each in operations if each.body is not None}
    types = {_id(each, each.verbs[0]): each.answer for each in operations if _is_json(each)}
    answers, schemas = _json_schemas(types | {"error": ErrorBody}, "serialization")
    for schema in schemas.values():
        for field in schema["properties"].values():
            if field.get("default", ...) is None:
                # An answer leaves such a field out.
                del field["default"]
    schemas |= _json_schemas(bodies, "validation")[1]
    body_schemas = {name for each in operations for name in _body_schemas(each).values()}
    schemas |= {name + _FORM: _as_form(schemas[name]) for name in bodies if name + _FORM in body_schemas}
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        answer = answers.get(_id(each, each.verbs[0]))
        for method in each.verbs:
            paths.setdefault(each.path, {})[method.lower()] = _describe(each, method, answer)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Dragoman", "description": _DESCRIPTION, "version": version("dragoman")},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": _SECURITY},
    }


def _json_schemas(
    types: Mapping[str, Any], mode: Literal["validation", "serialization"]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the schema of each type by its name, and the definitions that these refer to."""
    adapters = [(name, mode, TypeAdapter(type_)) for name, type_ in types.items()]
    found, definitions = TypeAdapter.json_schemas(adapters, ref_template=_REF)
    return {name: schema for (name, _), schema in found.items()}, definitions["$defs"]


def _is_json(operation: Operation) -> bool:
    return not (operation.answer in (None, NoReturn) or isinstance(operation.answer, str))


def _id(operation: Operation, method: str) -> str:
    return re.sub(r"\W", "_", f"{operation.name}{operation.path}") + f"_{method.lower()}"


def _describe(operation: Operation, method: str, answer: Mapping[str, Any] | None) -> dict[str, Any]:
    name = _id(operation, method)
    described: dict[str, Any] = {
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": inspect.getdoc(operation.endpoint),
        "operationId": name,
        "responses": {
            **_success(operation, name, answer),
            **{str(status): _error(status) for status in operation.errors},
            "default": {"description": _ON_ANY_PATH, "content": _content(_ref(ErrorBody.__name__))},
        },
    }
    if parameters := [*map(_in_path, operation.param_convertors), *operation.parameters]:
        described["parameters"] = parameters
    if operation.body is not None:
        content = {kind: {"schema": _ref(name)} for kind, name in _body_schemas(operation).items()}
        described["requestBody"] = {"required": True, "content": content}
    if operation.path.startswith(_NEED_A_KEY):
        described["security"] = [{}, {"deepl" if operation.path.startswith(("/v2/", "/v3/")) else "key": []}]
    return described


def _in_path(name: str) -> Mapping[str, object]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _body_schemas(operation: Operation) -> dict[str, str]:
    """Returns the name of the schema of a body by its media type."""
    if operation.body is None:
        return {}
    name = operation.body.__name__
    if "file" in operation.body.model_fields:
        return {MULTIPART: name + _FORM}
    if operation.path.startswith("/v3/"):
        # A form has no lists of objects.
        return {JSON: name}
    return {JSON: name, FORM: name + _FORM, MULTIPART: name + _FORM}


def _success(operation: Operation, name: str, answer: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the answer to a request that succeeds, by its status; nothing if none does."""
    if operation.answer is NoReturn:
        return {}
    if operation.answer is None:
        return {"204": {"description": "Done; the answer has no body"}}
    if answer is None:
        binary = {} if operation.answer.startswith("text/") else {"format": "binary"}
        content: dict[str, Any] = {operation.answer: {"schema": {"type": "string", **binary}}}
    else:
        is_list = answer.get("type") == "array"
        title = {"title": f"Response {name.replace('_', ' ').title()}"} if is_list else {}
        content = _content({**answer, **title})
    if not operation.can_stream:
        return {"200": {"description": "Successful Response", "content": content}}
    events = {EVENT_STREAM: {"schema": {"type": "string"}, "example": _EVENTS}}
    return {"200": {"description": _EVENTS_MEAN, "content": content | events}}


def _error(status: int) -> dict[str, Any]:
    headers = {"headers": _RETRY_AFTER} if status in (429, 503) else {}
    return {"description": _WHEN[status], "content": _content(_ref(ErrorBody.__name__)), **headers}


def _content(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {JSON: {"schema": schema}}


def _ref(model: str) -> dict[str, str]:
    return {"$ref": _REF.format(model=model)}


def _as_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema of a JSON body as a form spells it: without null, and objects as JSON texts."""
    fields = {name: _form_field(field) for name, field in schema["properties"].items()}
    for name in {*schema.get("required", ())} - TEXTS:
        if fields[name].get("type") == "string":
            # A blank field counts as not sent.
            fields[name].setdefault("minLength", 1)
    return {key: value for key, value in schema.items() if key != "examples"} | {"properties": fields}


def _form_field(field: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in field.items() if key not in _CHOICES and value is not None}
    choices = [
        choice
        for kind in _CHOICES
        for choice in field.get(kind, ())
        if choice.get("type") != "null" and "$ref" not in choice.get("items", {})
    ]
    spelt = plain | (choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {})
    if "$ref" not in spelt:
        return spelt
    kept = {key: value for key, value in spelt.items() if key not in ("$ref", "default")}
    return {**kept, "type": "string", "contentMediaType": JSON}
